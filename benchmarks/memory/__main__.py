"""The table of docs/memory.md: what was planted, and what was found."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from . import programs
from .planted import Found, line_of, run_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--no-lines", action="store_true", help="without --memory")
    args = parser.parse_args()
    lines = not args.no_lines
    with tempfile.TemporaryDirectory() as folder:
        found = run_all(Path(folder), args.seconds, args.at_once, lines)
    print("| program | planted | found | kept | of it found |\n|---|---|---|---|---|")
    for name, one in found.items():
        print(f"| {name} | {_planted(name)} | {_told(one)} | {_sizes(one, lines)} |")


def _planted(name: str) -> str:
    if name in programs.KEEPS:
        return f"leak at line {line_of(name)}"
    return "copies" if name == programs.fork_copies.__name__ else "fills"


def _told(one: Found) -> str:
    lines = {True: " at line {line}", False: ""}
    told = [row["kind"] + lines[row["line"] > 0].format(**row) for row in one.growing]
    return ", ".join(told) or "no growth"


def _sizes(one: Found, lines: bool) -> str:
    if not one.planted or not lines:
        return "– | –"
    return f"{one.planted / 1e6:.1f} MB | {one.kept / one.planted:.1%}"


if __name__ == "__main__":
    main()
