"""Reads the SQLite export of Nsight Systems (`nsys export --type sqlite`), whatever its schema version.

Only real tables are read, only columns that are there, and only values that are integers; views and other
oddities are refused. Times are nanoseconds after the start of the session. Correlation ids repeat between
processes, so everything is kept by process.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError
from cutaway.trace.format import DeviceKind
from cutaway.trace.imports.recorded import (
    LAST_TIME,
    MISSING,
    HostEvents,
    Ints,
    Item,
    Recorded,
    clip_times,
    collectives,
    device_records,
)
from cutaway.trace.imports.source import Limits, Progress
from cutaway.trace.imports.tables import or_zero

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_RANGES = (59, 60, 70, 71)  # push/pop and start/end ranges, and their forms in old exports
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
_VERSION = re.compile(r"_v\d+(_pt[ds]\w)?$")
_SERIAL = re.compile(r"(, (op_id|seq|sizes|input_op_ids) = .*)$", re.DOTALL)
_STEP = re.compile(r"ProfilerStep#\d+")

_DEVICE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_KERNEL = (
    *_DEVICE,
    *("demangledName", "shortName", "graphId", "registersPerThread"),
    *("staticSharedMemory", "dynamicSharedMemory"),
    *(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ"),
)
Columns = dict[str, Ints]


class _Names:
    """The texts of a file, numbered; 0 is the empty text."""

    def __init__(self) -> None:
        self.texts = [""]
        self._numbers = {"": 0}
        self._strings: dict[int, int] = {}

    def add(self, text: str) -> int:
        """The number of a text."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def load(self, database: _Database, columns: list[Ints]) -> None:
        """Loads those texts of StringIds that these columns refer to; the table may hold millions of
        others."""
        wanted = set(np.unique(np.concatenate(columns)).tolist())
        for key, text in database.texts("StringIds", "id", "value"):
            if key in wanted:
                self._strings[key] = self.add(_clean(text))

    def look_up(self, column: Ints) -> Ints:
        """The numbers of texts given as StringIds."""
        return _translate(column, self._strings)


def _clean(text: str) -> str:
    """Without what makes every occurrence different: version suffixes, serial numbers of operators."""
    return _SERIAL.sub("", _VERSION.sub("", text))


def _translate(column: Ints, table: dict[int, int]) -> Ints:
    distinct, where = np.unique(column, return_inverse=True)
    return np.array([table.get(i, 0) for i in distinct.tolist()], np.int64)[where]


class _Database:
    """A database that may be anything: answers are columns of integers, or a CutawayError."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path, self._limits, self._rows = path, limits, 0
        self.skipped = 0
        try:
            uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True)
            self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            self._connection.execute("PRAGMA trusted_schema = OFF")
            query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            self.tables = {str(name) for (name,) in self._connection.execute(query)}
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()

    def columns(self, table: str, names: tuple[str, ...], text: str = "", intern: Any = None) -> Columns:
        """These columns of a table, MISSING where the schema or the row has none; empty without the table.
        Rows whose `start` or `end` is no integer are counted and left out. The column `text` is put through
        `intern`, which gives a number."""
        rows = list(self._select(table, names, text, intern))
        wanted = (*names, text) if text else names
        array = np.array(rows, np.int64).reshape(len(rows), len(wanted))
        return {name: array[:, i].copy() for i, name in enumerate(wanted)}

    def texts(self, table: str, key: str, value: str) -> Iterator[tuple[int, str]]:
        """Pairs of an integer and a text; texts are cut at 4096 characters."""
        if {key, value} <= self._known(table):
            only = f"typeof(\"{key}\") = 'integer'"
            query = f'SELECT "{key}", substr("{value}", 1, 4096) FROM "{table}" WHERE {only}'
            for number, text in self._run(query):
                if isinstance(text, str):
                    yield number, text

    def _known(self, table: str) -> set[str]:
        if table not in self.tables:
            return set()
        return {str(row[1]) for row in self._run(f'PRAGMA table_info("{table}")')}

    def _select(
        self, table: str, names: tuple[str, ...], text: str, intern: Any
    ) -> Iterator[tuple[int, ...]]:
        known = self._known(table)
        if not known:
            return
        if not {"start", "end"} & set(names) <= known:
            raise CutawayError(f"{self._path}: table {table} lacks start or end; export it again with nsys.")
        parts = [
            f'CASE typeof("{n}") WHEN \'integer\' THEN "{n}" ELSE :missing END' if n in known else ":missing"
            for n in names
        ]
        if text:
            parts.append(f'substr("{text}", 1, 4096)' if text in known else "NULL")
        for row in self._run(f'SELECT {", ".join(parts)} FROM "{table}"', {"missing": MISSING}):
            if "start" in names and MISSING in row[:2]:
                self.skipped += 1
            elif text:
                yield (*row[:-1], intern(row[-1]) if isinstance(row[-1], str) else 0)
            else:
                yield row

    def _run(self, query: str, values: dict[str, int] | None = None) -> Iterator[tuple[Any, ...]]:
        try:
            for row in self._connection.execute(query, values or {}):
                self._rows += 1
                if self._rows > self._limits.events:
                    raise CutawayError(
                        f"{self._path} holds more than {self._limits.events} rows; "
                        "if you trust it, raise --max-events."
                    )
                yield row
        except (sqlite3.Error, OverflowError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> CutawayError:
        return CutawayError(
            f"{self._path} cannot be read as a database ({error}); export it again with nsys."
        )


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The processes of one file."""
    database = _Database(path, limits)
    try:
        return _read(path, database, progress)
    finally:
        database.close()


