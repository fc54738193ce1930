"""Reads the JSON of rocprofv3 (ROCm's profiler), plain or gzip.

Times are nanoseconds of a clock since boot; the file has no epoch. Names of API functions are found by
the numbers of their kind and operation, names of kernels by the number of their symbol.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.imports.columns import (
    MISSING,
    Clock,
    Columns,
    Ints,
    Mapping,
    records,
    translate,
)
from cutaway.trace.imports.recorded import HOST_DTYPE, Item, Recorded
from cutaway.trace.imports.source import Limits, Progress, Spec, read_tables, rows_of
from cutaway.vocabulary import DeviceKind

_TOOL = "rocprofiler-sdk-tool/[]"
_BUFFERS = f"{_TOOL}/buffer_records"
_EVENT: Mapping = {
    "start": "start_timestamp",
    "end": "end_timestamp",
    "correlation": "correlation_id/internal",
    "thread": "thread_id",
}
_CALL: Mapping = {**_EVENT, "kind": "kind", "function": "operation"}

ABOUT = Spec((f"{_TOOL}/metadata",), int={"pid": "pid"})
AGENTS = Spec(
    (f"{_TOOL}/agents/[]",),
    text={"name": "name", "product": "product_name"},
    int={"handle": "id/handle", "type": "type", "gpu": "gpu_index", "sms": "cu_count"},
)
SYMBOLS = Spec(
    (f"{_TOOL}/kernel_symbols/[]",),
    text={"best": "formatted_kernel_name", "other": "kernel_name"},
    int={"kernel": "kernel_id"},
)
FUNCTIONS = Spec(
    (f"{_TOOL}/strings/buffer_records/[]/operations/[]",),
    text={"name": ""},
    outer={"kind": "kind"},
)
MARKERS = Spec(
    (f"{_TOOL}/strings/marker_api/[]",), text={"said": "value"}, int={"key": "key"}
)
DISPATCHES = Spec(
    (f"{_BUFFERS}/kernel_dispatch/[]",),
    int={
        **_EVENT,
        "agent": "dispatch_info/agent_id/handle",
        "kernel": "dispatch_info/kernel_id",
        "stream": "dispatch_info/queue_id/handle",
        "shared_dynamic": "dispatch_info/group_segment_size",
        "grid": tuple(f"dispatch_info/grid_size/{axis}" for axis in "xyz"),
        "block": tuple(f"dispatch_info/workgroup_size/{axis}" for axis in "xyz"),
    },
)
COPIES = Spec(
    (f"{_BUFFERS}/memory_copy/[]",),
    int={
        **_EVENT,
        "to": "dst_agent_id/handle",
        "source": "src_agent_id/handle",
        "bytes": "bytes",
    },
)
CALLS = Spec(
    tuple(f"{_BUFFERS}/{api}/[]" for api in ("hip_api", "hsa_api", "rccl_api")),
    int=_CALL,
)
RANGES = Spec((f"{_BUFFERS}/marker_api/[]",), int=_CALL)


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a file."""
    specs = [
        ABOUT,
        AGENTS,
        SYMBOLS,
        FUNCTIONS,
        MARKERS,
        DISPATCHES,
        COPIES,
        CALLS,
        RANGES,
    ]
    tables, texts = read_tables(path, specs, limits, progress)
    about, agents, symbols, functions, markers, dispatches, copies, calls, ranges = (
        tables
    )
    if not len(about["pid"]):
        raise CutawayError(
            f"{path} is not a complete rocprofv3 file: it does not name its process; record it again."
        )
    devices = [
        row for row in rows_of(agents, texts, "name", "product") if row.get("type") == 2
    ]
    numbers = {
        d["handle"]: d.get("gpu", i) for i, d in enumerate(devices) if "handle" in d
    }
    clock = Clock()
    kernels = _kernels(clock.place(dispatches), numbers, symbols)
    work = np.concatenate([kernels, _copies(clock.place(copies), numbers, texts)])
    seen: dict[int, Iterator[int]] = defaultdict(count)
    functions_of = zip(
        functions["name"].tolist(), functions["kind"].tolist(), strict=True
    )
    names = {
        (kind, next(seen[kind])): text for text, kind in functions_of
    }  # by kind and operation
    said = _pairs(markers["key"], markers["said"])
    marked = _host(clock.place(ranges), Item.OPERATION, names, said)
    host = np.concatenate([_host(clock.place(calls), Item.API, names, {}), marked])
    if not len(host) + len(work):
        raise CutawayError(
            f"{path} contains no records; run rocprofv3 with --kernel-trace or --sys-trace."
        )
    process = Recorded(int(about["pid"][0]), path.name, texts, host, work, clock=clock)
    for row in devices:
        number = numbers.get(row.get("handle", -1), 0)
        name = row["product"] or row["name"]
        process.devices.append({"id": number, "name": name, "sms": row.get("sms", 0)})
    process.counts = {"format": "rocprofv3-json"}
    if len(about["pid"]) > 1:
        process.notes.append(
            "the file contains several processes; they are shown as one"
        )
    return [process]


def _pairs(keys: Ints, values: Ints) -> dict[int, int]:
    return dict(zip(keys.tolist(), values.tolist(), strict=True))


def _kernels(rows: Columns, numbers: dict[int, int], symbols: Columns) -> Structured:
    names = _pairs(
        symbols["kernel"],
        np.where(symbols["best"] > 0, symbols["best"], symbols["other"]),
    )
    name = translate(rows["kernel"], names)
    device = translate(rows["agent"], numbers)
    found = records(
        DEVICE_DTYPE, rows, name=name, device=device, kind=DeviceKind.KERNEL
    )
    found["grid"] //= np.maximum(found["block"], 1)  # ROCm counts threads, not blocks
    return found


def _copies(rows: Columns, numbers: dict[int, int], texts: list[str]) -> Structured:
    device = translate(
        np.where(np.isin(rows["to"], list(numbers)), rows["to"], rows["source"]),
        numbers,
    )
    texts.append("memory copy")
    return records(
        DEVICE_DTYPE, rows, name=len(texts) - 1, device=device, kind=DeviceKind.MEMCPY
    )


def _host(
    rows: Columns, item: int, names: dict[tuple[int, int], int], said: dict[int, int]
) -> Structured:
    """Calls by the names of their functions; a range by what the user wrote into it, if that is known."""
    columns = (rows[key].tolist() for key in ("kind", "function", "correlation"))
    name = [
        said.get(id, names.get((kind, call), 0))
        for kind, call, id in zip(*columns, strict=True)
    ]
    thread = np.where(rows["thread"] == MISSING, 0, rows["thread"]) & 0x7FFFFFFF
    return records(
        HOST_DTYPE, rows, item=item, name=np.array(name, np.int64), thread=thread
    )
