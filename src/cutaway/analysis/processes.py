"""Processes, threads and sampled meters of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cutaway.analysis.sweep import Swept
from cutaway.analysis.table import Table
from cutaway.trace.reader import ProcessTrace, Trace

_PROCESSES = (
    "process", "pid", "parent", "name", "role", "start_ns", "end_ns", "exit", "threads", "cpu_ns", "events", "lost",
)  # fmt: skip
_THREADS = (
    "process", "thread", "tid", "name", "carries_operations", "start_ns", "end_ns", "traced_ns", "cpu_ns",
    "runqueue_ns",
)  # fmt: skip
_SAMPLES = ("process", "t_ns", "tid", "cpu_ns", "runqueue_ns", "rss", "cores", "foreign")

FOREVER = (1 << 63) - 1


def processes(trace: Trace, swept: Swept) -> Table:
    """One row for each process. `parent` is a position in this table, -1 for a process outside the run."""
    positions = trace.positions()
    # What parents saw; that of the first process is `cutaway run`.
    waited: dict[Any, dict[str, Any]] = {(p.host, p.pid): trace.ended for p in trace.processes[:1]}
    waited.update({(p.host, child.get("pid")): child for p in trace.processes for child in p.log.children})
    table = threads(trace, swept)
    rows = []
    for index, process in enumerate(trace.processes):
        own = table["process"] == index
        about = process.log.process
        damaged = sum(
            int(swept.threads[name][own].sum()) for name in ("damaged", "implausible", "disordered")
        )
        start, end = life(process, swept, index)
        rows.append(
            (
                index,
                process.pid,
                positions.get((process.host, process.parent_pid), -1)
                if process.parent_pid != process.pid
                else -1,
                str(about.get("name") or ""),
                role_of(trace, swept, index),
                start,
                end,
                exit_text(process, waited),
                int(own.sum()),
                int(table["cpu_ns"][own].sum()),
                int(swept.threads["events"][own].sum())
                + len(swept.devices[index].api)
                + len(swept.devices[index].records),
                process.losses.total + damaged,
            )
        )
    return Table.from_rows(_PROCESSES, rows)


def role_of(trace: Trace, swept: Swept, index: int) -> str:
    """The role a process was given; else what follows from the operations it opened, yours among them."""
    given = str(trace.processes[index].log.process.get("role") or "")
    if given and given != "env worker":  # which the recorder guesses from what frameworks do
        return given
    own = swept.operations["process"] == index
    names = {trace.processes[index].log.name(int(id)) for id in np.unique(swept.operations["operation"][own])}
    if "backpropagation" in names:
        return "learner"
    if "simulation" in names:
        return "actor" if "inference" in names else "env worker"
    return next((role for role in ("inference", "evaluation") if role in names), given)


def losses(trace: Trace, swept: Swept) -> dict[str, int]:
    """What is missing from the run, by kind, over all processes."""
    own = [process.losses for process in trace.processes]
    damaged = sum(lost.damaged_blocks + sum(lost.damaged_device_blocks.values()) for lost in own)
    return {
        "events": sum(lost.dropped_events for lost in own),
        "damaged blocks": damaged + int(swept.threads["damaged"].sum()),
        "missing segments": sum(lost.missing_segments for lost in own),
        "log lines": sum(lost.bad_lines for lost in own),
        "records out of order": int(swept.threads["disordered"].sum()),
        "records of no time": int(swept.threads["implausible"].sum()),
    }


def life(process: ProcessTrace, swept: Swept, index: int) -> tuple[int, int]:
    """From when to when a process is known to have lived."""
    own = (swept.threads["process"] == index) & (swept.threads["end"] > 0)
    start, end = known_life(process)
    start = start or min(swept.threads["first"][own].tolist(), default=0)
    work = swept.devices[index].records
    return start, max(start, end, *swept.threads["end"][own].tolist(), int(work["end"].max(initial=0)))


def known_life(process: ProcessTrace) -> tuple[int, int]:
    """What the log alone says about it: its records may go on for a while."""
    start = process.log.process.get("t", 0)
    told = [process.log.exit or {}, *process.log.samples[-1:]]
    return start, max([start, *(entry["t"] for entry in told if isinstance(entry.get("t"), int))])


def exit_text(process: ProcessTrace, waited: dict[Any, dict[str, Any]]) -> str:
    """`0`, `signal 9`, or empty while nothing is known; else what the parent saw when it waited."""
    told: dict[str, Any] = process.log.exit or {}
    if "code" not in told and "signal" not in told:
        told = waited.get((process.host, process.pid), told)
    if "signal" in told:
        return f"signal {told['signal']}"
    return str(told.get("code", ""))


def threads(trace: Trace, swept: Swept) -> Table:
    """One row for each thread; `traced_ns` is its traced life without pauses."""
    rows = []
    metered = meters(trace)
    for index, name in enumerate(swept.names):
        cpu, runqueue = metered[name.process].get(name.tid, (0, 0))
        if swept.threads["has_cpu"][index]:
            cpu = max(cpu, int(swept.threads["cpu_ns"][index]))
        rows.append(
            (
                name.process,
                index,
                name.tid,
                name.name,
                bool(swept.threads["carries"][index]),
                int(swept.threads["first"][index]),
                int(swept.threads["end"][index]),
                int(swept.threads["traced_ns"][index]),
                cpu,
                runqueue,
            )
        )
    return Table.from_rows(_THREADS, rows)


def sampled_in(sample: dict[str, Any], span: tuple[int, int]) -> bool:
    """Whether a sample was taken in this stretch of time."""
    t = sample.get("t")
    return isinstance(t, int) and span[0] <= t <= span[1]


def samples(trace: Trace, span: tuple[int, int]) -> Table:
    """The meters sampled in a stretch of time, one row for each thread that ran since the sample before."""
    rows = [
        (
            index,
            t,
            tid,
            cpu,
            runqueue,
            sample.get("rss", 0),
            sample.get("cores", 0.0),
            sample.get("foreign", 0.0),
        )
        for index, process in enumerate(trace.processes)
        for sample in process.log.samples
        if sampled_in(sample, span)
        for t, tid, cpu, runqueue in thread_samples(sample)
    ]
    return Table.from_rows(_SAMPLES, rows)


def thread_samples(sample: dict[str, Any]) -> Iterator[tuple[int, int, int, int]]:
    """(time, tid, CPU ns, run-queue ns) of one sample; entries that make no sense are left out."""
    told, t = sample.get("threads"), sample.get("t")
    if not isinstance(told, dict) or not isinstance(t, int):
        return
    for tid, values in told.items():
        fine = isinstance(values, list) and len(values) == 2 and all(isinstance(v, int) for v in values)
        if fine and str(tid).isdecimal():
            yield t, int(tid), values[0], values[1]


def meters(trace: Trace, span: tuple[int, int] = (0, FOREVER)) -> list[dict[int, tuple[int, int]]]:
    """For each process and tid, the CPU and run-queue time while it was recorded; of a part of the run, from the last
    sample before it to the last one in it. The system counts from the start of a thread; only the first process of
    a run had lived before it was recorded."""
    out = []
    known = trace.positions()
    for process in trace.processes:
        root = (process.host, process.parent_pid) not in known
        first: dict[int, tuple[int, int]] = {}
        last: dict[int, tuple[int, int]] = {}
        for sample in process.log.samples:
            for t, tid, cpu, runqueue in thread_samples(sample):
                first.setdefault(tid, (cpu, runqueue) if root and tid == process.pid else (0, 0))
                if t <= span[0]:
                    first[tid] = (cpu, runqueue)
                if t <= span[1]:
                    last[tid] = (cpu, runqueue)
        out.append({tid: (last[tid][0] - first[tid][0], last[tid][1] - first[tid][1]) for tid in last})
    return out
