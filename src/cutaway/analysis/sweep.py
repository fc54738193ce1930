"""Hands a trace to the native sweep and gives its results names: the one pass all tables are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis.devices import DeviceWork, launchers
from cutaway.analysis.names import Calls, Names
from cutaway.analysis.stages import Stages, find_stages
from cutaway.errors import CutawayError
from cutaway.trace import format as fmt
from cutaway.trace.past import NOTHING, Past
from cutaway.trace.reader import ProcessTrace, Trace

Columns = dict[str, NDArray[Any]]

STARTUP = 0
STEADY = 1
SHUTDOWN = 2
NO_ITERATION = 0xFFFFFFFF
"""The slice of shut-down in a sweep by iteration."""
NO_ID = 0xFFFFFFFF
"""For a thread that only device records know."""


@dataclass(frozen=True)
class ThreadName:
    """A thread of the run as its tables name it; `id` is None for one that only device records know."""

    process: int
    id: int | None
    tid: int
    name: str


@dataclass(frozen=True)
class Bins:
    """Equal stretches of time. If they `grow`, neighbours are joined as soon as the run goes beyond the last one."""

    start: int
    width: int
    count: int
    grow: bool = False

    @staticmethod
    def over(start: int, stop: int, count: int) -> Bins:
        """Bins that cover a stretch of time."""
        return Bins(start, max(1, -(-(stop - start) // max(count, 1))), max(count, 1))

    @property
    def edges(self) -> NDArray[np.int64]:
        """Where bins begin, and the end of the last."""
        return self.start + self.width * np.arange(self.count + 1)


@dataclass(frozen=True)
class Lanes:
    """What threads did in each bin: `ns` has a row for each row of `rows` (thread, operation, layer, blocked, busy). `steps`
    and `iterations` have a row for each process; only the first of several lanes counts them."""

    cut: Bins
    rows: Columns
    ns: NDArray[np.int64]
    steps: NDArray[np.int64]
    iterations: NDArray[np.int64]


@dataclass(frozen=True)
class Pace:
    """Iterations, steps and pauses. Arrays have a value for each process, tables rows of their own."""

    iterations: Columns
    pauses: Columns
    steps: NDArray[np.int64]
    steps_startup: NDArray[np.int64]  # before it was steady
    own_steady: NDArray[np.int64]
    """When the start-up of each process ended by its own iterations; 0: it has no second one."""
    slowest: Columns
    durations: Columns
    """Of the iterations of each process: timed, timed_ns, median_ns, p99_ns."""


@dataclass(frozen=True)
class Held:
    """For how long which conditions held together, by part of the run (all, startup, steady, shutdown)."""

    by_process: dict[str, NDArray[np.int64]]
    """8 masks a process."""
    anywhere: Columns | None
    """Of a run of one process."""
    cpu_span: tuple[int, int] | None
    """From the first to the last backend or API call."""


@dataclass(frozen=True)
class Swept:
    """What one pass found. Columns are as in native/sweep/sweep_tables.cpp; threads and processes are positions, and numbers of
    operations, phases and calls hold for the run."""

    trace: Trace
    stages: Stages
    names: Names
    calls: Calls
    thread_names: list[ThreadName]
    threads: Columns
    cells: Columns
    sites: Columns
    operations: Columns
    samples: Columns
    pace: Pace
    held: Held
    devices: DeviceWork
    lanes: list[Lanes]
    units: list[NDArray[np.uint8]]

    @cached_property
    def conditions(self) -> dict[str, NDArray[np.int64]]:
        """For how long which conditions held anywhere in the run, by part of the run: 32 masks. Over several processes this
        takes a pass of its own."""
        found = self.held.anywhere
        if found is None:
            native, _ = _prepare(self.trace, self.seen, with_past=False)
            found = native.overlap(self.stages.steady_ns, self.stages.over_ns)
        return _parts(found, "of")

    @property
    def seen(self) -> Sequence[_sweep.Devices]:
        """One look at the device records of each process."""
        return self.devices.seen

    @cached_property
    def summary_threads(self) -> NDArray[np.bool_]:
        """The one thread each process is summarised by: threads that run side by side are never added up. It is the one that
        marks the iterations; else, of those that carry operations, the one with most time in them; else the main thread; else
        (recordings of others need not tell) the one that was traced longest."""
        threads = self.threads
        process = self.threads["process"]
        named = np.zeros(len(process), np.int64)
        np.add.at(
            named, self.cells["thread"], np.where(self._works, self.cells["ns"], 0)
        )
        is_main = np.array(
            [n.tid == self.trace.processes[n.process].pid for n in self.thread_names],
            bool,
        )
        order = np.lexsort(
            (
                threads["traced_ns"],
                is_main,
                named,
                threads["carries"],
                threads["iterations"],
            )
        )
        out: NDArray[np.bool_] = np.zeros(len(process), bool)
        foremost = dict(
            zip(process[order].tolist(), order.tolist(), strict=True)
        )  # of each process the last
        out[list(foremost.values())] = True
        return out

    @property
    def _works(self) -> NDArray[np.bool_]:
        """Cells in which a thread works at a named operation."""
        return np.asarray((self.cells["operation"] > 0) & (self.cells["blocked"] == 0))


def select(columns: Columns, rows: NDArray[Any]) -> Columns:
    """Some rows of a table of the sweep, by a mask or by position."""
    return {name: values[rows] for name, values in columns.items()}


def sweep(
    trace: Trace,
    known: Swept | None = None,
    lanes: Sequence[Bins] = (),
    *,
    stages: Stages | None = None,
    by_iteration: bool = False,
) -> Swept:
    """One pass over all timelines of a run. `known` is another one of the same run: what it knows of devices, stages and iterations
    is not looked for again. Cells are divided into start-up, steady state and shut-down, or by iteration."""
    if known:
        seen = known.seen
        stages = known.stages
    else:
        seen = [process.look_at_devices() for process in trace.processes]
        stages = stages or find_stages(trace)
    if by_iteration:
        marks = _iterations_of_leader(known or sweep(trace, stages=stages))
        return _sweep_once(trace, seen, stages, marks, lanes, by_iteration=True)
    return _sweep_once(trace, seen, stages, _becomes_steady(stages.steady_ns), lanes)


_Marks = tuple[NDArray[np.uint64], NDArray[np.uint32]]


def _becomes_steady(time: int) -> _Marks:
    """What processes without iterations follow; at 0 there is nothing to follow."""
    return np.array([time] if time else [], np.uint64), np.array(
        [STEADY] if time else [], np.uint32
    )


def _iterations_of_leader(swept: Swept) -> _Marks:
    found = swept.pace.iterations
    steady = found["process"][found["known"] == swept.stages.steady_ns][:1]
    own = np.isin(found["process"], steady if len(steady) else found["process"][:1])
    return found["known"][own].astype(np.uint64), found["number"][own]


def _prepare(
    trace: Trace, seen: Sequence[_sweep.Devices], with_past: bool
) -> tuple[_sweep.Sweep, list[ThreadName]]:
    native = _sweep.Sweep()
    names: list[ThreadName] = []
    for index, (process, devices) in enumerate(zip(trace.processes, seen, strict=True)):
        past = process.past if with_past else None
        try:
            _add(native, index, process, names, devices, past)
        except ValueError as error:
            if not past:
                raise
            remedy = "remove it to see what was kept in full"
            raise CutawayError(
                f"{process.folder / 'past.bin'} is damaged ({error}); {remedy}."
            ) from None
    return native, names


def _sweep_once(
    trace: Trace,
    seen: Sequence[_sweep.Devices],
    stages: Stages,
    leader: _Marks,
    lanes: Sequence[Bins],
    *,
    by_iteration: bool = False,
) -> Swept:
    native, threads = _prepare(trace, seen, with_past=not by_iteration)
    native.slice_by(int(by_iteration))  # `Slicing` in native/sweep/tables.h
    native.follow_leader(*leader, even_with_iterations=stages.by_first_work)
    for index, own in enumerate(stages.own_ends):
        native.end_steady(index, own, stages.run_end)
    native.draw([(cut.start, cut.width, cut.count, cut.grow) for cut in lanes])
    found = native.run()
    logs = [process.log for process in trace.processes]
    names = Names(logs)
    calls = Calls(logs)
    _number_for_run(found, names, calls)
    if not by_iteration and not stages.steady_ns:
        for table in ("cells", "sites", "operations", "samples"):
            found[table]["slice"][:] = (
                STEADY  # no iterations: nothing is known to be start-up
            )
    kept = [bool(process.past) and not by_iteration for process in trace.processes]
    return Swept(
        trace=trace,
        stages=stages,
        names=names,
        calls=calls,
        thread_names=threads,
        threads=found["threads"],
        cells=found["cells"],
        sites=found["sites"],
        operations=found["operations"],
        samples=found["samples"],
        pace=_pace(found),
        held=_held(found),
        devices=DeviceWork(
            names,
            found["kernels"],
            found["unions"],
            found["use"],
            seen,
            found["work_operation"],
            kept,
        ),
        lanes=[
            _lanes(cut, rows) for cut, rows in zip(lanes, found["lanes"], strict=True)
        ],
        units=found["units"],
    )


def _pace(found: dict[str, Any]) -> Pace:
    iterations = found["iterations"]
    in_time = np.argsort(iterations["known"], kind="stable")
    of_processes = found["processes"]
    durations = {}
    for name in ("timed", "timed_ns", "median_ns", "p99_ns"):
        durations[name] = of_processes[name]
    return Pace(
        iterations=select(iterations, in_time),
        pauses=found["pauses"],
        steps=of_processes["steps"],
        steps_startup=of_processes["steps_startup"],
        own_steady=of_processes["steady_ns"],
        slowest=found["slowest"],
        durations=durations,
    )


def _held(found: dict[str, Any]) -> Held:
    masks = {}
    for name in ("had", "had_startup", "had_shutdown"):
        masks[name] = found["processes"][name].reshape(-1, 8)
    whole = found["run"]
    first = whole["cpu_first"]
    last = whole["cpu_last"]
    if first <= last:
        span = (first, last)
    else:
        span = None
    return Held(_parts(masks, "had"), whole.get("overlap"), span)


def _number_for_run(found: dict[str, Any], names: Names, calls: Calls) -> None:
    """Numbers that hold for the run, instead of those that each process counts for itself."""
    of_threads = ("cells", "sites", "samples", "slowest")
    for rows in (*(found[table] for table in of_threads), *found["lanes"]):
        process = found["threads"]["process"][rows["thread"]]
        for column in ("operation", "phase"):
            if column in rows:
                rows[column] = names.numbers(process, rows[column])
        if "call" in rows:
            rows["call"] = calls.numbers(process, rows["call"])
    rows = found["operations"]
    rows["operation"] = names.numbers(rows["process"], rows["operation"])


def _lanes(cut: Bins, rows: dict[str, Any]) -> Lanes:
    ns, steps, iterations = (
        rows.pop(n).reshape(-1, cut.count) for n in ("ns", "steps", "iterations")
    )
    return Lanes(replace(cut, width=rows.pop("width")), rows, ns, steps, iterations)


def _parts(found: Columns, name: str) -> dict[str, NDArray[np.int64]]:
    whole, startup, shutdown = (
        found[f"{name}{part}"] for part in ("", "_startup", "_shutdown")
    )
    return {
        "all": whole,
        "startup": startup,
        "steady": whole - startup - shutdown,
        "shutdown": shutdown,
    }


def _add(
    native: _sweep.Sweep,
    index: int,
    process: ProcessTrace,
    names: list[ThreadName],
    devices: _sweep.Devices,
    past: Past | None,
) -> None:
    native.add_process(process.native(), past.state if past else NOTHING)
    by_tid: dict[int, int] = {}
    own: list[int] = []
    callers = devices.threads.tolist()
    for id in ordered_threads(process, callers):
        if id < 0:
            names.append(ThreadName(index, None, -1 - id, f"native thread {-1 - id}"))
            by_tid[-1 - id] = native.add_thread(index, NO_ID, NOTHING)
            continue
        sources = process.threads.get(id, np.zeros(0, fmt.SOURCE_DTYPE))
        info = process.log.threads.get(id)
        tid = info.tid if info else 0
        names.append(ThreadName(index, id, tid, info.name if info else ""))
        by_tid[tid] = native.add_thread(index, id, sources.view(np.uint8))
        own.append(by_tid[tid])
    if process.samples is not None:
        native.add_samples(index, process.samples.view(np.uint8))
    elif past:
        native.add_samples(index, NOTHING)
    threads = [by_tid[tid] for tid in callers]
    if devices.calls or devices.works:
        native.set_device_work(index, devices, *launchers(devices, threads, own))


def ordered_threads(process: ProcessTrace, callers: Sequence[int]) -> list[int]:
    """All threads of a process; those that its past knows come first, in its order. -1 - tid stands for one of the `callers` (of
    the accelerator's API) that recorded nothing else."""
    if process.past:
        known = process.past.threads
    else:
        known = ()
    recorded = sorted({*process.threads, *process.log.threads} - {*known})
    tids = {
        info.tid if (info := process.log.threads.get(id)) else 0
        for id in (*known, *recorded)
        if id >= 0
    }
    others = [-1 - tid for tid in callers if tid not in tids and -1 - tid not in known]
    return [*known, *recorded, *others]
