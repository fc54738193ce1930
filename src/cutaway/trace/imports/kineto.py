"""Reads the JSON of torch.profiler (Kineto), new and old, plain or gzip.

Events are told apart by `cat` alone. Times are decimal microseconds after `baseTimeNanoseconds` and are kept
to the nanosecond. A file is one process unless it says otherwise; device work belongs to the process that
launched it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError
from cutaway.trace.imports import shapes
from cutaway.trace.imports.recorded import (
    LAST_TIME,
    MISSING,
    Columns,
    HostEvents,
    Ints,
    Item,
    Mapping,
    Recorded,
    clip_times,
    device_records,
    mapped_columns,
    or_zero,
    union_ns,
)
from cutaway.trace.imports.source import Limits, Progress
from cutaway.trace.imports.tables import Spec, read_tables, rows_of
from cutaway.vocabulary import DeviceKind

# Old files (PyTorch 1.8 to 1.12) write Operator, Runtime, Memcpy …; all are compared in lower case.
DEVICE_CATEGORIES = {
    "kernel": DeviceKind.KERNEL,
    "gpu_memcpy": DeviceKind.MEMCPY,
    "memcpy": DeviceKind.MEMCPY,
    "gpu_memset": DeviceKind.MEMSET,
    "memset": DeviceKind.MEMSET,
}
HOST_CATEGORIES = {
    "cpu_op": Item.CALL,
    "operator": Item.CALL,
    "cuda_runtime": Item.API,
    "cuda_driver": Item.API,
    "runtime": Item.API,
    "user_annotation": Item.OPERATION,
    "python_function": Item.FRAME,
}
STEP = re.compile(r"ProfilerStep#(\d+)")

DEVICE: Mapping = {
    "correlation": "args/correlation",
    "bytes": "args/bytes",
    "stream": "args/stream",
    "graph": "args/graph id",
    "grid": ("args/grid/0", "args/grid/1", "args/grid/2"),
    "block": ("args/block/0", "args/block/1", "args/block/2"),
    "registers": "args/registers per thread",
    "shared_dynamic": "args/shared memory",
}
EVENTS = Spec(
    rows=("traceEvents/[]", "[]"),
    text=("ph", "cat", "name", "pid", "tid", "args/name", "args/device"),
    micro=("ts", "dur"),
    int=(*mapped_columns(DEVICE), "args/External id", "args/external id"),
    raw=shapes.COLUMNS,
)
DEVICES = Spec(("deviceProperties/[]",), text=("name",), int=("id", "numSms", "totalGlobalMem"))
ABOUT = Spec(("",), int=("baseTimeNanoseconds", "distributedInfo/rank", "distributedInfo/world_size"))


@dataclass
class _Events:
    """The columns of all events of a file."""

    columns: Columns
    texts: list[str]
    about: dict[str, int | str]
    devices: list[dict[str, Any]]

    def __getitem__(self, key: str) -> Ints:
        return self.columns[key]


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The processes of one file."""
    events = _parse(path, limits, progress)
    lower = [text.lower() for text in events.texts]
    items = np.array([HOST_CATEGORIES.get(text, -1) for text in lower], np.int64)[events["cat"]]
    kinds = np.array([DEVICE_CATEGORIES.get(text, 0) for text in lower], np.int64)[events["cat"]]
    complete = events["ph"] == _id(events.texts, "X")
    if not complete.any():
        raise CutawayError(f"{path} contains no profiler events; was it written by torch.profiler?")
    base = int(events.about.get("baseTimeNanoseconds", 0))
    if not 0 <= base < LAST_TIME:
        raise CutawayError(
            f"{path} has an impossible baseTimeNanoseconds, so its events have no time; export it again."
        )
    start = np.where(events["ts"] > LAST_TIME - base, MISSING, events["ts"]) + np.where(
        events["ts"] < 0, 0, base
    )
    fine, end, negative = clip_times(start, events["dur"])
    counts = _counts(events, lower, complete, fine, start, end, negative)
    usable = complete & fine
    host = _host(events, items, usable & (items >= 0), start, end)
    device_rows = np.flatnonzero(usable & (kinds > 0))
    device = _device(events, kinds, device_rows, start, end)
    lost = int((complete & ~fine & ((items >= 0) | (kinds > 0))).sum())
    recorded = _split(events, host, device, path)
    first = recorded[0]
    told = [events[f"args/{key}"][device_rows] != MISSING for key in ("External id", "external id")]
    counts["gpu_with_external_id"] = int((told[0] | told[1]).sum())
    first.counts, first.devices = counts, events.devices
    if lost:
        first.losses["events without a usable time"] = lost
    if negative:
        first.notes.append(f"{negative} events had a negative duration, which was set to 0")
    kernels, calls = (complete & (events["cat"] == _id(events.texts, cat)) for cat in ("kernel", "cpu_op"))
    operators = shapes.operators(events.columns, events.texts, kernels, calls)
    rank, world = (events.about.get(f"distributedInfo/{key}") for key in ("rank", "world_size"))
    for process in recorded:
        process.operators = operators
        if rank is not None:
            process.name = f"rank {rank}" + (f" of {world}" if world else "")
    return recorded


def _parse(path: Path, limits: Limits, progress: Progress) -> _Events:
    (columns, devices, about), texts = read_tables(path, [EVENTS, DEVICES, ABOUT], limits, progress)
    names = {"numSms": "sms", "totalGlobalMem": "memory"}
    described = [
        {names.get(key, key): value for key, value in row.items()}
        for row in rows_of(devices, texts, ("name",))
    ]
    return _Events(columns, texts, next(iter(rows_of(about, texts, ())), {}), described)


