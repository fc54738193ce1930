"""Reads the SQLite export of Nsight Systems (`nsys export --type sqlite`), whatever its schema version.

Only real tables are read, only columns that are there, and only values that are integers; views and other
oddities are refused. Times are nanoseconds after the start of the session. Correlation ids repeat between
processes, so everything is kept by process.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError
from cutaway.trace.imports.database import Database, Names, clean
from cutaway.trace.imports.recorded import (
    LAST_TIME,
    MISSING,
    Clock,
    Columns,
    HostEvents,
    Ints,
    Item,
    Mapping,
    Recorded,
    device_records,
    mapped_columns,
    translate,
    union_ns,
)
from cutaway.trace.imports.source import Limits, Progress
from cutaway.trace.imports.tables import rows_of
from cutaway.vocabulary import DeviceKind

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_RANGES = (59, 60, 70, 71)  # push/pop and start/end ranges, and their forms in old exports
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
_WAITS = re.compile(
    r"p?poll|p?select|epoll_\w*wait\w*|sem_\w*wait|sigwait\w*|futex|\w*sleep|wait(pid|id|3|4)?|recv\w*|accept4?"
    r"|pthread_(cond_\w*wait|join|barrier_wait|mutex_\w*lock|rwlock_\w*lock)"
)
_STEP = re.compile(r"ProfilerStep#\d+")

_PLACE: Mapping = {"correlation": "correlationId", "device": "deviceId", "stream": "streamId"}
_SHAPE: Mapping = {
    "grid": ("gridX", "gridY", "gridZ"),
    "block": ("blockX", "blockY", "blockZ"),
    "graph": "graphId",
    "registers": "registersPerThread",
    "shared_static": "staticSharedMemory",
    "shared_dynamic": "dynamicSharedMemory",
}
# For each kind of work: the end of its table's name, what becomes fields of a device record, and what its name is made of.
_WORK: dict[int, tuple[str, Mapping, tuple[str, ...]]] = {
    DeviceKind.KERNEL: ("KERNEL", _PLACE | _SHAPE, ("demangledName", "shortName")),
    DeviceKind.MEMCPY: ("MEMCPY", _PLACE | {"bytes": "bytes", "detail": "copyKind"}, ()),
    DeviceKind.MEMSET: ("MEMSET", _PLACE | {"bytes": "bytes"}, ()),
}


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The processes of one file."""
    database = Database(path, limits)
    try:
        return _read(path, database, progress)
    finally:
        database.close()


