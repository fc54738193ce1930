"""Reads the JSON of rocprofv3 (ROCm's profiler), plain or gzip.

Times are nanoseconds of a clock since boot; the file tells no epoch. Names of API functions are found by
the numbers of their kind and operation, names of kernels by the number of their symbol.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError
from cutaway.trace.imports.recorded import (
    Clock,
    Columns,
    HostEvents,
    Item,
    Mapping,
    Recorded,
    device_records,
    mapped_columns,
    or_zero,
    translate,
)
from cutaway.trace.imports.source import Limits, Progress
from cutaway.trace.imports.tables import Spec, read_tables, rows_of
from cutaway.vocabulary import DeviceKind

_TOOL = "rocprofiler-sdk-tool/[]"
_BUFFERS = f"{_TOOL}/buffer_records"
_TIMES = ("start_timestamp", "end_timestamp", "correlation_id/internal", "thread_id")

ABOUT = Spec((f"{_TOOL}/metadata",), int=("pid", "init_time", "fini_time"))
AGENTS = Spec(
    (f"{_TOOL}/agents/[]",),
    text=("name", "product_name"),
    int=("id/handle", "type", "gpu_index", "node_id", "cu_count"),
)
SYMBOLS = Spec(
    (f"{_TOOL}/kernel_symbols/[]",), text=("formatted_kernel_name", "kernel_name"), int=("kernel_id",)
)
FUNCTIONS = Spec((f"{_TOOL}/strings/buffer_records/[]/operations/[]",), text=("",), outer=("kind",))
MARKERS = Spec((f"{_TOOL}/strings/marker_api/[]",), text=("value",), int=("key",))
DISPATCH: Mapping = {
    "correlation": "correlation_id/internal",
    "stream": "dispatch_info/queue_id/handle",
    "shared_dynamic": "dispatch_info/group_segment_size",
    "grid": tuple(f"dispatch_info/grid_size/{axis}" for axis in "xyz"),
    "block": tuple(f"dispatch_info/workgroup_size/{axis}" for axis in "xyz"),
}
DISPATCHES = Spec(
    (f"{_BUFFERS}/kernel_dispatch/[]",),
    int=(
        *("start_timestamp", "end_timestamp", "dispatch_info/agent_id/handle", "dispatch_info/kernel_id"),
        *mapped_columns(DISPATCH),
    ),
)
COPY: Mapping = {"correlation": "correlation_id/internal", "bytes": "bytes"}
COPIES = Spec(
    (f"{_BUFFERS}/memory_copy/[]",), int=(*_TIMES, "dst_agent_id/handle", "src_agent_id/handle", "bytes")
)
CALLS = Spec(
    tuple(f"{_BUFFERS}/{api}/[]" for api in ("hip_api", "hsa_api", "rccl_api")),
    int=(*_TIMES, "kind", "operation"),
)
RANGES = Spec((f"{_BUFFERS}/marker_api/[]",), int=(*_TIMES, "kind", "operation"))


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a file."""
    specs = [ABOUT, AGENTS, SYMBOLS, FUNCTIONS, MARKERS, DISPATCHES, COPIES, CALLS, RANGES]
    tables, texts = read_tables(path, specs, limits, progress)
    about, agents, symbols, functions, markers, dispatches, copies, calls, ranges = tables
    if not len(about["pid"]):
        raise CutawayError(
            f"{path} is not a complete rocprofv3 file: it does not name its process; record it again."
        )
    devices = [row for row in rows_of(agents, texts, AGENTS.text) if row.get("type") == 2]
    numbers = {
        int(d["id/handle"]): int(d.get("gpu_index", i)) for i, d in enumerate(devices) if "id/handle" in d
    }
    clock = Clock(0, "start_timestamp", "end_timestamp")
    best, other = symbols["formatted_kernel_name"], symbols["kernel_name"]
    symbol = zip(symbols["kernel_id"].tolist(), np.where(best > 0, best, other).tolist(), strict=True)
    kernels = _kernels(dispatches, numbers, dict(symbol), texts, clock)
    moved = _copies(copies, numbers, texts, clock)
    names = _function_names(functions)
    said = dict(zip(markers["key"].tolist(), markers["value"].tolist(), strict=True))
    host = HostEvents.join(
        [_host(calls, Item.API, names, {}, clock), _host(ranges, Item.OPERATION, names, said, clock)]
    )
    if not len(host.start) + len(kernels) + len(moved):
        raise CutawayError(f"{path} contains no records; run rocprofv3 with --kernel-trace or --sys-trace.")
    process = Recorded(int(about["pid"][0]), path.name, texts, host, np.concatenate([kernels, moved]))
    process.devices = [_described(row, numbers) for row in devices]
    clock.tell(process)
    process.counts = {"format": "rocprofv3-json"}
    if len(about["pid"]) > 1:
        process.notes.append("the file contains several processes; they are shown as one")
    return [process]


def _described(row: dict[str, int | str], numbers: dict[int, int]) -> dict[str, int | str]:
    name = row.get("product_name") or row.get("name", "")
    return {"id": numbers.get(int(row.get("id/handle", -1)), 0), "name": name, "sms": row.get("cu_count", 0)}


def _kernels(
    table: Columns, numbers: dict[int, int], names: dict[int, int], texts: list[str], clock: Clock
) -> NDArray[np.void]:
    rows, start, end = clock.place(table)
    name = translate(rows["dispatch_info/kernel_id"], names)
    device = translate(rows["dispatch_info/agent_id/handle"], numbers)
    known = {"name": name, "device": device, "kind": DeviceKind.KERNEL}
    found = device_records(texts, start, end, rows, DISPATCH, **known)
    found["grid"] //= np.maximum(found["block"], 1)  # ROCm counts threads, not blocks
    return found


def _copies(table: Columns, numbers: dict[int, int], texts: list[str], clock: Clock) -> NDArray[np.void]:
    rows, start, end = clock.place(table)
    to, source = rows["dst_agent_id/handle"], rows["src_agent_id/handle"]
    device = translate(np.where(np.isin(to, list(numbers)), to, source), numbers)
    texts.append("memory copy")
    known = {"name": len(texts) - 1, "device": device, "kind": DeviceKind.MEMCPY}
    return device_records(texts, start, end, rows, COPY, **known)


def _function_names(functions: Columns) -> dict[tuple[int, int], int]:
    """Text of each (kind, operation)."""
    seen: dict[int, Iterator[int]] = defaultdict(count)
    texts = zip(functions[""].tolist(), functions["kind"].tolist(), strict=True)
    return {(kind, next(seen[kind])): text for text, kind in texts}


def _host(
    table: Columns, item: int, names: dict[tuple[int, int], int], said: dict[int, int], clock: Clock
) -> HostEvents:
    """Calls by the names of their functions; a range by what the user wrote into it, if that is known."""
    rows, start, end = clock.place(table)
    columns = (rows[key].tolist() for key in ("kind", "operation", "correlation_id/internal"))
    name = [said.get(id, names.get((kind, call), 0)) for kind, call, id in zip(*columns, strict=True)]
    thread = or_zero(rows["thread_id"]) & 0x7FFFFFFF
    return HostEvents.of(thread, item, np.array(name, np.int64), start, end, rows["correlation_id/internal"])
