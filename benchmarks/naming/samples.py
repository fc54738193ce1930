"""The second measure, which needs no annotation: what py-spy saw in the same run.

    python -m benchmarks.naming.samples rsl_rl -- .venv-frameworks/bin/python train.py

py-spy samples the stacks of all processes while Cutaway records them. A table of functions (`functions.py`) says what a stack is for.
Both are shares of the time that has a name. They must agree within 5 points.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import cutaway
from benchmarks.naming.compare import MINIMUM_S, OFF_LIMIT
from benchmarks.naming.functions import COMPILING, TABLES, Table

RATE_HZ = 20
FRAME = re.compile(r"(?P<name>.+) \((?P<file>.+?)(?::\d+)?\)$")
PROCESS = re.compile(r"process (?P<pid>\d+)")
THREAD = re.compile(r"thread \((?P<tid>\w+)\)")


@dataclass(frozen=True)
class Seen:
    """One process: shares of its named time as Cutaway found them and as py-spy saw them."""

    name: str
    samples: int
    found: dict[str, float]
    sampled: dict[str, float]

    def off(self) -> dict[str, float]:
        """How far Cutaway is from py-spy, by operation."""
        names = self.found.keys() | self.sampled.keys()
        return {
            name: self.found.get(name, 0.0) - self.sampled.get(name, 0.0)
            for name in sorted(names)
        }

    def failures(self) -> list[str]:
        return [
            f"{name} {off * 100:+.0f} points against py-spy"
            for name, off in self.off().items()
            if abs(off) > OFF_LIMIT
        ]


def command(program: list[str], output: Path) -> list[str]:
    """A command that runs a program, and samples it and all its children into a file."""
    sampler = Path(sys.executable).with_name("py-spy")
    how = [
        "--rate",
        str(RATE_HZ),
        "--nonblocking",
        "--idle",
        "--subprocesses",
        "--threads",
    ]
    return [
        str(sampler),
        "record",
        *how,
        "--full-filenames",
        "--format",
        "raw",
        "-o",
        str(output),
        "--",
        *program,
    ]


def compare(recorded: Path, sampled: Path, table: str) -> list[Seen]:
    """Every process that both know, with both shares."""
    run = cutaway.open(recorded)
    stacks = classified(sampled.read_text(), TABLES[table] | COMPILING)
    times: dict[int, Counter[str]] = {}
    for part in run.breakdown(by=("process", "operation")):
        if part["operation"]:
            times.setdefault(int(part["process"]), Counter())[part["operation"]] += int(
                part["raw_ns"]
            )
    out = []
    for row in run.processes():
        found = times.get(int(row["process"]), Counter())
        seen = stacks.get(int(row["pid"]), Counter())
        if found.total() > MINIMUM_S * 1e9 and seen:
            out.append(Seen(row["name"], seen.total(), _shares(found), _shares(seen)))
    return out


def classified(text: str, table: Table) -> dict[int, Counter[str]]:
    """Samples by process and operation; those that the table says nothing about, or that wait for work, are left out."""
    out: dict[int, Counter[str]] = {}
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        process = PROCESS.match(frames[0])
        operation = _operation(frames, table)
        if process and operation:
            out.setdefault(int(process["pid"]), Counter())[operation] += int(count)
    return out


def _operation(frames: list[str], table: Table) -> str | None:
    for frame in reversed(frames):
        found = FRAME.match(frame)
        if (
            not found or found["name"] == "<module>"
        ):  # importing a file does not run what it is for
            continue
        function = found["name"].rpartition(".")[2]
        operation = _look_up(found["file"], function, table)
        if operation is not None:
            return operation
    return None


def _look_up(file: str, function: str, table: Table) -> str | None:
    parts = file.split("/")
    for first in range(max(0, len(parts) - 4), len(parts)):
        path = "/".join(parts[first:])
        for key in (f"{path}:{function}", f"{path}:*"):
            if key in table:
                return table[key]
    return None


def _shares(times: Counter[str]) -> dict[str, float]:
    return {name: time / times.total() for name, time in times.most_common()}


def text(seen: Seen) -> str:
    """One process, for the terminal."""
    lines = [
        f"  {seen.name}: {seen.samples} samples  {'; '.join(seen.failures()) or 'ok'}"
    ]
    for name, off in seen.off().items():
        found, sampled = seen.found.get(name, 0.0), seen.sampled.get(name, 0.0)
        lines.append(
            f"    {name:16} {found:6.1%} found {sampled:6.1%} py-spy {off * 100:+5.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.naming.samples", description=__doc__
    )
    parser.add_argument("table", choices=sorted(TABLES), help="the table of functions")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- PYTHON SCRIPT …")
    args = parser.parse_args()
    program = [one for one in args.program if one != "--"]
    with tempfile.TemporaryDirectory(prefix="naming-") as scratch:
        recorded, sampled = Path(scratch) / "run.cutaway", Path(scratch) / "samples"
        environment = {**os.environ, "CUTAWAY": f"{recorded}?calibrate_share=0"}
        subprocess.run(command(program, sampled), env=environment, check=True)
        results = compare(recorded, sampled, args.table)
    print("\n".join(map(text, results)))
    raise SystemExit(1 if any(seen.failures() for seen in results) else 0)


if __name__ == "__main__":
    main()
