"""Reads the JSON of torch.profiler (Kineto), new and old, plain or gzip.

Events are told apart by `cat` alone. Times are decimal microseconds after `baseTimeNanoseconds` and are kept
to the nanosecond. A file is one process unless it says otherwise; device work belongs to the process that
launched it.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError
from cutaway.record.devices.events import operator_entries
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.imports.columns import (
    LAST_TIME,
    MISSING,
    Clock,
    Columns,
    Ints,
    Mapping,
    matching,
    records,
)
from cutaway.trace.imports.counters import Counted, Counters, number
from cutaway.trace.imports.kineto_counters import VALUE, samples
from cutaway.trace.imports.recorded import (
    FRAME,
    HOST_DTYPE,
    STEP,
    Item,
    Recorded,
    union_ns,
)
from cutaway.trace.imports.source import (
    Limits,
    Progress,
    Spec,
    read_chunks,
    read_tables,
    rows_of,
)
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
RANGE = "cuda_profiler_range"
MEMORY = "[memory]"
ALLOCATOR: Mapping = {
    "allocated": "args/Total Allocated",
    "reserved": "args/Total Reserved",
    "size": "args/Bytes",
    "address": "args/Addr",
    "device_type": "args/Device Type",
    "device_number": "args/Device Id",
}
LAUNCH = re.compile(r"\A(cu|cuda|hip)(Launch|ModuleLaunch|ExtLaunch)\w*Kernel")
EVENTS = Spec(
    rows=("traceEvents/[]", "[]"),
    text={
        "ph": "ph",
        "cat": "cat",
        "name": "name",
        "pid": "pid",
        "tid": "tid",
        "label": "args/name",
        "device": "args/device",
    },
    micro={"start": "ts", "duration": "dur", **VALUE},
    int=DEVICE
    | ALLOCATOR
    | {"external": "args/External id", "old_external": "args/external id"},
    raw={
        "dims": "args/Input Dims",
        "types": "args/Input type",
        "concrete": "args/Concrete Inputs",
    },
)
DEVICES = Spec(
    ("deviceProperties/[]",),
    text={"name": "name"},
    int={"id": "id", "sms": "numSms", "memory": "totalGlobalMem"},
)
ABOUT = Spec(
    ("",),
    int={
        "base": "baseTimeNanoseconds",
        "rank": "distributedInfo/rank",
        "world": "distributedInfo/world_size",
    },
)

_HOST = ("start", "end", "process", "thread", "name", "item", "correlation")
_WORK = (
    "start",
    "end",
    "pid",
    "device",
    "name",
    "kind",
    "external",
    "old_external",
    *DEVICE,
)


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The processes of one file."""
    (events, devices, abouts), texts = read_tables(
        path, [EVENTS, DEVICES, ABOUT], limits, progress
    )
    about = next(iter(rows_of(abouts, texts)), {})
    lower = [text.lower() for text in texts]
    items = np.array([HOST_CATEGORIES.get(text, -1) for text in lower], np.int64)[
        events["cat"]
    ]
    kinds = np.array([DEVICE_CATEGORIES.get(text, 0) for text in lower], np.int64)[
        events["cat"]
    ]
    complete = events["ph"] == _id(texts, "X")
    if not complete.any():
        raise CutawayError(
            f"{path} contains no profiler events; was it written by torch.profiler?"
        )
    clock = Clock(about.get("base", 0))
    if not 0 <= clock.epoch < LAST_TIME:
        raise CutawayError(
            f"{path} has an impossible baseTimeNanoseconds, so its events have no time; export it again."
        )
    duration = events["duration"]
    events |= {
        "item": items,
        "kind": kinds,
        "thread": _numbers(texts, events["tid"], 1 << 31),
    }
    events["process"] = _numbers(texts, events["pid"], 1 << 22)
    events["end"] = np.where(
        duration == MISSING, MISSING, events["start"] + np.maximum(duration, 0)
    )
    host = clock.place(_part(events, complete & (items >= 0), *_HOST))
    work = clock.place(_part(events, complete & (kinds > 0), *_WORK))
    clock.negative = int(((duration < 0) & (duration != MISSING)).sum())
    python = host["item"] == Item.FRAME
    known = (work["external"] != MISSING) | (work["old_external"] != MISSING)
    by_cat: dict[str, int] = {}
    for cat, times in zip(
        *np.unique(events["cat"][complete], return_counts=True), strict=True
    ):
        by_cat[lower[cat]] = by_cat.get(lower[cat], 0) + int(times)
    counts = {  # for the summary: things the run itself no longer shows
        "format": "kineto-json",
        "events": len(events["ph"]),
        "x_by_cat": by_cat,
        "n_python": by_cat.get("python_function", 0),
        "n_user_annotation": by_cat.get("user_annotation", 0),
        "n_gpu_user_annotation": by_cat.get("gpu_user_annotation", 0),
        "python_union_ns": union_ns(host["start"][python], host["end"][python]),
        "negative_dur": clock.negative,
        "gpu_with_external_id": int(known.sum()),
    }
    place = _numbers(
        texts, np.where(work["device"] > 0, work["device"], work["pid"]), 1 << 16
    )
    recorded = _split(
        events, texts, _host(host, texts), records(DEVICE_DTYPE, work, device=place)
    )
    first = recorded[0]
    first.clock, first.counts, first.devices = (
        clock,
        counts,
        rows_of(devices, texts, "name"),
    )
    operators = _operators(events, texts, complete)
    if by_cat.get(RANGE):
        launching = (host["item"] == Item.API) & matching(LAUNCH, texts)[host["name"]]
        launches = _part(host, launching, "start", "correlation")
        first.counters = _ranges(path, limits, texts, launches)
    first.counters.samples = samples(
        events, texts, events["ph"] == _id(texts, "C"), clock
    )
    allocator = _allocator(events, texts, clock)
    for process in recorded:
        own = allocator["process"] == process.pid
        process.memory = {name: column[own] for name, column in allocator.items()}
        process.operators = operators
        process.name = process.name or path.name
        if "rank" in about:
            process.name = f"rank {about['rank']}" + (
                f" of {about['world']}" if about.get("world") else ""
            )
    return recorded