def _read(path: Path, database: Database, progress: Progress) -> list[Recorded]:
    names = Names()
    api = database.columns(_CUPTI + "RUNTIME", ("start", "end", "globalTid", "correlationId", "nameId"))
    work = {
        kind: database.columns(
            _CUPTI + table, ("start", "end", "globalPid", *mapped_columns(mapping), *named)
        )
        for kind, (table, mapping, named) in _WORK.items()
    }
    progress(path.stat().st_size // 2)
    said = ("start", "end", "globalTid", "eventType", "textId")
    ranges = database.columns("NVTX_EVENTS", said, "text", lambda t: names.add(clean(t)))
    if not sum(len(table["start"]) for table in (api, ranges, *work.values())):
        raise CutawayError(
            f"{path} contains no CUDA or NVTX records; record with nsys profile -t cuda,nvtx and export it."
        )
    threads = database.columns("ThreadNames", ("globalTid", "nameId"))
    kernels = work[DeviceKind.KERNEL]
    system = database.columns("OSRT_API", ("start", "end", "globalTid", "nameId"))
    named = [*(table["nameId"] for table in (api, system, threads)), ranges["textId"]]
    names.load(database, [*named, kernels["demangledName"], kernels["shortName"]])
    clock = Clock(_epoch(database))
    hosts = [_api(api, names, clock), _ranges(ranges, names, clock), _waits(system, names, clock)]
    device = [_device(kind, table, names, clock) for kind, table in work.items()]
    recorded = _split(database, names, hosts, device)
    for process in recorded:
        mine = _pid(threads["globalTid"]) == process.pid
        labels = names.look_up(threads["nameId"][mine]).tolist()
        tids = (threads["globalTid"][mine] & 0xFFFFFF).tolist()
        process.threads = {t: names.texts[n] for t, n in zip(tids, labels, strict=True)}
    first = recorded[0]
    first.devices = _devices(database)
    spans = ranges["end"] >= ranges["start"]
    first.counts = {
        "format": "nsys-sqlite",
        "processes": len(recorded),
        "n_nvtx": len(ranges["start"]),
        "nvtx_union_ns": union_ns(ranges["start"][spans], ranges["end"][spans]),
    }
    if database.skipped:
        first.losses["rows without start or end"] = database.skipped
    clock.tell(first)
    return recorded


def _epoch(database: Database) -> int:
    told = database.columns("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))["utcEpochNs"]
    return int(told[0]) if len(told) and 0 <= told[0] < LAST_TIME // 2 else 0


def _pid(global_id: Ints) -> Ints:
    return global_id >> 24 & 0xFFFFFF


def _tid(rows: Columns) -> Ints:
    return rows["globalTid"] & 0xFFFFFF


def _api(table: Columns, names: Names, clock: Clock) -> tuple[Ints, HostEvents]:
    rows, start, end = clock.place(table)
    columns = (names.look_up(rows["nameId"]), start, end, rows["correlationId"])
    return _pid(rows["globalTid"]), HostEvents.of(_tid(rows), Item.API, *columns)


def _ranges(table: Columns, names: Names, clock: Clock) -> tuple[Ints, HostEvents]:
    wanted = np.isin(table["eventType"], (*_RANGES, MISSING))
    rows, start, end = clock.place({name: column[wanted] for name, column in table.items()})
    name = np.where(rows["text"] > 0, rows["text"], names.look_up(rows["textId"]))
    steps = np.array([bool(_STEP.match(text)) for text in names.texts])
    found = HostEvents.of(_tid(rows), Item.OPERATION, name, start, end)
    found.item[steps[name]] = Item.ITERATION
    return _pid(rows["globalTid"]), found


def _waits(table: Columns, names: Names, clock: Clock) -> tuple[Ints, HostEvents]:
    """Calls of the operating system that block; the other ones are no layer of their own."""
    blocking = np.array([bool(_WAITS.fullmatch(text)) for text in names.texts])
    wanted = blocking[names.look_up(table["nameId"])]
    rows, start, end = clock.place({name: column[wanted] for name, column in table.items()})
    found = HostEvents.of(_tid(rows), Item.CALL, names.look_up(rows["nameId"]), start, end)
    return _pid(rows["globalTid"]), found


def _device(kind: int, table: Columns, names: Names, clock: Clock) -> tuple[Ints, NDArray[np.void]]:
    rows, start, end = clock.place(table)
    if kind == DeviceKind.KERNEL:
        known = np.where(rows["demangledName"] == MISSING, rows["shortName"], rows["demangledName"])
        name = names.look_up(known)
    elif kind == DeviceKind.MEMCPY:
        kinds = {k: names.add(f"Memcpy {label}") for k, label in _COPY_KINDS.items()}
        name = translate(rows["copyKind"], {k: kinds.get(k, names.add("Memcpy")) for k in range(32)})
    else:
        name = np.full(len(start), names.add("Memset"))
    found = device_records(names.texts, start, end, rows, _WORK[kind][1], name=name, kind=kind)
    return _pid(rows["globalPid"]), found


def _split(
    database: Database,
    names: Names,
    hosts: list[tuple[Ints, HostEvents]],
    device: list[tuple[Ints, NDArray[np.void]]],
) -> list[Recorded]:
    """One Recorded for each process with records."""
    host_pids, device_pids = (np.concatenate([pids for pids, _ in part]) for part in (hosts, device))
    host, work = HostEvents.join([h for _, h in hosts]), np.concatenate([d for _, d in device])
    told = database.columns("PROCESSES", ("pid",), "name", names.add)
    labels = dict(zip(told["pid"].tolist(), told["name"].tolist(), strict=True))
    found = []
    for pid in np.unique(np.concatenate([host_pids, device_pids])).tolist():
        label = names.texts[labels.get(pid, 0)] or f"process {pid}"
        mine = host.where(host_pids == pid)
        found.append(Recorded(pid, label, names.texts, mine, work[device_pids == pid], call_layer="wait"))
    return found


def _devices(database: Database) -> list[dict[str, Any]]:
    known = Names()
    rows = database.columns("TARGET_INFO_GPU", ("id", "smCount", "totalMemory"), "name", known.add)
    names = {"smCount": "sms", "totalMemory": "memory"}
    return [{names.get(k, k): v for k, v in row.items()} for row in rows_of(rows, known.texts, ("name",))]