def _read(path: Path, database: _Database, progress: Progress) -> list[Recorded]:
    names = _Names()
    api = database.columns(_CUPTI + "RUNTIME", ("start", "end", "globalTid", "correlationId", "nameId"))
    work = {
        DeviceKind.KERNEL: database.columns(_CUPTI + "KERNEL", _KERNEL),
        DeviceKind.MEMCPY: database.columns(_CUPTI + "MEMCPY", (*_DEVICE, "bytes", "copyKind")),
        DeviceKind.MEMSET: database.columns(_CUPTI + "MEMSET", (*_DEVICE, "bytes")),
    }
    progress(path.stat().st_size // 2)
    ranges = database.columns(
        "NVTX_EVENTS",
        ("start", "end", "globalTid", "eventType", "textId"),
        "text",
        lambda t: names.add(_clean(t)),
    )
    if not sum(len(table["start"]) for table in (api, ranges, *work.values())):
        raise CutawayError(
            f"{path} holds no CUDA or NVTX records; record with nsys profile -t cuda,nvtx and export it."
        )
    threads = database.columns("ThreadNames", ("globalTid", "nameId"))
    kernels = work[DeviceKind.KERNEL]
    string_columns = [api["nameId"], kernels["demangledName"], kernels["shortName"], ranges["textId"]]
    names.load(database, [*string_columns, threads["nameId"]])
    clock = _Clock(_epoch(database, path))
    hosts = [_api(api, names, clock), _ranges(ranges, names, clock)]
    device = [_device(kind, table, names, clock) for kind, table in work.items()]
    recorded = _split(database, names, hosts, device)
    for process in recorded:
        mine = _pid(threads["globalTid"]) == process.pid
        labels = names.look_up(threads["nameId"][mine]).tolist()
        tids = (threads["globalTid"][mine] & 0xFFFFFF).tolist()
        process.threads = {t: names.texts[n] for t, n in zip(tids, labels, strict=True)}
    first = recorded[0]
    first.devices = _devices(database)
    first.counts = {"format": "nsys-sqlite", "n_nvtx": len(ranges["start"])}
    if database.skipped:
        first.losses["rows without start or end"] = database.skipped
    if clock.unusable:
        first.losses["events without a usable time"] = clock.unusable
    if clock.negative:
        first.notes.append(f"{clock.negative} records of negative duration were given length 0")
    return recorded


class _Clock:
    """Places rows in time and counts those that cannot be placed."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.negative, self.unusable = epoch, 0, 0

    def place(self, table: Columns) -> tuple[Columns, Ints, Ints]:
        """The rows with a usable time, their starts and ends."""
        start, stop = table["start"], table["end"]
        known = (start >= 0) & (stop >= 0) & (start < LAST_TIME - self.epoch)
        duration = np.where(known, stop - np.where(known, start, 0), MISSING)
        fine, end, negative = clip_times(np.where(known, start + self.epoch, MISSING), duration)
        self.negative += negative
        self.unusable += int((~fine).sum())
        return {name: column[fine] for name, column in table.items()}, start[fine] + self.epoch, end[fine]


def _epoch(database: _Database, path: Path) -> int:
    told = database.columns("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))["utcEpochNs"]
    return int(told[0]) if len(told) and 0 <= told[0] < LAST_TIME // 2 else 0


def _pid(global_id: Ints) -> Ints:
    return global_id >> 24 & 0xFFFFFF


def _api(table: Columns, names: _Names, clock: _Clock) -> tuple[Ints, HostEvents]:
    rows, start, end = clock.place(table)
    item = np.full(len(start), Item.API, np.uint8)
    columns = (rows["globalTid"] & 0xFFFFFF, item, names.look_up(rows["nameId"]), start, end)
    return _pid(rows["globalTid"]), HostEvents(*columns, or_zero(rows["correlationId"]))


def _ranges(table: Columns, names: _Names, clock: _Clock) -> tuple[Ints, HostEvents]:
    wanted = np.isin(table["eventType"], (*_RANGES, MISSING))
    rows, start, end = clock.place({name: column[wanted] for name, column in table.items()})
    name = np.where(rows["text"] > 0, rows["text"], names.look_up(rows["textId"]))
    steps = np.array([bool(_STEP.match(text)) for text in names.texts])
    item = np.where(steps[name], Item.ITERATION, Item.OPERATION).astype(np.uint8)
    columns = (rows["globalTid"] & 0xFFFFFF, item, name, start, end, np.zeros(len(start), np.int64))
    return _pid(rows["globalTid"]), HostEvents(*columns)


def _device(kind: DeviceKind, table: Columns, names: _Names, clock: _Clock) -> tuple[Ints, NDArray[np.void]]:
    rows, start, end = clock.place(table)
    columns: dict[str, Any] = {"kind": np.full(len(start), int(kind))}
    if kind == DeviceKind.KERNEL:
        name = names.look_up(
            np.where(rows["demangledName"] == MISSING, rows["shortName"], rows["demangledName"])
        )
        columns["kind"][collectives(names.texts)[name]] = DeviceKind.COLLECTIVE
        columns.update(_launch(rows))
    elif kind == DeviceKind.MEMCPY:
        kinds = {k: names.add(f"Memcpy {label}") for k, label in _COPY_KINDS.items()}
        name = _translate(rows["copyKind"], {k: kinds.get(k, names.add("Memcpy")) for k in range(32)})
        columns["detail"], columns["bytes"] = rows["copyKind"], rows["bytes"]
    else:
        name, columns["bytes"] = np.full(len(start), names.add("Memset")), rows["bytes"]
    return _pid(rows["globalPid"]), device_records(
        len(start),
        start=start,
        end=end,
        name=name,
        correlation=or_zero(rows["correlationId"]),
        device=rows["deviceId"],
        stream=rows["streamId"],
        **columns,
    )


def _launch(rows: Columns) -> dict[str, Any]:
    def shape(what: str) -> Ints:
        sizes = np.stack([or_zero(rows[f"{what}{axis}"]) for axis in "XYZ"], axis=1)
        return np.clip(sizes, 0, 0xFFFFFFFF)

    return {
        "grid": shape("grid"),
        "block": shape("block"),
        "graph": rows["graphId"],
        "registers": rows["registersPerThread"],
        "shared_static": rows["staticSharedMemory"],
        "shared_dynamic": rows["dynamicSharedMemory"],
    }


def _split(
    database: _Database,
    names: _Names,
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
        found.append(Recorded(pid, label, names.texts, mine, work[device_pids == pid]))
    return found


def _devices(database: _Database) -> list[dict[str, Any]]:
    known = _Names()
    rows = database.columns("TARGET_INFO_GPU", ("id", "smCount", "totalMemory"), "name", known.add)
    names = ("id", "sms", "memory")
    found = []
    for *numbers, name in zip(*(column.tolist() for column in rows.values()), strict=True):
        told = {k: v for k, v in zip(names, numbers, strict=True) if v != MISSING}
        found.append({**told, "name": known.texts[name]})
    return found
