"""How long does `cutaway what-if` take, and how much memory?

    python -m benchmarks.whatif.speed [--events 1e7] [--rounds 3]

Makes a synthetic run in a temporary folder: a main process that asks three workers in rounds and then updates, with calls of native
libraries in between. A fresh process each answers one change, a curve of ten points and the table. Seconds of CPU time do not depend on
what else the machine does; asked for are 5 s and 500 MB for one change, 10 s for the curve.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cutaway.trace import format as fmt
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import Kind

ROUNDS, CALLS, WORKERS = 16, 12, 3
STEP, TURN = 100_000, 160_000  # ns: a worker's step, and from one round to the next
CURVE = "cores=" + ",".join(map(str, range(1, 11)))
QUESTIONS = {"one change": ["simulation=2x"], "a curve of ten": [CURVE], "the table": []}  # fmt: skip

Row = tuple[int, int, int, int]


def main_rows(process: ProcessWriter) -> list[Row]:
    """One iteration of the main process, from 0 on."""
    read = process.call(layer="wait", fn="os.read")
    torch = process.call(layer="backend", fn="torch.linear")
    act, update = process.name("inference"), process.name("backpropagation")
    rows: list[Row] = []
    for number in range(ROUNDS):
        start = number * TURN
        rows += _calls(start, torch, act)
        asked = start + 20_000
        rows += [(asked + at, 1000, Kind.FEED, 1 + at) for at in range(WORKERS)]
        rows.append((asked + 10, STEP + 10_000, Kind.CALL, read))
        rows += [
            (asked + STEP + 10_020 + at, 1000, Kind.TAKE, 1 + WORKERS + at)
            for at in range(WORKERS)
        ]
    rows += _calls(ROUNDS * TURN, torch, update)
    rows.append((ROUNDS * TURN + 30_000, 0, Kind.ITERATION, 0))
    return rows


def worker_rows(process: ProcessWriter, number: int) -> list[Row]:
    """The same iteration of a worker."""
    read = process.call(layer="wait", fn="os.read")
    native = process.call(layer="simulator", fn="sim.step")
    step = process.name("simulation")
    rows: list[Row] = []
    for turn in range(ROUNDS):
        asked = turn * TURN + 20_000 + number
        rows.append((asked, 1000, Kind.TAKE, 1))
        rows += _calls(asked + 10, native, step, STEP)
        rows.append((asked + STEP + 9_000, 1000, Kind.FEED, 2))
        rows.append((asked + STEP + 9_100, 20_000, Kind.CALL, read))
    return rows


def _calls(start: int, call: int, operation: int, length: int = 15_000) -> list[Row]:
    """An operation with calls in it."""
    each = length // CALLS
    calls = [
        (start + 10 + at * each, each - 50, Kind.CALL, call) for at in range(CALLS)
    ]
    return [(start, 0, Kind.OP_ENTER, operation), *calls, (start + length, 0, Kind.OP_EXIT, operation)]  # fmt: skip


def make(folder: Path, events: int) -> int:
    """Writes the run and returns how many events it holds."""
    with RunWriter(folder, command="synthetic", cpus=8) as run:
        learner = run.process(pid=1, name="learner")
        for number in range(WORKERS):
            _channel(learner, 1 + number, f"asks {number}")
            _channel(learner, 1 + WORKERS + number, f"answers {number}")
        parts = [(learner, main_rows(learner))]
        for number in range(WORKERS):
            worker = run.process(pid=2 + number, ppid=1, name=f"worker-{number}")
            _channel(worker, 1, f"asks {number}")
            _channel(worker, 2, f"answers {number}")
            parts.append((worker, worker_rows(worker, number)))
        each = sum(len(rows) for _, rows in parts)
        return sum(_fill(process, rows, events // each) for process, rows in parts)


def _channel(process: ProcessWriter, id: int, name: str) -> None:
    process.log("channel", {"id": id, "on": name})


def _fill(process: ProcessWriter, rows: list[Row], iterations: int) -> int:
    thread = process.thread(tid=1, name="MainThread")
    pattern = fmt.records(*np.array(rows).T)
    length = ROUNDS * TURN + 40_000
    for number in range(iterations):
        moved = pattern.copy()
        moved["time"] += np.uint64(1000 + number * length)
        thread.append(moved)
    process.exit(t=1000 + iterations * length, code=0)
    return len(pattern) * iterations


def asked(folder: Path, words: list[str]) -> tuple[float, float, float]:
    """Seconds of CPU time, seconds, and the most memory in MB of a process that answers."""
    command = [sys.executable, "-m", "cutaway", "what-if", str(folder), *words]
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return used.ru_utime + used.ru_stime, time.monotonic() - start, used.ru_maxrss / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.whatif.speed")
    parser.add_argument("--events", type=float, default=1e7)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "synthetic.cutaway"
        events = make(folder, int(args.events))
        print(f"{events:,} events, medians of {args.rounds}")
        for name, words in QUESTIONS.items():
            rows = [asked(folder, words) for _ in range(args.rounds)]
            cpu, wall, memory = (
                statistics.median(column) for column in zip(*rows, strict=True)
            )
            print(
                f"{name:16} {cpu:5.1f} s of CPU time, {wall:5.1f} s, {memory:5.0f} MB"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
