"""Reads the SQLite files of rocprofv3 (`rocpd`, its default since ROCm 7): kernels, copies, regions and hardware counters.

Every table carries an id of the run in its name (`rocpd_kernel_dispatch_<uuid>`); a file may hold several runs. Times are nanoseconds
of a clock since boot; the file has no epoch.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.imports.columns import (
    MISSING,
    Clock,
    Columns,
    Mapping,
    matching,
    records,
    translate,
)
from cutaway.trace.imports.counters import Counted, Counters
from cutaway.trace.imports.database import Database
from cutaway.trace.imports.recorded import HOST_DTYPE, Item, Recorded
from cutaway.trace.imports.source import Limits, Progress, rows_of
from cutaway.vocabulary import DeviceKind

_DISPATCH = "rocpd_kernel_dispatch"
_API = re.compile(r"\A(hip|hsa_|rccl|nccl)")
_TIMES: Mapping = {"start": "start", "end": "end"}
_WORK: Mapping = {
    **_TIMES,
    "process": "pid",
    "event": "event_id",
    "stream": "stream_id",
}
_KERNELS: Mapping = {
    **_WORK,
    "agent": "agent_id",
    "kernel": "kernel_id",
    "shared_dynamic": "group_segment_size",
    "grid": ("grid_size_x", "grid_size_y", "grid_size_z"),
    "block": ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z"),
}
_COPIES: Mapping = {
    **_WORK,
    "to": "dst_agent_id",
    "source": "src_agent_id",
    "bytes": "size",
    "name": "name_id",
}
_REGIONS: Mapping = {
    **_TIMES,
    "process": "pid",
    "thread": "tid",
    "name": "name_id",
    "event": "event_id",
}


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The processes of one file."""
    with closing(Database(path, limits)) as database:
        recorded: list[Recorded] = []
        for suffix in database.suffixes(_DISPATCH):
            recorded += _Run(database, suffix).processes()
    progress(path.stat().st_size)
    if not recorded:
        raise CutawayError(
            f"{path} contains no records; run rocprofv3 with --kernel-trace, --sys-trace or --pmc."
        )
    return recorded


