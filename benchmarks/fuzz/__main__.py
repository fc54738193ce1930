"""`python -m benchmarks.fuzz [cases]`: mutated runs through every reader; prints each traceback and the memory it took.

Exit code 1 if a reader ended in anything but an answer or a CutawayError, hung, or took more than 512 MB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.fuzz.readers import MOST_BYTES, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int, nargs="?", default=5000)
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="number of the first case, to see one again",
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = fuzz(Path(place), range(args.first, args.first + args.cases))
    for number, what, failure in found.failures:
        print(f"case {number}: {what}\n  {failure}")
    print(
        f"{args.cases} cases, {len(found.failures)} tracebacks, {found.peak >> 20} MB at most"
    )
    return int(bool(found.failures) or found.peak > MOST_BYTES)


sys.exit(main())
