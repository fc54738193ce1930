"""The second measure, which needs no annotation: what py-spy saw in the same run.

    python -m benchmarks.naming.samples rsl_rl -- .venv-frameworks/bin/python train.py

py-spy samples the stacks of all processes while Cutaway records them. A table of functions (`functions.py`) says what a stack is for.
Of each process, the thread is compared that Cutaway's tables are about. Both are shares of the time that has a name. They must agree
within 5 points, and at most 10 % of the time in which a process does not wait may be without a name. Samples and names come from one
run, so a busy machine does not disturb the comparison. `--keep` keeps the recording and the samples for `cutaway show --why`.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cutaway
from benchmarks.naming.compare import MINIMUM_S, OFF_LIMIT, UNNAMED_LIMIT
from benchmarks.naming.functions import COMPILING, TABLES, Table

RATE_HZ = 10
FRAME = re.compile(r"(?P<name>.+) \((?P<file>.+?)(?::(?P<line>\d+))?\)$")
PROCESS = re.compile(r"process (?P<pid>\d+)")
THREAD = re.compile(r"thread \((?P<tid>\d+)\)")
Thread = tuple[int, int]
"""A process and a thread, as the operating system calls them."""


@dataclass(frozen=True)
class Seen:
    """One process: shares of its named time as Cutaway found them and as py-spy saw them."""

    name: str
    samples: int
    found: dict[str, float]
    sampled: dict[str, float]
    unnamed: float
    """Share of the steady time, without waiting, that has no name."""

    def off(self) -> dict[str, float]:
        """How far Cutaway is from py-spy, by operation."""
        names = self.found.keys() | self.sampled.keys()
        return {
            name: self.found.get(name, 0.0) - self.sampled.get(name, 0.0)
            for name in sorted(names)
        }

    def failures(self) -> list[str]:
        out = [f"{self.unnamed:.0%} unnamed"] if self.unnamed > UNNAMED_LIMIT else []
        for name, off in self.off().items():
            if abs(off) > OFF_LIMIT:
                out.append(f"{name} {off * 100:+.0f} points against py-spy")
        return out


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
    pids = [int(row["pid"]) for row in run.processes()]
    names = [str(row["name"]) for row in run.processes()]
    times = _times(run)
    steady = _times(run.steady())
    out = []
    for row in run.threads():
        thread, process = int(row["thread"]), int(row["process"])
        seen = stacks.get((pids[process], int(row["tid"])), Counter())
        found = Counter(times.get(thread, Counter()))
        del found[""]
        if not run.swept.summary_threads[thread] or not seen:
            continue
        if found.total() > MINIMUM_S * 1e9:
            unnamed = _shares(steady.get(thread, Counter())).get("", 0.0)
            shares = _shares(found), _shares(seen)
            out.append(Seen(names[process], seen.total(), *shares, unnamed))
    return out


def _times(run: Any) -> dict[int, Counter[str]]:
    """Time by operation of each thread, but for waiting that has no name."""
    out: dict[int, Counter[str]] = {}
    for part in run.breakdown(by=("thread", "operation", "layer")):
        if part["operation"] or part["layer"] != "wait":
            own = out.setdefault(int(part["thread"]), Counter())
            own[part["operation"]] += int(part["raw_ns"])
    return out


def classified(text: str, table: Table) -> dict[Thread, Counter[str]]:
    """Samples by thread and operation; those that the table says nothing about, or that wait for work, are left out."""
    out: dict[Thread, Counter[str]] = {}
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        thread = _thread(frames)
        operation = _operation(frames, table)
        if thread and operation:
            out.setdefault(thread, Counter())[operation] += int(count)
    return out


def _thread(frames: list[str]) -> Thread | None:
    """A child's frames stand behind those of its parents: the last process is its own."""
    processes = [one for one in map(PROCESS.match, frames) if one]
    threads = [one for one in map(THREAD.match, frames) if one]
    if not processes or not threads:
        return None
    return int(processes[-1]["pid"]), int(threads[-1]["tid"])


def _operation(frames: list[str], table: Table) -> str | None:
    for frame in reversed(frames):
        found = FRAME.match(frame)
        if not found:
            continue
        # Importing a file does not run what it is for; a line of it may.
        function = found["name"].rpartition(".")[2]
        function = "" if function == "<module>" else function
        operation = _look_up(found["file"], function, int(found["line"] or 0), table)
        if operation is not None:
            return operation
    return None


def _look_up(file: str, function: str, line: int, table: Table) -> str | None:
    parts = file.split("/")
    for first in range(max(0, len(parts) - 6), len(parts)):
        path = "/".join(parts[first:])
        known = _lines(path, line, table)
        if known is not None:
            return known
        below = f"{parts[first]}/*"
        for key in (f"{path}:{function}", f"{path}:*", f"{below}:{function}"):
            if function and key in table:
                return table[key]
    return None


def _lines(path: str, line: int, table: Table) -> str | None:
    """What the table says of a line, by a key FILE:FIRST-LAST."""
    for key, operation in table.items():
        file, _, lines = key.rpartition(":")
        first, dash, last = lines.partition("-")
        if file == path and dash and int(first) <= line <= int(last):
            return operation
    return None


def _shares(times: Counter[str]) -> dict[str, float]:
    return {name: time / times.total() for name, time in times.most_common()}


def text(seen: Seen) -> str:
    """One process, for the terminal."""
    lines = [
        f"  {seen.name}: {seen.samples} samples, {seen.unnamed:.1%} unnamed  "
        f"{'; '.join(seen.failures()) or 'ok'}"
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
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep recording and samples here, and use those that are",
    )
    parser.add_argument(
        "--seconds", type=float, help="interrupt the program then, as Ctrl-C does"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- PYTHON SCRIPT …")
    args = parser.parse_args()
    program = [one for one in args.program if one != "--"]
    # A shell starts what runs in the background without Ctrl-C, and the program would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="naming-") as scratch:
        folder = (args.keep or Path(scratch)).absolute()
        results = compare(*_measure(program, folder, args.seconds), args.table)
    print("\n".join(map(text, results)))
    raise SystemExit(1 if any(seen.failures() for seen in results) else 0)


def _measure(
    program: list[str], folder: Path, seconds: float | None
) -> tuple[Path, Path]:
    """Run the program, unless that was done before; where the recording and the samples are."""
    folder.mkdir(parents=True, exist_ok=True)
    recorded, sampled = folder / "run.cutaway", folder / "samples"
    if sampled.exists():
        return recorded, sampled
    environment = {**os.environ, "CUTAWAY": f"{recorded}?calibrate_share=0"}
    running = subprocess.Popen(command(program, sampled), env=environment)
    try:
        running.wait(seconds)
    except subprocess.TimeoutExpired:
        _interrupt(running.pid)
        running.wait()
    if not sampled.exists():
        raise SystemExit("py-spy wrote no samples; its message stands above")
    return recorded, sampled


def _interrupt(sampler: int) -> None:
    """Only the program: py-spy then writes what it saw."""
    children = Path(f"/proc/{sampler}/task/{sampler}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGINT)


if __name__ == "__main__":
    main()
