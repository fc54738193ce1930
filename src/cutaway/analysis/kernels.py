"""Device work by what it was and which operation launched it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import texts
from cutaway.analysis.devices import DeviceWork
from cutaway.analysis.intervals import length, union
from cutaway.analysis.occupancy import multiprocessor, occupancy
from cutaway.analysis.sweep import Swept
from cutaway.analysis.table import Table
from cutaway.trace.format import Structured
from cutaway.trace.reader import Trace
from cutaway.vocabulary import DEVICE_LAYERS, DeviceKind

_BY = ("process", "device", "stream", "operation", "name", "kind", "grid", "block", "registers", "shared")
_UNATTRIBUTED = "(unattributed)"


def kernels(trace: Trace, swept: Swept, part: str = "all") -> Table:
    """One row for each kernel or copy by device, stream, launching operation, grid and block, longest first.

    `launch_ns` is the mean time from the end of the launching call to the start of the work (negative when the work
    began while the call was still running), `queue` the mean number of pieces of work that were launched before
    and had not yet started on the same stream; both are NaN where no launch is known. `occupancy` is the estimated
    share of the device's threads, NaN for copies and for devices whose limits are not known.
    """
    parts = [_table(trace, swept, index, work, part) for index, work in enumerate(swept.devices)]
    if not parts:
        return Table.from_rows((*_BY, "count", "ns", "bytes", "launch_ns", "queue", "occupancy"), [])
    out = Table.concat(parts).group(
        _BY, ["count", "ns", "bytes", "launched", "launch_ns", "queue", "occupancy"]
    )
    launched = np.where(out["launched"] > 0, out["launched"], np.nan)
    columns = {name: out[name] for name in out.columns if name != "launched"}
    columns["launch_ns"], columns["queue"] = out["launch_ns"] / launched, out["queue"] / launched
    columns["occupancy"] = out["occupancy"] / out["count"]
    return Table(columns).sort("ns", descending=True)


def device_time(trace: Trace, swept: Swept, part: str = "all", *, layers: bool = True) -> Table:
    """Busy time of each device by the operation that launched the work, overlaps within a row merged."""
    rows: list[tuple[Any, ...]] = []
    by = ("process", "device", "operation", *(("layer",) if layers else ()))
    for index, work in enumerate(swept.devices):
        at = np.flatnonzero(_kept(swept, work, part))
        if not len(at):
            continue
        records = work.records[at]
        operation = _operations(trace, index, work, at)
        keys = Table(
            {
                "device": records["device"].astype(np.int64),
                "operation": operation,
                "layer": _kinds(records["kind"]) if layers else np.zeros(len(at), np.int64),
            }
        )
        first, group = keys.groups(keys.columns)
        for number, row in enumerate(first.tolist()):
            mine = group == number
            key = keys.row(row)
            ns = length(union(records["start"][mine], records["end"][mine]))
            head = (index, key["device"], key["operation"], *((key["layer"],) if layers else ()))
            rows.append((*head, ns, int(mine.sum())))
    return Table.from_rows((*by, "ns", "count"), rows).sort("ns", descending=True)


def launched(trace: Trace, swept: Swept, part: str = "all") -> Table:
    """Device work by the API call that launched it and the thread that made the call (-1: the launch was not recorded)."""
    tables = [Table.from_rows(("process", "thread", "operation", "api", "name", "ns"), [])]
    for index, work in enumerate(swept.devices):
        at = np.flatnonzero(_kept(swept, work, part))
        records, launch = work.records[at], work.launch[at]
        known, who = launch >= 0, np.full(len(at), index)
        thread, api = np.full(len(at), -1), np.zeros(len(at), np.int64)
        thread[known], api[known] = work.api_thread[launch[known]], work.api["name"][launch[known]]
        columns = {"process": who, "thread": thread, "operation": _operations(trace, index, work, at)}
        columns |= {"api": texts(trace, who, api), "name": texts(trace, who, records["name"])}
        ns = (records["end"] - records["start"]).astype(np.int64)
        tables += [Table({**columns, "ns": ns}).group(tuple(columns), ["ns"])] if len(at) else []
    return Table.concat(tables)


def _table(trace: Trace, swept: Swept, index: int, work: DeviceWork, part: str) -> Table:
    at = np.flatnonzero(_kept(swept, work, part))
    records = work.records[at]
    launch = work.launch[at]
    known = launch >= 0
    waited = np.zeros(len(at), np.int64)
    waited[known] = records["start"][known].astype(np.int64) - work.api["end"][launch[known]].astype(np.int64)
    return Table(
        {
            "process": np.full(len(at), index, np.int64),
            "device": records["device"].astype(np.int64),
            "stream": records["stream"].astype(np.int64),
            "operation": _operations(trace, index, work, at),
            "name": texts(trace, np.full(len(at), index), records["name"]),
            "kind": _kinds(records["kind"]),
            "grid": _shape(records["grid"]),
            "block": _shape(records["block"]),
            "registers": records["registers"].astype(np.int64),
            "shared": records["shared_static"].astype(np.int64) + records["shared_dynamic"].astype(np.int64),
            "count": np.ones(len(at), np.int64),
            "ns": (records["end"] - records["start"]).astype(np.int64),
            "bytes": records["bytes"].astype(np.int64),
            "launched": known.astype(np.int64),
            "launch_ns": waited.astype(float),
            "queue": np.where(known, _queue(work)[at], 0).astype(float),
            "occupancy": _occupancy(trace.processes[index].log.devices, records),
        }
    )


def _occupancy(devices: list[dict[str, Any]], records: Structured) -> NDArray[np.float64]:
    out = np.full(len(records), np.nan)
    for device in devices:
        major, minor = (device.get(key, device.get(f"compute{key.title()}")) for key in ("major", "minor"))
        if not isinstance(major, int) or not isinstance(minor, int):
            continue
        at = np.flatnonzero((records["device"] == device.get("id")) & (records["kind"] == DeviceKind.KERNEL))
        mine = records[at]
        shared = mine["shared_static"].astype(np.int64) + mine["shared_dynamic"]
        sms = device.get("sms")
        limits = multiprocessor(major, minor)
        counted = sms if isinstance(sms, int) else 0
        found = occupancy(limits, counted, mine["grid"], mine["block"], mine["registers"], shared)
        out[at] = found.estimated
    return out


def _kept(swept: Swept, work: DeviceWork, part: str) -> NDArray[np.bool_]:
    """Start-up and steady state are parted by when the work started."""
    if part == "all":
        return work.busy
    late = work.records["start"] >= swept.steady_ns
    return np.asarray(work.busy & (late if part == "steady" else ~late))


def _operations(trace: Trace, index: int, work: DeviceWork, at: NDArray[Any]) -> NDArray[Any]:
    out = texts(trace, np.full(len(at), index), work.operation[at])
    out[work.unattributed[at]] = _UNATTRIBUTED
    return out


def _queue(work: DeviceWork) -> NDArray[np.int64]:
    """For each piece of work, how many on its stream had been launched but not started when it was launched."""
    out = np.zeros(len(work.records), np.int64)
    known = work.busy & (work.launch >= 0)
    for stream in np.unique(work.stream[known]).tolist():
        at = np.flatnonzero(known & (work.stream == stream))
        launched = work.api["start"][work.launch[at]].astype(np.int64)
        started = np.sort(work.records["start"][at].astype(np.int64))
        before = np.searchsorted(np.sort(launched), launched, side="left")
        out[at] = np.maximum(before - np.searchsorted(started, launched, side="right"), 0)
    return out


def _kinds(kind: NDArray[Any]) -> NDArray[Any]:
    table = np.empty(256, object)
    table[:] = ""
    for number, name in DEVICE_LAYERS.items():
        table[int(number)] = name
    return np.asarray(table[kind])


def _shape(columns: NDArray[Any]) -> NDArray[Any]:
    """`(128, 1, 1)` as `128x1x1`, nothing where it was not told."""
    distinct, inverse = np.unique(columns, axis=0, return_inverse=True)
    words = np.empty(len(distinct), object)
    words[:] = ["x".join(map(str, row)) if any(row) else "" for row in distinct.tolist()]
    return np.asarray(words[inverse.reshape(-1)]) if len(columns) else np.empty(0, object)
