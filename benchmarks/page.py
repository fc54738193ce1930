"""Size of the page and time to first paint in a real Chromium, for a million events and for 500 processes.

    python benchmarks/page.py [--runs 5]

Targets: at most 1 MB, first paint at most 1 s. The runs are synthetic; Chromium is new for every measurement.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from browser import Browser

from cutaway.reports.page.data import build_page
from cutaway.trace import format as fmt
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import THREAD_LAYERS, Kind

START = 1_000_000_000
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def records(
    process: ProcessWriter, events: int, seed: int
) -> tuple[fmt.Structured, int]:
    """Iterations of three operations with native calls of random length between random gaps: hard to compress."""
    random = np.random.default_rng(seed)
    calls = [
        process.call(layer=layer, fn=layer, file="train.py", line=i, func="loop")
        for i, layer in enumerate(THREAD_LAYERS[1:], 1)
    ]
    names = [
        process.name(name) for name in ("simulation", "inference", "backpropagation")
    ]
    per = 20  # events of an operation: enter, 18 calls, exit
    count = max(1, events // per)
    gaps = random.integers(1_000, 20_000, (count, per))
    lengths = random.integers(500, 40_000, (count, per))
    lengths[:, 0] = lengths[:, -1] = 0
    steps = (gaps + lengths).ravel()
    time = START + np.cumsum(steps) - lengths.ravel()
    kind = np.full((count, per), Kind.CALL)
    kind[:, 0], kind[:, -1] = Kind.OP_ENTER, Kind.OP_EXIT
    id = random.choice(calls, (count, per))
    id[:, 0] = id[:, -1] = np.resize(names, count)
    body = fmt.records(time, lengths.ravel(), kind.ravel(), id.ravel())
    marks = fmt.records(
        body["time"][:: per * 300],
        np.arange(1, len(body["time"][:: per * 300]) + 1),
        Kind.ITERATION,
        0,
    )
    whole = np.concatenate([marks, body])
    return whole[np.argsort(whole["time"], kind="stable")], int(time[-1]) + 100_000


def write(path: Path, processes: int, events: int) -> Path:
    """A run of `events` in all."""
    with RunWriter(
        path, command=["python", "train.py"], source="benchmark", cpus=8
    ) as run:
        for i in range(processes):
            process = run.process(
                pid=100 + i,
                ppid=100 if i else 0,
                name=f"p{i}",
                role="actor" if i else "learner",
                start_ns=START,
            )
            thread = process.thread(tid=100 + i, name="MainThread", t=START)
            body, stop = records(process, events // processes, i)
            thread.append(body)
            for t in range(START, stop, 100_000_000):
                process.log(
                    "sample",
                    {
                        "t": t,
                        "threads": {str(100 + i): [int((t - START) * 0.8), 0]},
                        "cores": 8,
                    },
                )
            process.exit(t=stop, code=0)
    return path


def paint(file: Path) -> tuple[float, float]:
    """Milliseconds to the first paint with content, and until the lanes are drawn, in a new browser."""
    with Browser() as browser:
        browser.open(file)
        browser.wait(f"{PAINT} > 0")
        browser.run("document.querySelector('nav button').click()")
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        browser.settle()
        ready = browser.run("performance.now()")
        if browser.problems or len(browser.requests) != 1:
            raise SystemExit(
                f"the page complained or asked for something: {browser.problems} {browser.requests}"
            )
        return float(browser.run(PAINT)), float(ready)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    print("| run | page | written in | first paint, median (worst) | lanes drawn |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for processes, events in ((1, 1_000_000), (18, 1_000_000), (500, 1_000_000)):
            path = write(Path(folder, f"{processes}.cutaway"), processes, events)
            begun = time.perf_counter()
            page = build_page(path)
            took = time.perf_counter() - begun
            file = Path(folder, f"{processes}.html")
            file.write_text(page, encoding="utf-8")
            times = [paint(file) for _ in range(args.runs)]
            first = [t for t, _ in times]
            print(
                f"| {processes} processes, {events:,} events | {len(page.encode()) / 1e3:.0f} kB | {took:.1f} s | "
                f"{statistics.median(first):.0f} ms ({max(first):.0f}) | {statistics.median(t for _, t in times):.0f} ms |"
            )


if __name__ == "__main__":
    main()
