"""Hands a trace to the native sweep and gives its results names: the one pass all tables are made from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis.devices import DeviceWork, device_work, launchers
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace, Trace

Columns = dict[str, NDArray[Any]]

STARTUP, STEADY = 0, 1
API_CALL = 1 << 24
"""Call ids from here on are names of API calls."""

_NO_ID = 0xFFFFFFFF
_API_CALL = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),
        ("thread", "<u4"),
        ("name", "<u4"),
        ("operation", "<u4"),
        ("flags", "<u4"),
    ]
)
_WORK = np.dtype([("start", "<u8"), ("end", "<u8"), ("stream", "<u4"), ("reserved", "<u4")])


class Slicing(IntEnum):
    """What else time is divided by (`Slicing` in native/sweep/sweep.h)."""

    START = 0
    ITERATION = 1
    BIN = 2


@dataclass(frozen=True)
class ThreadName:
    """A thread of the run as its tables name it; `id` is None for one that only device records know."""

    process: int
    id: int | None
    tid: int
    name: str


@dataclass(frozen=True)
class Swept:
    """What one pass found. Columns are as in native/sweep/bind_sweep.cpp; threads and processes are positions."""

    names: list[ThreadName]
    cells: Columns
    sites: Columns
    operations: Columns
    samples: Columns
    threads: Columns
    iterations: Columns
    pauses: Columns
    had: dict[str, NDArray[np.int64]]  # by part of the run: all, startup, steady; 8 masks a process
    steps: NDArray[np.int64]
    of: dict[str, NDArray[np.int64]]  # by part of the run: 32 masks
    cpu_span: tuple[int, int] | None
    steady_ns: int
    devices: list[DeviceWork]


@dataclass(frozen=True)
class Bins:
    """Equal stretches of time; cells of bin i have the slice i + 1, what lies before 0 and after all `count` of them is kept apart."""

    start: int
    width: int
    count: int

    @staticmethod
    def over(start: int, stop: int, count: int) -> Bins:
        """Bins that cover a stretch of time."""
        return Bins(start, max(1, -(-(stop - start) // max(count, 1))), max(count, 1))

    @property
    def edges(self) -> NDArray[np.int64]:
        """Where bins begin, and the end of the last."""
        return self.start + self.width * np.arange(self.count + 1)


def sweep(trace: Trace, by: Slicing | Bins = Slicing.START, known: Swept | None = None) -> Swept:
    """One pass over all timelines of a run. `known` is another one of the same run: what it knows of devices is not read
    again."""
    slicing, bins = (Slicing.BIN, by) if isinstance(by, Bins) else (by, Bins(0, 1, 1))
    native = _sweep.Sweep()
    native.slice_by(int(slicing), bins.start, bins.width, bins.count)
    names: list[ThreadName] = []
    works = [
        _add(native, index, process, names, known.devices[index] if known else device_work(process))
        for index, process in enumerate(trace.processes)
    ]
    found = native.run()
    for work, operations in zip(works, found["api_operation"], strict=True):
        work.attribute(operations)
    about = found["run"]
    if slicing == Slicing.START and not about["steady_ns"]:
        for table in (
            "cells",
            "sites",
            "operations",
            "samples",
        ):  # no iterations: nothing is known to be start-up
            found[table]["slice"][:] = STEADY
    return Swept(
        names=names,
        cells=found["cells"],
        sites=found["sites"],
        operations=found["operations"],
        samples=found["samples"],
        threads=found["threads"],
        iterations=found["iterations"],
        pauses=found["pauses"],
        had=_parts(*(found["processes"][name].reshape(-1, 8) for name in ("had", "had_startup"))),
        steps=found["processes"]["steps"],
        of=_parts(about["of"], about["of_startup"]),
        cpu_span=(about["cpu_first"], about["cpu_last"]) if about["cpu_first"] <= about["cpu_last"] else None,
        steady_ns=about["steady_ns"],
        devices=works,
    )


def _parts(whole: NDArray[np.int64], startup: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    return {"all": whole, "startup": startup, "steady": whole - startup}


def _add(
    native: _sweep.Sweep, index: int, process: ProcessTrace, names: list[ThreadName], work: DeviceWork
) -> DeviceWork:
    native.add_process(process.native())
    by_tid: dict[int, int] = {}
    for id in sorted({*process.threads, *process.log.threads}):
        sources = process.threads.get(id, np.zeros(0, fmt.SOURCE_DTYPE))
        info = process.log.threads.get(id)
        tid = info.tid if info else 0
        names.append(ThreadName(index, id, tid, info.name if info else ""))
        by_tid[tid] = native.add_thread(index, id, sources.view(np.uint8))
    if process.samples is not None:
        native.add_samples(index, process.samples.view(np.uint8))
    own = list(by_tid.values())
    for tid in np.unique(work.api["os_thread"]).tolist():
        if tid not in by_tid:
            names.append(ThreadName(index, None, tid, f"native thread {tid}"))
            by_tid[tid] = native.add_thread(index, _NO_ID, np.zeros(0, np.uint8))
    work.api_thread = _translate(work.api["os_thread"], by_tid)
    _set_device_work(native, index, work, own)
    return work


def _set_device_work(native: _sweep.Sweep, index: int, work: DeviceWork, own: list[int]) -> None:
    api = np.zeros(len(work.api), _API_CALL)
    for column in ("start", "end", "name", "operation", "flags"):
        api[column] = work.api[column]
    api["thread"] = work.api_thread
    device = np.zeros(int(work.busy.sum()), _WORK)
    for column in ("start", "end"):
        device[column] = work.records[column][work.busy]
    device["stream"] = work.stream[work.busy]
    offsets, launched = launchers(work, own)
    native.set_device_work(index, api.view(np.uint8), device.view(np.uint8), offsets, launched)


def _translate(values: NDArray[Any], table: dict[int, int]) -> NDArray[np.uint32]:
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([table[int(v)] for v in distinct], np.uint32)[inverse]
