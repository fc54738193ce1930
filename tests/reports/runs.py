"""Synthetic runs for the tests of this folder: small training programs with figures known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cutaway.trace import format as fmt
from cutaway.trace.writer import ProcessWriter, RunWriter, ThreadWriter
from cutaway.vocabulary import DeviceKind, Kind

MS = 1_000_000
START = 1_000 * MS
OPERATIONS = {
    "simulation": (60, "simulator"),
    "inference": (15, "backend"),
    "backpropagation": (20, "backend"),
}


def learner_records(
    process: ProcessWriter,
    iterations: int,
    wait_on: str | None = None,
    file: str = "/data/train.py",
    operation: str = "simulation",
) -> tuple[Any, int]:
    """Iterations of 100 ms: three operations with a native call over two thirds of each, and 5 ms of nothing."""
    rows: list[tuple[int, int, int, int]] = [(START, 0, Kind.BEGIN, 0)]
    now = START
    for number in range(1, iterations + 1):
        rows.append((now, number, Kind.ITERATION, 0))
        for name, (length, layer) in OPERATIONS.items():
            waits = wait_on is not None and name == "simulation"
            call = process.call(
                layer="wait" if waits else layer,
                fn="poll" if waits else f"native_{name}",
                file=file,
                line=10 + length,
                func="loop",
                on=wait_on if waits else None,
            )
            rows.append(
                (
                    now,
                    0,
                    Kind.OP_ENTER,
                    process.name(operation if name == "simulation" else name),
                )
            )
            rows.append((now + 1 * MS, (length * 2 // 3) * MS, Kind.CALL, call))
            if name == "simulation":
                rows.append((now + (length - 1) * MS, 8, Kind.STEP, 0))
            now += length * MS
            rows.append(
                (
                    now,
                    0,
                    Kind.OP_EXIT,
                    process.name(operation if name == "simulation" else name),
                )
            )
        now += 5 * MS
    rows.append((now, 0, Kind.END, 0))
    columns = np.array(rows, np.int64).T
    return fmt.records(*columns), now


def worker_records(process: ProcessWriter, stop: int, busy_ms: int = 8) -> Any:
    """A worker: simulation for `busy_ms` of every 10 ms, then waiting for the learner's next action."""
    starts = np.arange(START, stop - 10 * MS, 10 * MS)
    n = len(starts)
    wait = process.call(
        layer="wait", fn="read", file="worker.py", line=3, func="serve", on="pipe:77"
    )
    step = process.call(
        layer="simulator", fn="step", file="worker.py", line=4, func="serve"
    )
    name = process.name("simulation")
    time = np.stack(
        [starts, starts + MS, starts + busy_ms * MS, starts + busy_ms * MS + 1], axis=1
    ).ravel()
    value = np.tile([0, (busy_ms - 2) * MS, 0, (10 - busy_ms) * MS - 2], n)
    kind = np.tile([Kind.OP_ENTER, Kind.CALL, Kind.OP_EXIT, Kind.CALL], n)
    return fmt.records(time, value, kind, np.tile([name, step, name, wait], n))


def add_samples(
    process: ProcessWriter,
    tid: int,
    stop: int,
    cpu: float = 0.9,
    queue: float = 0.02,
    **more: Any,
) -> None:
    """What the 10 Hz meter would have written."""
    for t in range(START, stop, 100 * MS):
        passed = t - START
        process.log("sample", {"t": t, "threads": {str(tid): [int(passed * cpu), int(passed * queue)]}, "rss": 1 << 28,
                               "cores": 2, "foreign": 0.1, **more})  # fmt: skip


def begin(
    run: RunWriter, pid: int, name: str, role: str, ppid: int = 0
) -> tuple[ProcessWriter, ThreadWriter]:
    """A process with one thread."""
    process = run.process(pid=pid, ppid=ppid, name=name, role=role, start_ns=START, host="box", python="3.11.9",
                          program="train.py", versions={"torch": "2.13.0"})  # fmt: skip
    return process, process.thread(tid=pid, name="MainThread", t=START)


def single(
    path: Path,
    iterations: int = 20,
    finish: bool = True,
    name: str = "learner",
    pid: int = 100,
    **more: str,
) -> Path:
    """One process, 100 ms an iteration: simulation 60, inference 15, backpropagation 20, outside 5."""
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as run:
        process, thread = begin(run, pid, name, "learner")
        records, stop = learner_records(process, iterations, **more)
        thread.append(records)
        add_samples(process, pid, stop)
        if finish:
            process.exit(t=stop, code=0)
            (path / "exit.json").write_text('{"code": 0, "t": 1}')
    return path


