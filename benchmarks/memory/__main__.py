"""The table of docs/memory.md: what was planted, and what was found."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from . import programs
from .planted import line_of, run_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--at-once", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run_all(Path(folder), args.seconds, args.at_once)
    leaks = [program.__name__ for program in programs.LEAKS]
    print("| program | planted | found | rate |\n|---|---|---|---|")
    for name, one in found.items():
        planted = f"line {line_of(name)}" if name in leaks else "–"
        told = (
            ", ".join(f"{row['kind']} line {row['line']}" for row in one.growing) or "–"
        )
        rate = ", ".join(f"{row['per_s'] / programs.RATE:.2f}" for row in one.growing)
        print(f"| {name} | {planted} | {told} | {rate} |")


if __name__ == "__main__":
    main()