def _id(texts: list[str], text: str) -> int:
    if text in texts:
        return texts.index(text)
    return -1


def _allocator(events: Columns, texts: list[str], clock: Clock) -> Columns:
    """What the allocators of PyTorch said (`profile_memory=True`); these events have a time and no duration."""
    said = (events["name"] == _id(texts, MEMORY)) & (events["allocated"] != MISSING)
    rows = _part(events, said, "start", "process", "thread", *ALLOCATOR)
    return clock.place(rows | {"end": rows["start"]})


def _part(events: Columns, rows: NDArray[np.bool_], *names: str) -> Columns:
    return {name: events[name][rows] for name in names}


def _numbers(texts: list[str], column: Ints, free: int) -> Ints:
    """Pids, tids and devices are texts: a number for each, itself if it is one that fits, else one from `free` on."""
    numbers = np.zeros(len(texts), np.int64)
    for count, text in enumerate(np.unique(column).tolist()):
        value = texts[text].strip()
        fits = (
            value.isascii()
            and value.isdigit()
            and len(value) <= 10
            and int(value) < free
        )
        if fits:
            numbers[text] = int(value)
        else:
            numbers[text] = free + count
    return numbers[column]


def _host(rows: Columns, texts: list[str]) -> Structured:
    host = records(HOST_DTYPE, rows, pid=rows["process"])
    host = host[(host["item"] != Item.FRAME) | matching(FRAME, texts)[host["name"]]]
    step = matching(STEP, texts)[host["name"]]
    # Old files write steps as operators: these stay calls, for the counts, and mark iterations as well.
    marks = host[(host["item"] == Item.CALL) & step]
    marks["item"] = Item.ITERATION
    host["item"][(host["item"] == Item.OPERATION) & step] = Item.ITERATION
    return np.concatenate([host, marks])