def crowd(
    path: Path,
    workers: int = 4,
    iterations: int = 20,
    slow: int | None = None,
    computes: bool = True,
) -> Path:
    """A learner that waits for its workers while simulation runs in them. Worker number `slow` takes longer; it `computes`
    longer, too, or only waits for a core."""
    with RunWriter(
        path,
        command=["python", "train.py", "--num-envs", str(workers)],
        source="cutaway run",
        cpus=8,
    ) as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, iterations, wait_on="pid:101")
        thread.append(records)
        add_samples(process, 100, stop, cpu=0.4)
        process.exit(t=stop, code=0)
        for i in range(workers):
            worker, thread = begin(run, 101 + i, f"env-{i:02d}", "actor", ppid=100)
            thread.append(worker_records(worker, stop, 9 if i == slow else 4))
            alike = slow is None or not computes
            add_samples(
                worker, 101 + i, stop, cpu=0.8 if alike else 0.9 if i == slow else 0.4
            )
            worker.exit(t=stop, code=0)
        (path / "exit.json").write_text('{"code": 0, "t": 1}')
    return path


def with_device(path: Path, iterations: int = 20) -> Path:
    """Like `single`, with a kernel of 20 ms in every iteration, launched by backpropagation."""
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, iterations)
        thread.append(records)
        starts = START + np.arange(iterations) * 100 * MS + 76 * MS
        api, work = (
            np.zeros(iterations, fmt.API_DTYPE),
            np.zeros(iterations, fmt.DEVICE_DTYPE),
        )
        api["start"], api["end"], api["os_thread"] = starts, starts + MS, 100
        work["start"], work["end"], work["kind"] = (
            starts + MS,
            starts + 21 * MS,
            DeviceKind.KERNEL,
        )
        api["correlation"] = work["correlation"] = np.arange(1, iterations + 1)
        api["name"], work["name"] = (
            process.name("cudaLaunchKernel"),
            process.name("sgemm"),
        )
        process.api(api)
        process.device(work)
        process.log("device", {"id": 0, "name": "Test GPU", "t": START})
        process.exit(t=stop, code=0)
        (path / "exit.json").write_text('{"code": 0, "t": 1}')
    return path


def many_spans(path: Path, spans: int) -> Path:
    """A process that does `spans` operations of 50 us, 50 us apart, of three kinds in turn."""
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as run:
        process, thread = begin(run, 100, "learner", "learner")
        names = [process.name(name) for name in OPERATIONS]
        times = START + np.arange(2 * spans) * 50_000
        kinds = np.tile([Kind.OP_ENTER, Kind.OP_EXIT], spans)
        ids = np.repeat(np.resize(names, spans), 2)
        thread.write([START], 0, [Kind.BEGIN], [0])
        thread.write(times, 0, kinds, ids)
        stop = int(times[-1]) + MS
        thread.write([stop], 0, [Kind.END], [0])
        add_samples(process, 100, stop)
        process.exit(t=stop, code=0)
        (path / "exit.json").write_text('{"code": 0, "t": 1}')
    return path


def language(path: Path, iterations: int = 20) -> Path:
    """A language model that generates for 60 ms of every 100: 8 sequences for 15 ms and one for 45, with 200 tokens. Its samples
    wait in a queue, are two versions old, and one of nine is thrown away."""
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, iterations, operation="generation")
        thread.append(records)
        add_samples(process, 100, stop)
        for number in range(iterations):
            at = START + number * 100 * MS
            points = [[0, 8], [15 * MS, 1], [60 * MS, 0]]
            process.log("gauge", {"name": "sequences", "t": at, "at": points})
            process.log("tokens", {"n": 200, "t": at + 60 * MS})
            told = {
                "policy version": number,
                "staleness": 2,
                "queue": number % 2,
                "trained": 8 * (number + 1),
                "discarded": number + 1,
            }
            for name, value in told.items():
                point = {"name": name, "t": at + 70 * MS, "at": [[0, value]]}
                process.log("gauge", point)
        process.exit(t=stop, code=0)
        (path / "exit.json").write_text('{"code": 0, "t": 1}')
    return path
