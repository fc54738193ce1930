"""How much a costly test does: all of it on the Python that everything is tested on, less on the others."""

from __future__ import annotations

import sys
from typing import TypeVar

MAIN = (3, 11)

T = TypeVar("T")


def effort(whole: T, part: T) -> T:
    """`whole` on the main Python; `part` where the core tests are repeated for what differs between Pythons."""
    return whole if sys.version_info[:2] == MAIN else part
