"""Turns what a reader found into a run: nests the events of each thread, interns names and call sites, and
gives every piece of device work the operation that launched it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _imports
from cutaway.trace.format import API_DTYPE, Structured
from cutaway.trace.imports.recorded import Item, Recorded
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import API_SYNC, Kind

_FRAME = re.compile(r"(.+)\((\d+)\): (.+)", re.DOTALL)
_NUMBER = re.compile(r"#(\d+)")
_SYNC = re.compile(r"Synchronize|StreamWait|EventQuery|hsa_signal_wait")
_CALL_KINDS = (Kind.CALL, Kind.ENTER, Kind.EXIT)
_OPERATION_KINDS = (Kind.OP_ENTER, Kind.OP_EXIT)


def build(recorded: list[Recorded], output: Path, command: str, source: str) -> None:
    """Writes the run. The folder must not exist."""
    with RunWriter(output, command=command, source=source) as run:
        used: set[int] = set()
        for process in recorded:
            pid = process.pid
            while pid in used:  # ranks in containers often share a process id
                pid += 1 << 22
            used.add(pid)
            _write(run, process, pid)


def _write(run: RunWriter, process: Recorded, pid: int) -> None:
    start, end = _life(process)
    writer = run.process(pid, name=process.name, start_ns=start)
    for t in (start, end):
        writer.log("anchor", {"mono": t, "real": t, "raw": t, "ticks": t})
    for device in process.devices:
        writer.log("device", device)
    names = _Names(writer, process)
    operation = _write_threads(writer, process, names)
    api = process.host.item == Item.API
    calls = _api_records(process, api, operation, names)
    writer.api(calls)
    writer.device(_attributed(process.device, calls, names))
    for what, n in process.losses.items():
        writer.log("loss", {"what": what, "n": n, "t": end})
    for text in process.notes:
        writer.log("note", {"text": text})
    for operator in process.operators:
        writer.log("operator", operator)
    writer.log("imported", process.counts)
    writer.exit(code=0, t=end)


def _life(process: Recorded) -> tuple[int, int]:
    starts = [a.min() for a in (process.host.start, process.device["start"]) if len(a)]
    ends = [a.max() for a in (process.host.end, process.device["end"]) if len(a)]
    return int(min(starts, default=0)), int(max(ends, default=0))


class _Names:
    """Ids of the writer for the texts of a reader, made when first used."""

    def __init__(self, writer: ProcessWriter, process: Recorded) -> None:
        self._writer, self._texts = writer, process.texts
        self._layer = process.call_layer

    def ids(self, texts: Any) -> NDArray[np.uint32]:
        """The name ids of a column of texts."""
        distinct, where = np.unique(texts, return_inverse=True)
        names = [self._writer.name(self._texts[text]) if text else 0 for text in distinct.tolist()]
        return np.array(names, np.uint32)[where]

    def call(self, function: int, site: int) -> int:
        """The call id of a function called from a Python frame, or from nowhere known."""
        match = _FRAME.fullmatch(self._texts[site]) if site != _imports.NOWHERE else None
        file, line, func = match.groups() if match else ("", "0", "")
        number = int(line) if len(line) < 9 else 0
        return self._writer.call(
            layer=self._layer, fn=self._texts[function], file=file, line=number, func=func
        )


def _write_threads(writer: ProcessWriter, process: Recorded, names: _Names) -> NDArray[np.uint32]:
    """Writes the streams of all threads; returns the innermost operation (as text) of every host event."""
    host = process.host
    operation = np.full(len(host.start), _imports.NOWHERE, np.uint32)
    if not len(operation):
        return operation
    order = np.argsort(host.thread, kind="stable")
    threads, first = np.unique(host.thread[order], return_index=True)
    dropped = 0
    for tid, rows in zip(threads.tolist(), np.split(order, first[1:]), strict=True):
        nested = _imports.nest(host.start[rows], host.end[rows], host.item[rows], _item_names(process, rows))
        operation[rows] = nested["operation"]
        dropped += nested["dropped"]
        calls = zip(nested["function"].tolist(), nested["site"].tolist(), strict=True)
        call_ids = np.array([names.call(function, site) for function, site in calls], np.uint32)
        name = process.threads.get(tid, "")
        for lane, columns in enumerate(nested["lanes"]):
            # A second lane is the same thread, but a stream of its own: it gets a number no system gives out.
            lane_tid = tid if lane == 0 else (lane << 24 | tid & 0xFFFFFF) + (1 << 31) & 0xFFFFFFFF
            lane_name = name if lane == 0 else f"{name or tid} (overlapping {lane})"
            _write_lane(writer, (lane_tid, lane_name), columns, call_ids, names)
    if dropped:
        process.losses["events nested too deep or overlapping too often"] = dropped
    return operation


def _item_names(process: Recorded, rows: Any) -> NDArray[np.uint32]:
    """The name column for nesting; that of an iteration is its number."""
    host = process.host
    name: NDArray[np.uint32] = host.name[rows].astype(np.uint32)
    for i in np.flatnonzero(host.item[rows] == Item.ITERATION).tolist():
        number = _NUMBER.search(process.texts[name[i]])
        name[i] = int(number.group(1)) & 0x7FFFFFFF if number else 0
    return name


def _write_lane(
    writer: ProcessWriter, thread: tuple[int, str], columns: Any, call_ids: NDArray[np.uint32], names: _Names
) -> None:
    time, value, kind, id = columns
    ids = id.copy()
    is_call, is_operation = np.isin(kind, _CALL_KINDS), np.isin(kind, _OPERATION_KINDS)
    ids[is_call] = call_ids[id[is_call]]
    if is_operation.any():
        ids[is_operation] = names.ids(id[is_operation])
    writer.thread(tid=thread[0], name=thread[1]).write(time, value, kind, ids)


def _api_records(
    process: Recorded, api: NDArray[np.bool_], operation: NDArray[np.uint32], names: _Names
) -> Structured:
    host = process.host
    out = np.zeros(int(api.sum()), API_DTYPE)
    out["start"], out["end"] = host.start[api], host.end[api]
    out["correlation"] = host.correlation[api]
    out["os_thread"] = host.thread[api]
    out["name"] = names.ids(host.name[api])
    inside = operation[api] != _imports.NOWHERE
    out["operation"][inside] = names.ids(operation[api][inside])
    sync = np.array([bool(_SYNC.search(text)) for text in process.texts])
    out["flags"] = np.where(sync[host.name[api]], API_SYNC, 0)
    return _by_start(out)


def _by_start(records: Structured) -> Structured:
    return records[np.argsort(records["start"], kind="stable")]


def _attributed(device: Structured, calls: Structured, names: _Names) -> Structured:
    """Device records by start, with the operation of the call that launched them."""
    out = device.copy()
    out["name"] = names.ids(device["name"])
    known, first = np.unique(calls["correlation"], return_index=True)
    if len(known):
        at = np.minimum(np.searchsorted(known, out["correlation"]), len(known) - 1)
        found = known[at] == out["correlation"]
        out["operation"][found] = calls["operation"][first[at[found]]]
    return _by_start(out)