def _split(
    events: Columns, texts: list[str], host: Structured, device: Structured
) -> list[Recorded]:
    """One Recorded for each process that has host events; device work follows its correlation id."""
    names: dict[int, str] = {}
    threads: dict[int, dict[int, str]] = {}
    told = _part(
        events, events["ph"] == _id(texts, "M"), "name", "label", "process", "thread"
    )
    for kind, label, pid, tid in zip(
        *(column.tolist() for column in told.values()), strict=True
    ):
        if texts[kind] == "process_name":
            names[pid] = texts[label]
        elif texts[kind] == "thread_name":
            threads.setdefault(pid, {})[tid] = texts[label]
    found: list[Recorded] = []
    owner = np.zeros(len(device), np.int64)
    for index, pid in enumerate(list(dict.fromkeys(host["pid"].tolist())) or [0]):
        part = host[host["pid"] == pid]
        found.append(
            Recorded(pid, names.get(pid, ""), texts, part, device, threads.get(pid, {}))
        )
        if index:
            owner[
                np.isin(
                    device["correlation"], part["correlation"][part["item"] == Item.API]
                )
            ] = index
    for index, process in enumerate(found):
        process.device = device[owner == index]
    return found


def _operators(
    events: Columns, texts: list[str], complete: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Operators with the shapes of their inputs (`record_shapes=True`), and which launches each call of them made."""

    @cache
    def told(text: int) -> Any:
        try:
            return json.loads(texts[text] or "[]")
        except ValueError:  # the column reader takes more for JSON than Python does
            return []

    def rows(category: str, wanted: NDArray[np.bool_], *names: str) -> Any:
        chosen = complete & (events["cat"] == _id(texts, category)) & wanted
        return zip(
            *(column.tolist() for column in _part(events, chosen, *names).values()),
            strict=True,
        )

    launched: dict[int, list[int]] = {}
    for id, correlation in rows(
        "kernel", events["correlation"] != MISSING, "external", "correlation"
    ):
        launched.setdefault(id, []).append(correlation)
    made = (events["dims"] != 0) & np.isin(events["external"], list(launched))
    return operator_entries(
        (
            (texts[name], told(dims), told(types), told(concrete)),
            sorted(set(launched[id])),
        )
        for id, name, dims, types, concrete in rows(
            "cpu_op", made, "external", "name", *EVENTS.raw
        )
    )


def _ranges(
    path: Path, limits: Limits, texts: list[str], launches: Columns
) -> Counters:
    """The counters that CUPTI's range profiler took, one range for each kernel in the order of their launches.

    Their times are not those of the kernels, which ran several times each: they are left out. A file with such ranges is short.
    """
    content = json.loads(b"".join(read_chunks(path, limits, lambda read: None)))
    if isinstance(content, dict):
        events = content["traceEvents"]
    else:
        events = content
    ranges = [event for event in events if str(event.get("cat", "")).lower() == RANGE]
    ranges.sort(key=lambda event: number(event.get("ts")))
    order = np.argsort(launches["start"], kind="stable")
    correlations = launches["correlation"][order].tolist()
    if len(correlations) != len(
        ranges
    ):  # one range too many or too few would shift all others
        correlations = [None] * len(ranges)
    numbers = {text: i for i, text in enumerate(texts)}
    counters = Counters()
    for event, correlation in zip(ranges, correlations, strict=True):
        name = str(event.get("name", ""))
        if name not in numbers:
            numbers[name] = len(texts)
            texts.append(name)
        values = {key: number(value) for key, value in event.get("args", {}).items()}
        counters.kernels.append(Counted(numbers[name], values, correlation=correlation))
    return counters
