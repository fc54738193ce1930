"""Runs one program, as it is or with the advice applied, and prints its rate.

    python -m benchmarks.verdicts.programs NAME SECONDS [FLAG]

The rate is what it did in a second, and in a second of CPU time of the main process.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.verdicts.declare import PROGRAMS


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """NAME and SECONDS, and the one flag that this program knows."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.verdicts.programs", allow_abbrev=False
    )
    parser.add_argument("name", choices=sorted(PROGRAMS))
    parser.add_argument("seconds", type=float)
    name = next((word for word in given if word in PROGRAMS), "")
    flag = PROGRAMS[name].flag if name else ""
    if flag:
        parser.add_argument(flag, dest="applied", action="store_true")
    parser.set_defaults(applied=False)
    return parser.parse_args(given)


def main() -> None:
    args = arguments(sys.argv[1:])
    program = PROGRAMS[args.name]
    if args.applied or not program.threads:
        one_thread()
    print(json.dumps(program.run(args.applied, args.seconds)._asdict()))


def one_thread() -> None:
    """One busy core for each process, so that programs measure themselves and not their thread pools."""
    import torch

    torch.set_num_threads(1)


if __name__ == "__main__":
    main()
