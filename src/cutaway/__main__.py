"""python -m cutaway: the command line without its script on PATH."""

import sys

from cutaway.commands import main

sys.exit(main())
