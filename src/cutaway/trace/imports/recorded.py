"""One process of a foreign trace: the columns that every reader produces, and how they become part of a run.

Readers know only the foreign format; `write` knows only ours. Names are numbers in a list of
texts that all processes of a file share. Times are nanoseconds since the epoch, or of the file's own clock if it has no
epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _imports
from cutaway.trace.format import API_DTYPE, Structured
from cutaway.trace.imports.columns import Clock, Columns, Ints, matching, records
from cutaway.trace.imports.counters import Counters, write_counters
from cutaway.trace.imports.device_memory import write_device_memory
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import API_SYNC, DeviceKind, Kind

FRAME = re.compile(r"\A(.+)\((\d+)\): (.+)", re.DOTALL)
STEP = re.compile(r"\AProfilerStep#\d+")
_NUMBER = re.compile(r"#(\d+)")
_SYNC = re.compile(r"Synchronize|StreamWait|EventQuery|hsa_signal_wait")
_COLLECTIVE = re.compile(r"[nr]ccl", re.IGNORECASE)


class Item:
    """What a host event is; the numbers of `Item` in native/imports/nest.h."""

    CALL = 0
    OPERATION = 1
    FRAME = 2
    API = 3
    ITERATION = 4


_NUMBERS = ("pid", "thread", "name", "start", "end", "correlation")
HOST_DTYPE = np.dtype(
    [("item", "u1"), *((name, "<i8") for name in _NUMBERS)], align=True
)
"""An event of a thread; `correlation` is for API calls."""


@dataclass
class Recorded:
    """One process of a foreign trace; its events are in any order."""

    pid: int
    name: str
    texts: list[str]
    host: Structured
    device: Structured
    threads: dict[int, str] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    call_layer: str = "backend"
    clock: Clock = field(default_factory=Clock)
    losses: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    operators: list[dict[str, Any]] = field(default_factory=list)  # log "operator"
    counters: Counters = field(default_factory=Counters)
    memory: Columns | None = None  # events of an allocator
    more: Callable[[ProcessWriter], None] | None = None  # writes what has no columns


def union_ns(start: Ints, end: Ints) -> int:
    """Length of the union of half-open intervals."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start = start[order]
    end = np.maximum.accumulate(end[order])
    gaps = np.maximum(start[1:] - end[:-1], 0)
    return int(end[-1] - start[0] - gaps.sum())


def write(run: RunWriter, process: Recorded, pid: int) -> None:
    """Adds a process to a run: nests the events of each thread, and gives device work the operation that launched it."""
    host = process.host
    device = process.device.copy()
    start = min(
        (int(part["start"].min()) for part in (host, device) if len(part)), default=0
    )
    end = max(
        (int(part["end"].max()) for part in (host, device) if len(part)), default=0
    )
    writer = run.process(pid, name=process.name, start_ns=start)
    for t in (start, end):
        writer.log("anchor", {"mono": t, "real": t, "raw": t, "ticks": t})
    for about in process.devices:
        writer.log("device", about)
    operation = _write_threads(writer, process)
    api = host["item"] == Item.API
    calls = records(
        API_DTYPE, {name: host[name][api] for name in ("start", "end", "correlation")}
    )
    calls["os_thread"] = host["thread"][api]
    calls["name"] = _name_ids(writer, process.texts, host["name"][api])
    calls["operation"] = _name_ids(writer, process.texts, operation[api])
    calls["flags"] = np.where(
        matching(_SYNC, process.texts)[host["name"][api]], API_SYNC, 0
    )
    collective = matching(_COLLECTIVE, process.texts)[device["name"]]
    device["kind"][(device["kind"] == DeviceKind.KERNEL) & collective] = (
        DeviceKind.COLLECTIVE
    )
    device["name"] = _name_ids(writer, process.texts, device["name"])
    calls, device = (
        part[np.argsort(part["start"], kind="stable")] for part in (calls, device)
    )
    known, first = np.unique(calls["correlation"], return_index=True)
    if len(known):
        at = np.minimum(np.searchsorted(known, device["correlation"]), len(known) - 1)
        found = known[at] == device["correlation"]
        device["operation"][found] = calls["operation"][first[at[found]]]
    writer.api(calls)
    writer.device(device)
    write_counters(writer, process.counters, process.texts)
    spans = host[host["item"] == Item.OPERATION]
    write_device_memory(writer, process.memory, spans, process.texts)
    if process.more is not None:
        process.more(writer)
    losses = {
        **process.losses,
        "events without a usable time": process.clock.unusable,
    }
    for what, n in losses.items():
        if n:
            writer.log("loss", {"what": what, "n": n, "t": end})
    if process.clock.negative:
        process.notes.append(
            f"{process.clock.negative} events had a negative duration, which was set to 0"
        )
    for text in process.notes:
        writer.log("note", {"text": text})
    for operator in process.operators:
        writer.log("operator", operator)
    writer.log("imported", process.counts)
    writer.exit(code=0, t=end)