def _id(texts: list[str], text: str) -> int:
    return texts.index(text) if text in texts else -1


def _numbers(texts: list[str], used: Ints, first_free: int) -> dict[int, int]:
    """For each text used as pid, tid or device, a number: itself if it is one that fits, else a free one."""
    numbers: dict[int, int] = {}
    for text in used.tolist():
        value = texts[text].strip()
        if value.isascii() and value.isdigit() and len(value) <= 10 and int(value) < first_free:
            numbers[text] = int(value)
    for text in used.tolist():
        if text not in numbers:
            numbers[text] = first_free + len(numbers)
    return numbers


def _look_up(numbers: dict[int, int], column: Ints) -> Ints:
    table = np.zeros(max(numbers, default=0) + 1, np.int64)
    for text, number in numbers.items():
        table[text] = number
    return table[column]


def _host(
    events: _Events, items: Ints, wanted: NDArray[np.bool_], start: Ints, end: Ints
) -> tuple[Ints, HostEvents]:
    """The host events and, for each, the text of its pid."""
    steps = np.array([bool(STEP.match(t)) for t in events.texts])
    frames = np.array([bool(_FRAME.match(t)) for t in events.texts])
    is_frame = items == Item.FRAME
    rows = np.flatnonzero(wanted & (~is_frame | frames[events["name"]]))
    # Old files write steps as operators: these stay calls, for the counts, and mark iterations as well.
    marks = rows[(items[rows] == Item.CALL) & steps[events["name"][rows]]]
    rows = np.concatenate([rows, marks])
    item = items[rows].astype(np.uint8)
    item[(item == Item.OPERATION) & steps[events["name"][rows]]] = Item.ITERATION
    item[len(rows) - len(marks) :] = Item.ITERATION
    numbers = _numbers(events.texts, np.unique(events["tid"][rows]), 1 << 31)
    columns = (_look_up(numbers, events["tid"][rows]), item, events["name"][rows], start[rows], end[rows])
    return events["pid"][rows], HostEvents(*columns, or_zero(events["args/correlation"][rows]))


_FRAME = re.compile(r"(.+)\((\d+)\): (.+)", re.DOTALL)


def _device(events: _Events, kinds: Ints, rows: Ints, start: Ints, end: Ints) -> NDArray[np.void]:
    where = np.where(events["args/device"][rows] > 0, events["args/device"][rows], events["pid"][rows])
    device = _look_up(_numbers(events.texts, np.unique(where), 1 << 16), where)
    about = {name: events[name][rows] for name in mapped_columns(DEVICE)}
    known = {"name": events["name"][rows], "kind": kinds[rows], "device": device}
    return device_records(events.texts, start[rows], end[rows], about, DEVICE, **known)


def _split(
    events: _Events, host: tuple[Ints, HostEvents], device: NDArray[np.void], path: Path
) -> list[Recorded]:
    """One Recorded for each process that has host events; device work follows its correlation id."""
    pid_texts, calls = host
    pids = np.unique(pid_texts)
    numbers = _numbers(events.texts, pids, 1 << 22)
    names, thread_names = _metadata(events)
    found: list[Recorded] = []
    owner = np.zeros(len(device), np.int64)
    for index, pid in enumerate(pids.tolist()):
        part = calls.where(pid_texts == pid)
        threads = {t: n for (p, t), n in thread_names.items() if p == pid}
        found.append(Recorded(numbers[pid], names.get(pid, ""), events.texts, part, device[:0], threads))
        if index:
            owner[np.isin(device["correlation"], part.correlation[part.item == Item.API])] = index
    if not found:
        found.append(Recorded(0, "", events.texts, HostEvents.join([]), device[:0]))
    for index, process in enumerate(found):
        process.device = device[owner == index]
        process.name = process.name or path.name
    return found


def _metadata(events: _Events) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """Names of processes by text of pid, of threads by text of pid and number of tid."""
    rows = np.flatnonzero(events["ph"] == _id(events.texts, "M"))
    numbers = _numbers(events.texts, np.unique(events["tid"]), 1 << 31)
    names: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    for row in rows.tolist():
        kind, value = events.texts[events["name"][row]], events.texts[events["args/name"][row]]
        pid = int(events["pid"][row])
        if kind == "process_name":
            names[pid] = value
        elif kind == "thread_name":
            threads[pid, numbers[int(events["tid"][row])]] = value
    return names, threads


def _counts(
    events: _Events,
    lower: list[str],
    complete: NDArray[np.bool_],
    fine: NDArray[np.bool_],
    start: Ints,
    end: Ints,
    negative: int,
) -> dict[str, Any]:
    """What the file held, for the summary: things the run itself no longer shows."""
    cats, numbers = np.unique(events["cat"][complete], return_counts=True)
    by_cat: dict[str, int] = {}
    for cat, number in zip(cats.tolist(), numbers.tolist(), strict=True):
        by_cat[lower[cat]] = by_cat.get(lower[cat], 0) + number
    python = complete & fine & (events["cat"] == _id(lower, "python_function"))
    return {
        "format": "kineto-json",
        "events": len(events["ph"]),
        "x_by_cat": by_cat,
        "n_python": by_cat.get("python_function", 0),
        "n_user_annotation": by_cat.get("user_annotation", 0),
        "n_gpu_user_annotation": by_cat.get("gpu_user_annotation", 0),
        "python_union_ns": union_ns(start[python], end[python]),
        "negative_dur": negative,
    }