class _Run:
    """The tables of one run of a file."""

    def __init__(self, database: Database, suffix: str) -> None:
        self._database = database
        self._suffix = suffix
        self._clock = Clock()
        self._strings = self._texts("rocpd_string", "string")
        self._correlations = self._pairs("rocpd_event", "correlation_id")

    def processes(self) -> list[Recorded]:
        """One for each process that did anything."""
        host = self._host()
        kernels = self._clock.place(self._columns(_DISPATCH, _KERNELS))
        copies = self._clock.place(self._columns("rocpd_memory_copy", _COPIES))
        device = np.concatenate([self._kernels(kernels), self._copies(copies)])
        owner = np.concatenate([kernels["process"], copies["process"]])
        counters = self._counters(kernels)
        found = []
        for id in np.unique(np.concatenate([host["pid"], owner])).tolist():
            process = self._process(id, host[host["pid"] == id], device[owner == id])
            process.counters = Counters(
                [counted for of, counted in counters if of == id]
            )
            found.append(process)
        return found

    def _process(self, id: int, host: Structured, device: Structured) -> Recorded:
        pid = self._pairs("rocpd_info_process", "pid").get(id, id)
        process = Recorded(
            pid, f"process {pid}", self._database.texts, host, device, clock=self._clock
        )
        process.devices = self._devices()
        process.counts = {"format": "rocpd-sqlite"}
        return process

    def _columns(self, table: str, mapping: Mapping, text: str = "") -> Columns:
        return self._database.columns(table + self._suffix, mapping, text)

    def _pairs(self, table: str, column: str) -> dict[int, int]:
        """A column by the id of its row."""
        rows = self._columns(table, {"id": "id", "value": column})
        return dict(zip(rows["id"].tolist(), rows["value"].tolist(), strict=True))

    def _texts(self, table: str, column: str) -> dict[int, int]:
        """The number of a text by the id of its row."""
        rows = self._columns(table, {"id": "id"}, column)
        return dict(zip(rows["id"].tolist(), rows[column].tolist(), strict=True))

    def _kernels(self, rows: Columns) -> Structured:
        display = self._texts("rocpd_info_kernel_symbol", "display_name")
        plain = self._texts("rocpd_info_kernel_symbol", "kernel_name")
        names = {id: display.get(id) or name for id, name in plain.items()}
        found = records(
            DEVICE_DTYPE,
            rows,
            name=translate(rows["kernel"], names),
            device=translate(rows["agent"], self._numbers()),
            kind=DeviceKind.KERNEL,
            correlation=translate(rows["event"], self._correlations),
        )
        found["grid"] //= np.maximum(
            found["block"], 1
        )  # ROCm counts threads, not blocks
        return found

    def _copies(self, rows: Columns) -> Structured:
        numbers = self._numbers()
        to_device = np.isin(rows["to"], list(numbers))
        return records(
            DEVICE_DTYPE,
            rows,
            name=translate(rows["name"], self._strings),
            device=translate(np.where(to_device, rows["to"], rows["source"]), numbers),
            kind=DeviceKind.MEMCPY,
            correlation=translate(rows["event"], self._correlations),
        )

    def _host(self) -> Structured:
        """Calls of HIP, HSA and RCCL, and the ranges of the user."""
        rows = self._clock.place(self._columns("rocpd_region", _REGIONS))
        name = translate(rows["name"], self._strings)
        is_call = matching(_API, self._database.texts)[name]
        threads = self._pairs("rocpd_info_thread", "tid")
        return records(
            HOST_DTYPE,
            rows,
            item=np.where(is_call, Item.API, Item.OPERATION),
            name=name,
            pid=rows["process"],
            thread=translate(rows["thread"], threads),
            correlation=translate(rows["event"], self._correlations),
        )

    def _gpus(self) -> list[dict[str, Any]]:
        """The GPUs of the machine: the id of their agent, their number and their name."""
        columns = self._columns(
            "rocpd_info_agent", {"id": "id", "number": "type_index"}, "type"
        )
        columns["name"] = translate(
            columns["id"], self._texts("rocpd_info_agent", "product_name")
        )
        rows = rows_of(columns, self._database.texts, "type", "name")
        gpus = [row for row in rows if row["type"] == "GPU"]
        for index, gpu in enumerate(gpus):
            gpu.setdefault("number", index)
        return gpus

    def _numbers(self) -> dict[int, int]:
        """The number of a GPU by the id of its agent."""
        return {gpu["id"]: gpu["number"] for gpu in self._gpus()}

    def _devices(self) -> list[dict[str, Any]]:
        return [{"id": gpu["number"], "name": gpu["name"]} for gpu in self._gpus()]

    def _counters(self, kernels: Columns) -> list[tuple[int, Counted]]:
        """The counters of each kernel, with the process it belongs to."""
        names = self._texts("rocpd_info_pmc", "symbol")
        rows = self._database.values(
            "rocpd_pmc_event" + self._suffix, ("event_id", "pmc_id"), "value"
        )
        by_event: dict[int, dict[str, float]] = {}
        for event, pmc, value in rows:
            name = self._database.texts[names.get(pmc, 0)]
            values = by_event.setdefault(event, {})
            values[name] = values.get(name, 0.0) + value  # one row for each instance
        made = self._kernels(kernels)
        found = []
        for record, event, process in zip(
            made, kernels["event"].tolist(), kernels["process"].tolist(), strict=True
        ):
            if event != MISSING and event in by_event:
                ns = int(record["end"] - record["start"])
                correlation = int(record["correlation"]) or None
                counted = Counted(
                    int(record["name"]),
                    by_event[event],
                    int(record["device"]),
                    ns,
                    correlation,
                )
                found.append((process, counted))
        return found
