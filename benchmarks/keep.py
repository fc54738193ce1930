"""How much memory and disk does `--keep` need, and how fast is it? Feeds synthetic events at full speed.

    python -m benchmarks.keep                   # 20 million events
    python -m benchmarks.keep --events 1e9      # as many as a day of training has

Prints a line for each tenth of the events: events so far, the helper's memory, the run on disk, events a second.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from cutaway.keep import Keeper
from cutaway.trace import format as fmt
from cutaway.trace.reader import read_run
from cutaway.trace.writer import ProcessWriter, RunWriter, ThreadWriter
from cutaway.vocabulary import Kind

BLOCK = 200_000  # events, a millisecond for each ten of them
STEP_NS = 1_000_000
LAYERS = (
    "backend",
    "simulator",
    "native",
    "backend",
    "wait",
    "backend",
    "backend",
    "native",
)


def pattern(process: ProcessWriter) -> fmt.Structured:
    """A training step of ten events: one operation, eight calls in it."""
    calls = [process.call(layer=layer, fn=f"f{i}") for i, layer in enumerate(LAYERS)]
    name = process.name("backpropagation")
    rows = [(0, 0, Kind.OP_ENTER, name)]
    rows += [
        (10_000 + i * 100_000, 50_000, Kind.CALL, call) for i, call in enumerate(calls)
    ]
    rows.append((900_000, 0, Kind.OP_EXIT, name))
    one = fmt.records(*np.array(rows, np.int64).T)
    many = np.tile(one, BLOCK // len(one))
    many["time"] += np.repeat(
        np.arange(BLOCK // len(one), dtype=np.uint64) * STEP_NS, len(one)
    )
    return many


def write_block(
    thread: ThreadWriter, block: fmt.Structured, start: int, iteration: int
) -> int:
    """Appends a block that begins at `start`; returns where it ends."""
    thread.write([start], iteration, Kind.ITERATION, 0)
    moved = block.copy()
    moved["time"] += np.uint64(start + 1)
    thread.append(moved)
    thread.flush()
    return start + BLOCK // 10 * STEP_NS + 2


def allocated(folder: Path) -> int:
    """Bytes on disk; what was given back does not count."""
    return sum(
        file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()
    )


def measure(folder: Path, events: int, keep_s: float) -> None:
    """Writes and folds in turn, as a recorder and its helper do."""
    with RunWriter(folder) as run:
        process = run.process(pid=7)
        thread, block = process.thread(tid=7), pattern(process)
        thread.write([0], 0, Kind.BEGIN, 0)
        now, written, began = 1, 0, time.perf_counter()
        keeper: Keeper | None = None
        while written < events:
            for _ in range(10):
                now = write_block(thread, block, now, written // BLOCK + 1)
                written += BLOCK
            process.log("anchor", {"mono": now, "real": now, "raw": now, "ticks": now})
            process.flush()
            keeper = keeper or Keeper(read_run(folder), int(keep_s * 1e9))
            keeper.look(now, dead_too=True)
            if written * 10 // events != (written - 10 * BLOCK) * 10 // events:
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                rate = written / (time.perf_counter() - began) / 1e6
                print(
                    f"{written:>14,} events {memory:7.0f} MB memory {allocated(folder) / 1e6:8.1f} MB disk {rate:6.1f} M/s"
                )


def measure_iterations(folder: Path, count: int, keep_s: float) -> None:
    """Passes of 10 ms with one call each: how large their totals become."""
    every, keeper = 20_000, None
    with RunWriter(folder) as run:
        process = run.process(pid=7)
        call, thread = process.call(layer="backend", fn="f"), process.thread(tid=7)
        thread.write([1], 0, Kind.BEGIN, 0)
        for first in range(0, count, every):
            number = np.arange(first, first + every)
            start = number * 10_000_000 + 10
            times = np.stack([start, start + 1000], axis=1).ravel()
            values = np.stack([number + 1, np.full(every, 5_000_000)], axis=1).ravel()
            thread.write(
                times,
                values,
                np.tile([Kind.ITERATION, Kind.CALL], every),
                np.tile([0, call], every),
            )
            now = int(times[-1]) + 5_000_000
            process.log("anchor", {"mono": now, "real": now, "raw": now, "ticks": now})
            thread.flush()
            process.flush()
            keeper = keeper or Keeper(read_run(folder), int(keep_s * 1e9))
            keeper.look(now, dead_too=True)
    past = next(folder.glob("p*/past.bin")).stat().st_size
    print(
        f"{count:>14,} iterations {past / 1e6:8.2f} MB totals {allocated(folder) / 1e6:8.1f} MB disk"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=float, default=2e7)
    parser.add_argument("--keep", type=float, default=60.0, help="seconds")
    parser.add_argument(
        "--iterations",
        type=float,
        help="so many passes of 10 ms instead: 8.64e6 are a day",
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.cutaway"
        if args.iterations:
            measure_iterations(path, int(args.iterations), args.keep)
        else:
            measure(path, int(args.events), args.keep)


if __name__ == "__main__":
    main()
