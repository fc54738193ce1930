"""Reads the SQLite export of Nsight Systems (`nsys export --type sqlite`), whatever its schema version.

Times are nanoseconds after the start of the session. Correlation ids repeat between processes, so everything is kept
by process.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.imports.columns import (
    LAST_TIME,
    Clock,
    Columns,
    Mapping,
    matching,
    records,
    translate,
)
from cutaway.trace.imports.counters import Sampled
from cutaway.trace.imports.database import Database
from cutaway.trace.imports.recorded import HOST_DTYPE, STEP, Item, Recorded, union_ns
from cutaway.trace.imports.source import Limits, Progress, rows_of
from cutaway.vocabulary import DeviceKind

_RANGES = (
    59,
    60,
    70,
    71,
)  # push/pop and start/end ranges, and their forms in old exports
_COPY_KINDS = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD", 10: "Memcpy PtoP"}
_WAITS = re.compile(
    r"\A(p?poll|p?select|epoll_\w*wait\w*|sem_\w*wait|sigwait\w*|futex|\w*sleep|wait(pid|id|3|4)?|recv\w*|accept4?"
    r"|pthread_(cond_\w*wait|join|barrier_wait|mutex_\w*lock|rwlock_\w*lock))\Z"
)

_TIMES: Mapping = {"start": "start", "end": "end"}
_EVENT: Mapping = {**_TIMES, "id": "globalTid", "name": "nameId"}
_WORK: Mapping = {
    **_TIMES,
    "id": "globalPid",
    "correlation": "correlationId",
    "device": "deviceId",
    "stream": "streamId",
}
_KERNEL: Mapping = {
    **_WORK,
    "name": "demangledName",
    "short": "shortName",
    "grid": ("gridX", "gridY", "gridZ"),
    "block": ("blockX", "blockY", "blockZ"),
    "graph": "graphId",
    "registers": "registersPerThread",
    "shared_static": "staticSharedMemory",
    "shared_dynamic": "dynamicSharedMemory",
}
_CUPTI = "CUPTI_ACTIVITY_KIND_"


class _Export(NamedTuple):
    """The tables of one file; names are positions in `texts`."""

    api: Columns
    system: Columns
    ranges: Columns
    kernels: Columns
    copies: Columns
    sets: Columns
    threads: Columns
    processes: Columns
    gpus: Columns
    epoch: int
    metrics: list[Sampled]
    texts: list[str]
    skipped: int


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The processes of one file."""
    with closing(Database(path, limits)) as database:
        found = _tables(database, path, progress)
    clock = Clock(found.epoch)
    recorded = _processes(found, clock)
    first = recorded[0]
    first.clock = clock
    first.devices = rows_of(found.gpus, found.texts, "name")
    first.losses["rows without start or end"] = found.skipped
    for sample in found.metrics:
        first.counters.samples.append(replace(sample, t=sample.t + clock.epoch))
    ranges = found.ranges
    spans = ranges["end"] >= ranges["start"]
    first.counts = {
        "format": "nsys-sqlite",
        "processes": len(recorded),
        "n_nvtx": len(ranges["start"]),
        "nvtx_union_ns": union_ns(ranges["start"][spans], ranges["end"][spans]),
    }
    return recorded


