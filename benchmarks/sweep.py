"""How fast the sweep reads a run from disk, and how much memory it takes.

    python benchmarks/sweep.py                 # 100 million events
    python benchmarks/sweep.py --events 2e7 --rounds 5    # medians of several, cold and warm in turn
    python benchmarks/sweep.py --events 1e9 --processes 1000 --reports    # `cutaway show` and `cutaway report` too

Makes a synthetic run in a temporary folder: one learner whose calls, operations, iterations and waits follow a
small training loop (packed at about the size of real runs), accelerator calls and kernels for one event in fifty,
and a helper thread. With `--processes` a learner and actors of the same kind share the events. Then a fresh process
opens it and computes the breakdown, first with a cold page cache where the system lets us drop it for the file, then
warm. Resident memory is that of the fresh process, at its highest. On a machine that does other things too, look at
events a CPU second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from cutaway.trace import format as fmt
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import DeviceKind, Kind

CALLS_IN_ITERATION = 500
OPERATIONS = ("simulation", "inference", "backpropagation", "replay", "evaluation")


def one_iteration(process: ProcessWriter, rng: np.random.Generator) -> np.ndarray:
    """Records of one pass of a training loop that starts at 0: about 60 % calls in operations, some nested."""
    calls = [
        process.call(
            layer=layer, fn=f"{layer}.f{i}", file="train.py", line=i, func="train"
        )
        for i, layer in enumerate(["backend"] * 40 + ["simulator"] * 6 + ["wait"] * 2)
    ]
    # A recording knows all built-in operations: with them, the rule that names time is at work.
    names = [process.name(n) for n in OPERATIONS][:3]
    rows: list[tuple[int, int, int, int]] = []
    time = 10
    for i in range(CALLS_IN_ITERATION):
        if i % 25 == 0:
            rows.append((time, 0, Kind.OP_ENTER, names[i // 25 % 3]))
        call = calls[int(rng.integers(len(calls)))]
        time += int(rng.integers(200, 3000))
        if i % 10 == 0:  # a call with two calls inside
            rows.append((time, 0, Kind.ENTER, call))
            for _ in range(2):
                length = int(rng.integers(300, 4000))
                rows.append(
                    (time + 150, length, Kind.CALL, calls[int(rng.integers(40))])
                )
                time += 150 + length
            rows.append((time + 100, 0, Kind.EXIT, call))
            time += 100
        else:
            length = int(rng.integers(300, 20000))
            rows.append((time, length, Kind.CALL, call))
            time += length
        if i % 25 == 24:
            rows.append((time + 50, 0, Kind.OP_EXIT, names[i // 25 % 3]))
            time += 50
    return fmt.records(*np.array(rows).T)


def make(folder: Path, events: int, processes: int = 1) -> int:
    """Writes the run and returns how many events it holds."""
    with RunWriter(folder, command="synthetic") as run:
        learner = run.process(pid=1, name="learner", role="learner")
        made = fill(learner, 1, events // processes, np.random.default_rng(1))
        for pid in range(2, processes + 1):
            actor = run.process(pid=pid, ppid=1, name=f"actor {pid}", role="actor")
            made += fill(
                actor, pid, events // processes, np.random.default_rng(pid % 8)
            )
    return made


def fill(
    process: ProcessWriter, tid: int, events: int, rng: np.random.Generator
) -> int:
    """Writes so many events of one process; only the first process marks iterations and uses an accelerator."""
    main, leads = process.thread(tid=tid, name="MainThread"), tid == 1
    helper = process.thread(tid=2, name="helper") if leads else None
    kernel, launch = process.name("kernel"), process.name("cudaLaunchKernel")
    patterns = [one_iteration(process, rng) for _ in range(8 if leads else 2)]
    now, iteration, correlation, made = 1000, 0, 0, 0
    while made < events:
        pattern = patterns[iteration % len(patterns)].copy()
        pattern["time"] += np.uint64(now)
        if helper:
            main.write([now], [iteration], Kind.ITERATION, 0)
            helper.write([now + 5], [2000], Kind.CALL, 1)
        main.append(pattern)
        made += len(pattern)
        if helper:
            n = launch_some(process, pattern, correlation, (launch, kernel))
            correlation += n
            made += 2 + 2 * n
        now, iteration = int(pattern["time"][-1]) + 1000, iteration + 1
    process.exit(t=now, code=0)
    return made


def launch_some(
    process: ProcessWriter,
    pattern: np.ndarray,
    correlation: int,
    names: tuple[int, int],
) -> int:
    """An accelerator call and a kernel for one call in fifty; returns how many."""
    backend = pattern[fmt.kinds(pattern) == Kind.CALL][::50]
    n = len(backend)
    api, work = np.zeros(n, fmt.API_DTYPE), np.zeros(n, fmt.DEVICE_DTYPE)
    api["start"], api["end"] = backend["time"] + 20, backend["time"] + 120
    api["os_thread"], api["name"] = 1, names[0]
    api["correlation"] = work["correlation"] = np.arange(
        correlation + 1, correlation + n + 1
    )
    work["start"], work["end"] = api["end"] + 500, api["end"] + 9000
    work["kind"], work["name"], work["stream"] = DeviceKind.KERNEL, names[1], 7
    process.api(api)
    process.device(work)
    return n


def measure(folder: Path) -> None:
    """Runs in a process of its own: prints seconds and the highest resident memory as JSON."""
    import cutaway

    start, cpu = time.perf_counter(), time.process_time()
    run = cutaway.open(folder)
    table = run.breakdown()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "cells": len(table)})
    )


def report(folder: Path) -> None:
    """How long the reports take, and how much memory."""
    page = str(folder.with_suffix(".html"))
    for verb in (["show", str(folder)], ["report", str(folder), "-o", page]):
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "cutaway", *verb], stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds, peak = time.perf_counter() - begin, used.ru_maxrss * 1024
        assert status == 0, f"cutaway {verb[0]} failed"
        print(
            f"{verb[0]}: {seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s CPU, peak {peak / 1e6:,.0f} MB"
        )


def drop_from_cache(folder: Path) -> None:
    for path in folder.rglob("*.bin"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=float, default=100e6)
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="cold and warm in turn; medians are printed",
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--reports",
        action="store_true",
        help="time `cutaway show` and `cutaway report` too",
    )
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure)
        return 0
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "synthetic.cutaway"
        with ProcessPoolExecutor(
            1
        ) as apart:  # what this process holds would count as theirs that it starts
            events = apart.submit(
                make, folder, int(args.events), args.processes
            ).result()
        size = sum(p.stat().st_size for p in folder.rglob("events.bin"))
        print(f"{events:,} events, {size / events:.1f} bytes an event in events.bin")
        found: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
        for _ in range(args.rounds):
            for label, results in found.items():
                if label == "cold":
                    drop_from_cache(folder)
                command = [sys.executable, __file__, "--measure", str(folder)]
                done = subprocess.run(
                    command, check=True, capture_output=True, text=True
                )
                results.append(json.loads(done.stdout))
        if args.reports:
            report(folder)
    for label, results in found.items():
        seconds, cpu = (
            statistics.median(r[key] for r in results) for key in ("seconds", "cpu")
        )
        print(
            f"{label}: {events / seconds / 1e6:.1f} M events/s ({seconds:.1f} s), "
            f"{events / cpu / 1e6:.1f} M events a CPU second, "
            f"peak {max(r['peak'] for r in results) / 1e6:,.0f} MB, {results[0]['cells']} cells"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
