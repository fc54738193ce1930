"""Reads the JSON of rocprofv3 (ROCm's profiler), plain or gzip.

Times are nanoseconds of a clock since boot; the file tells no epoch. Names of API functions are found by
the numbers of their kind and operation, names of kernels by the number of their symbol.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError
from cutaway.trace.imports.recorded import (
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
from cutaway.trace.imports.tables import Columns, Spec, or_zero, read_tables, rows_of
from cutaway.vocabulary import DeviceKind

_TOOL = "rocprofiler-sdk-tool/[]"
_BUFFERS = f"{_TOOL}/buffer_records"
_TIMES = ("start_timestamp", "end_timestamp", "correlation_id/internal", "thread_id")
_XYZ = ("x", "y", "z")

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
DISPATCHES = Spec(
    (f"{_BUFFERS}/kernel_dispatch/[]",),
    int=(
        *_TIMES,
        *("dispatch_info/agent_id/handle", "dispatch_info/queue_id/handle", "dispatch_info/kernel_id"),
        "dispatch_info/group_segment_size",
        *(f"dispatch_info/{what}_size/{axis}" for what in ("grid", "workgroup") for axis in _XYZ),
    ),
)
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
            f"{path} is no complete rocprofv3 file: it does not say which process it describes."
        )
    devices = [row for row in rows_of(agents, texts, AGENTS.text) if row.get("type") == 2]
    numbers = {
        int(d["id/handle"]): int(d.get("gpu_index", i)) for i, d in enumerate(devices) if "id/handle" in d
    }
    losses: dict[str, int] = {}
    kernels = _kernels(dispatches, numbers, _kernel_names(symbols), texts, losses)
    moved = _copies(copies, numbers, texts, losses)
    names = _function_names(functions)
    host = HostEvents.join(
        [
            _host(calls, Item.API, _api_names(calls, names), losses),
            _host(ranges, Item.OPERATION, _range_names(ranges, markers, names), losses),
        ]
    )
    if not len(host.start) + len(kernels) + len(moved):
        raise CutawayError(f"{path} holds no records; run rocprofv3 with --kernel-trace or --sys-trace.")
    process = Recorded(int(about["pid"][0]), path.name, texts, host, np.concatenate([kernels, moved]))
    process.devices = [_described(row, numbers) for row in devices]
    process.losses = losses
    process.counts = {"format": "rocprofv3-json"}
    if len(about["pid"]) > 1:
        process.notes.append("the file holds several processes; all are shown as the first")
    return [process]


def _described(row: dict[str, int | str], numbers: dict[int, int]) -> dict[str, int | str]:
    name = row.get("product_name") or row.get("name", "")
    return {"id": numbers.get(int(row.get("id/handle", -1)), 0), "name": name, "sms": row.get("cu_count", 0)}


def _usable(columns: Columns, losses: dict[str, int]) -> tuple[Ints, Ints, Ints]:
    """Rows with a usable time, with their starts and ends."""
    start, stop = columns["start_timestamp"], columns["end_timestamp"]
    known = (start >= 0) & (stop >= 0)
    fine, end, negative = clip_times(start, np.where(known, stop - np.where(known, start, 0), MISSING))
    for what, n in (("events without a usable time", int((~fine).sum())), ("negative durations", negative)):
        if n:
            losses[what] = losses.get(what, 0) + n
    return np.flatnonzero(fine), start[fine], end[fine]


def _kernel_names(symbols: Columns) -> dict[int, int]:
    best = np.where(
        symbols["formatted_kernel_name"] > 0, symbols["formatted_kernel_name"], symbols["kernel_name"]
    )
    return dict(zip(symbols["kernel_id"].tolist(), best.tolist(), strict=True))


def _translate(column: Ints, table: dict[int, int], default: int = 0) -> Ints:
    distinct, where = np.unique(column, return_inverse=True)
    return np.array([table.get(value, default) for value in distinct.tolist()], np.int64)[where]


def _kernels(
    rows: Columns, numbers: dict[int, int], names: dict[int, int], texts: list[str], losses: dict[str, int]
) -> NDArray[np.void]:
    at, start, end = _usable(rows, losses)
    name = _translate(rows["dispatch_info/kernel_id"][at], names)
    sizes = [
        np.stack([np.maximum(or_zero(rows[f"dispatch_info/{what}_size/{a}"][at]), 0) for a in _XYZ], axis=1)
        for what in ("grid", "workgroup")
    ]
    return device_records(
        len(at),
        start=start,
        end=end,
        correlation=or_zero(rows["correlation_id/internal"][at]),
        name=name,
        device=_translate(rows["dispatch_info/agent_id/handle"][at], numbers),
        stream=or_zero(rows["dispatch_info/queue_id/handle"][at]),
        shared_dynamic=or_zero(rows["dispatch_info/group_segment_size"][at]),
        grid=np.minimum(sizes[0] // np.maximum(sizes[1], 1), 0xFFFFFFFF),  # ROCm counts threads, not blocks
        block=np.minimum(sizes[1], 0xFFFFFFFF),
        kind=np.where(collectives(texts)[name], DeviceKind.COLLECTIVE, DeviceKind.KERNEL),
    )


def _copies(
    rows: Columns, numbers: dict[int, int], texts: list[str], losses: dict[str, int]
) -> NDArray[np.void]:
    at, start, end = _usable(rows, losses)
    to, source = rows["dst_agent_id/handle"][at], rows["src_agent_id/handle"][at]
    device = _translate(np.where(np.isin(to, list(numbers)), to, source), numbers)
    texts.append("memory copy")
    return device_records(
        len(at),
        start=start,
        end=end,
        correlation=or_zero(rows["correlation_id/internal"][at]),
        bytes=or_zero(rows["bytes"][at]),
        name=np.full(len(at), len(texts) - 1),
        device=device,
        kind=np.full(len(at), int(DeviceKind.MEMCPY)),
    )


def _function_names(functions: Columns) -> dict[tuple[int, int], int]:
    """Text of each (kind, operation)."""
    found: dict[tuple[int, int], int] = {}
    seen: dict[int, int] = {}
    for text, kind in zip(functions[""].tolist(), functions["kind"].tolist(), strict=True):
        found[kind, seen.get(kind, 0)] = text
        seen[kind] = seen.get(kind, 0) + 1
    return found


def _api_names(calls: Columns, names: dict[tuple[int, int], int]) -> Ints:
    pairs = zip(calls["kind"].tolist(), calls["operation"].tolist(), strict=True)
    return np.array([names.get(pair, 0) for pair in pairs], np.int64)


def _range_names(ranges: Columns, markers: Columns, names: dict[tuple[int, int], int]) -> Ints:
    """What the user wrote into a range; the function that opened it where that is not known."""
    texts = dict(zip(markers["key"].tolist(), markers["value"].tolist(), strict=True))
    fallback = _api_names(ranges, names).tolist()
    said = [
        texts.get(key, other)
        for key, other in zip(ranges["correlation_id/internal"].tolist(), fallback, strict=True)
    ]
    return np.array(said, np.int64)


def _host(rows: Columns, item: int, name: Ints, losses: dict[str, int]) -> HostEvents:
    at, start, end = _usable(rows, losses)
    thread = or_zero(rows["thread_id"][at]) & 0x7FFFFFFF
    correlation = or_zero(rows["correlation_id/internal"][at])
    return HostEvents(thread, np.full(len(at), item, np.uint8), name[at], start, end, correlation)