def _tables(database: Database, path: Path, progress: Progress) -> _Export:
    correlated: Mapping = {**_EVENT, "correlation": "correlationId"}
    copied = {**_WORK, "bytes": "bytes", "detail": "copyKind"}
    api = database.columns(_CUPTI + "RUNTIME", correlated)
    kernels = database.columns(_CUPTI + "KERNEL", _KERNEL)
    copies = database.columns(_CUPTI + "MEMCPY", copied)
    sets = database.columns(_CUPTI + "MEMSET", {**_WORK, "bytes": "bytes"})
    progress(path.stat().st_size // 2)
    named = {**_EVENT, "name": "textId", "type": "eventType"}
    ranges = database.columns("NVTX_EVENTS", named, "text", clean=True)
    if not any(len(rows["start"]) for rows in (api, ranges, kernels, copies, sets)):
        raise CutawayError(
            f"{path} contains no CUDA or NVTX records; record with nsys profile -t cuda,nvtx and export it."
        )
    system = database.columns("OSRT_API", _EVENT)
    threads = database.columns("ThreadNames", {"id": "globalTid", "name": "nameId"})
    database.look_up([api, ranges, system, kernels, threads])
    ranges["name"] = np.where(ranges["text"] > 0, ranges["text"], ranges["name"])
    short = kernels["short"]
    kernels["name"] = np.where(kernels["name"] > 0, kernels["name"], short)
    labels = {}
    for kind in range(32):
        labels[kind] = database.number(_COPY_KINDS.get(kind, "Memcpy"))
    copies["name"] = translate(copies["detail"], labels)
    sets["name"] = np.full(len(sets["start"]), database.number("Memset"))
    gpu: Mapping = {"id": "id", "sms": "smCount", "memory": "totalMemory"}
    return _Export(
        api=api,
        system=system,
        ranges=ranges,
        kernels=kernels,
        copies=copies,
        sets=sets,
        threads=threads,
        epoch=_epoch(database),
        gpus=database.columns("TARGET_INFO_GPU", gpu, "name"),
        processes=database.columns("PROCESSES", {"id": "pid"}, "name"),
        metrics=_metrics(database),
        texts=database.texts,
        skipped=database.skipped,
    )


def _epoch(database: Database) -> int:
    """When the session began, in nanoseconds of UTC; 0 if the file does not say so, or nonsense."""
    column: Mapping = {"epoch": "utcEpochNs"}
    found = database.columns("TARGET_INFO_SESSION_START_TIME", column)["epoch"]
    if len(found) and 0 <= found[0] < LAST_TIME // 2:
        return int(found[0])
    return 0


def _processes(found: _Export, clock: Clock) -> list[Recorded]:
    """Each process with its host events and the work of its devices."""
    texts = found.texts
    host = _host(clock, texts, found.api, found.ranges, found.system)
    kinds = {
        DeviceKind.KERNEL: found.kernels,
        DeviceKind.MEMCPY: found.copies,
        DeviceKind.MEMSET: found.sets,
    }
    work = []
    owners = []
    for kind, table in kinds.items():
        rows = clock.place(table)
        work.append(records(DEVICE_DTYPE, rows, kind=kind))
        owners.append(_pid(rows["id"]))
    device = np.concatenate(work)
    owner = np.concatenate(owners)
    titles = _names_by_id(found.processes, texts)
    names = _names_by_id(found.threads, texts)
    recorded = []
    for pid in np.unique(np.concatenate([host["pid"], owner])).tolist() or [0]:
        title = titles.get(pid) or f"process {pid}"
        named = {id & 0xFFFFFF: name for id, name in names.items() if _pid(id) == pid}
        parts = host[host["pid"] == pid], device[owner == pid]
        recorded.append(Recorded(pid, title, texts, *parts, named, call_layer="wait"))
    return recorded


def _metrics(database: Database) -> list[Sampled]:
    """The samples of `nsys profile --gpu-metrics-devices`: the values of all metrics of a device at one moment.

    A metric is known by its type and its number together. Samples before the start of the session have negative times: they
    are left out.
    """
    names: dict[tuple[int, int], str] = {}
    devices: dict[int, int] = {}
    told = database.columns(
        "TARGET_INFO_GPU_METRICS",
        {"type": "typeId", "metric": "metricId"},
        "metricName",
    )
    for row in rows_of(told, database.texts, "metricName"):
        names[row["type"], row["metric"]] = row["metricName"]
        devices.setdefault(
            row["type"], row["type"] & 0xFF
        )  # the lowest byte of a type is the number of the GPU
    moments: dict[tuple[int, int], dict[str, float]] = {}
    keys = ("timestamp", "typeId", "metricId")
    for t, type, metric, value in database.values("GPU_METRICS", keys, "value"):
        if t >= 0 and (type, metric) in names:
            moments.setdefault((t, type), {})[names[type, metric]] = float(value)
    return [
        Sampled(t, values, devices[type])
        for (t, type), values in sorted(moments.items(), key=_moment)
    ]


def _moment(item: tuple[tuple[int, int], dict[str, float]]) -> tuple[int, int]:
    return item[0]


def _pid(id: Any) -> Any:
    return id >> 24 & 0xFFFFFF


def _host(
    clock: Clock, texts: list[str], api: Columns, ranges: Columns, system: Columns
) -> Structured:
    """Calls, ranges of the user, and those calls of the operating system that block; the others are no layer of their own."""
    blocking = matching(_WAITS, texts)[system["name"]]
    spans = np.isin(ranges["type"], _RANGES) | (
        ranges["type"] < 0
    )  # some files do not say
    tables = [
        (Item.API, api),
        (Item.OPERATION, {name: column[spans] for name, column in ranges.items()}),
        (Item.CALL, {name: column[blocking] for name, column in system.items()}),
    ]
    found = []
    for item, table in tables:
        rows = clock.place(table)
        thread = rows["id"] & 0xFFFFFF
        pid = _pid(rows["id"])
        found.append(records(HOST_DTYPE, rows, item=item, thread=thread, pid=pid))
    host = np.concatenate(found)
    host["item"][
        (host["item"] == Item.OPERATION) & matching(STEP, texts)[host["name"]]
    ] = Item.ITERATION
    return host


def _names_by_id(table: Any, texts: Any) -> dict[Any, Any]:
    rows = rows_of(table, texts, "name")
    return {row["id"]: row["name"] for row in rows if "id" in row}