def _name_ids(
    writer: ProcessWriter, texts: list[str], column: Any
) -> NDArray[np.uint32]:
    """The name ids of a column of texts; 0 for the empty text and for none."""
    distinct, where = np.unique(column, return_inverse=True)
    names = [
        writer.name(texts[i]) if i not in (0, _imports.NOWHERE) else 0
        for i in distinct.tolist()
    ]
    return np.array(names, np.uint32)[where]


def _write_threads(writer: ProcessWriter, process: Recorded) -> NDArray[np.uint32]:
    """Writes the streams of all threads; returns the innermost operation (as text) of every host event."""
    host = process.host
    texts = process.texts
    name = host["name"].astype(np.uint32)
    for i in np.flatnonzero(host["item"] == Item.ITERATION).tolist():
        number = _NUMBER.search(texts[name[i]])
        if number:
            name[i] = int(number.group(1)) & 0x7FFFFFFF
        else:
            name[i] = 0
    operation = np.full(len(host), _imports.NOWHERE, np.uint32)
    order = np.argsort(host["thread"], kind="stable")
    threads, first = np.unique(host["thread"][order], return_index=True)
    dropped = 0
    for tid, rows in zip(threads.tolist(), np.split(order, first)[1:], strict=True):
        nested = _imports.nest(
            host["start"][rows], host["end"][rows], host["item"][rows], name[rows]
        )
        operation[rows] = nested["operation"]
        dropped += nested["dropped"]
        calls = zip(nested["function"].tolist(), nested["site"].tolist(), strict=True)
        call_ids = np.array(
            [_call_id(writer, process, *call) for call in calls], np.uint32
        )
        for lane, (time, value, kind, id) in enumerate(nested["lanes"]):
            ids = id.copy()
            is_call = np.isin(kind, (Kind.CALL, Kind.ENTER, Kind.EXIT))
            is_operation = np.isin(kind, (Kind.OP_ENTER, Kind.OP_EXIT))
            ids[is_call] = call_ids[id[is_call]]
            ids[is_operation] = _name_ids(writer, texts, id[is_operation])
            lane_tid = tid
            title = process.threads.get(tid, "")
            if lane:  # the same thread, but a stream of its own: it gets a number that no system uses
                lane_tid = (lane << 24 | tid & 0xFFFFFF) + (1 << 31) & 0xFFFFFFFF
                title = f"{title or tid} (overlapping {lane})"
            writer.thread(tid=lane_tid, name=title).write(time, value, kind, ids)
    process.losses["events nested too deep or overlapping too often"] = dropped
    return operation


def _call_id(writer: ProcessWriter, process: Recorded, function: int, site: int) -> int:
    """The id of a function called from a Python frame, or from nowhere known."""
    if site != _imports.NOWHERE:
        match = FRAME.fullmatch(process.texts[site])
    else:
        match = None
    if match:
        file, line, func = match.groups()
    else:
        file = ""
        line = "0"
        func = ""
    number = int(line) if len(line) < 9 else 0
    fn = process.texts[function]
    return writer.call(
        layer=process.call_layer, fn=fn, file=file, line=number, func=func
    )
