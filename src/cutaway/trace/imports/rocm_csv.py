"""Reads the CSV files of AMD's tools that hold hardware counters.

rocprofv3 `--pmc` writes a row for each kernel and counter (`counter_collection.csv`). rocprof-compute writes a row for each kernel
and a column for each counter (`pmc_perf.csv`); counters of several instances (`TCC_HIT[0]`, `TCC_HIT[1]`, …) are added up under
their common name. Both tools run a kernel several times, alone, so these files say nothing about the time between kernels.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.imports.columns import Clock, records
from cutaway.trace.imports.counters import Counted, Counters, number
from cutaway.trace.imports.recorded import HOST_DTYPE, Recorded
from cutaway.trace.imports.source import Limits, Progress, read_chunks
from cutaway.vocabulary import DeviceKind

_INSTANCE = re.compile(r"\[\d+\]\Z")
_ABOUT = {
    "Dispatch_ID",
    "Kernel_Name",
    "GPU_ID",
    "Queue_ID",
    "Grid_Size",
    "Workgroup_Size",
    "LDS_Per_Workgroup",
    "Scratch_Per_Workitem",
    "Arch_VGPR",
    "Accum_VGPR",
    "SGPR",
    "wave_size",
    "obj",
    "Start_Timestamp",
    "End_Timestamp",
    "PID",
    "Kernel_ID",
    "Correlation_ID",
    "Node_ID",
    "Agent_ID",
}
_LARGEST_FIELD = 1 << 20
_NOTE = "times are those of kernels run alone, several times each, to read their counters; see docs/counters.md"


@dataclass
class _Dispatch:
    """One kernel, as its rows describe it."""

    name: str
    device: int
    start: int
    end: int
    threads: int
    block: int
    correlation: int | None
    values: dict[str, float] = field(default_factory=dict)

    @property
    def ns(self) -> int:
        return max(self.end - self.start, 0)


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a file."""
    rows = _rows(path, limits, progress)
    try:
        dispatches = list(_dispatches(rows, path, limits))
    except csv.Error as error:
        raise CutawayError(
            f"{path} is not a usable CSV file ({error}); write or copy it again."
        ) from None
    if not dispatches:
        raise CutawayError(
            f"{path} contains no kernels; record counters with rocprofv3 --pmc."
        )
    texts = [""]
    numbers: dict[str, int] = {}
    for dispatch in dispatches:
        if dispatch.name not in numbers:
            numbers[dispatch.name] = len(texts)
            texts.append(dispatch.name)
    process = Recorded(
        1, path.name, texts, np.zeros(0, HOST_DTYPE), np.zeros(0, DEVICE_DTYPE)
    )
    process.device = _kernels(process.clock, dispatches, numbers)
    process.counters = Counters(
        [_counted(dispatch, numbers) for dispatch in dispatches]
    )
    process.counts = {"format": "rocm-counters-csv", "counters": len(dispatches)}
    process.notes.append(_NOTE)
    return [process]


def _rows(path: Path, limits: Limits, progress: Progress) -> Iterator[dict[str, str]]:
    csv.field_size_limit(_LARGEST_FIELD)
    text = b"".join(read_chunks(path, limits, progress)).decode("utf-8", "replace")
    for row in csv.DictReader(io.StringIO(text)):
        yield {
            key: value or ""
            for key, value in row.items()
            if isinstance(key, str) and not isinstance(value, list)
        }


def _dispatches(
    rows: Iterator[dict[str, str]], path: Path, limits: Limits
) -> Iterator[_Dispatch]:
    """The kernels, in the order of the file. Rows of rocprofv3 that describe the same kernel are joined."""
    known: dict[tuple[str, str, str], _Dispatch] = {}
    for count, row in enumerate(rows):
        if count >= limits.events:
            raise CutawayError(
                f"{path} has more than {limits.events} rows; if you trust it, raise --max-events."
            )
        if "Counter_Name" not in row:
            dispatch = _dispatch(row)
            dispatch.values.update(_wide_counters(row))
            yield dispatch
            continue
        key = (
            row.get("Process_Id", ""),
            row.get("Dispatch_Id", ""),
            row["Kernel_Name"],
        )
        if key not in known:
            known[key] = _dispatch(row)
        values = known[key].values
        name = row["Counter_Name"]
        values[name] = values.get(name, 0.0) + number(row.get("Counter_Value"))
    yield from known.values()


def _dispatch(row: dict[str, str]) -> _Dispatch:
    correlation = _whole(row.get("Correlation_Id") or row.get("Correlation_ID") or "")
    return _Dispatch(
        name=row["Kernel_Name"],
        device=_whole(re.sub(r"\D", "", row.get("Agent_Id") or row.get("GPU_ID") or ""))
        or 0,
        start=_whole(row.get("Start_Timestamp", "")) or 0,
        end=_whole(row.get("End_Timestamp", "")) or 0,
        threads=_whole(row.get("Grid_Size", "")) or 0,
        block=_whole(row.get("Workgroup_Size", "")) or 0,
        correlation=correlation,
    )


def _whole(text: str) -> int | None:
    """A whole number; None if it is not one, and for `8.1097E+14`, whose last digits are lost."""
    if "e" in text.lower():
        return None
    value = number(text)
    if 0 <= value < 1 << 62:
        return int(value)
    return None


def _wide_counters(row: dict[str, str]) -> dict[str, float]:
    """The counters of a row, instances added up. A sum that the file tells itself wins."""
    values: dict[str, float] = {}
    for column, text in row.items():
        if column in _ABOUT or not text:
            continue
        name = _INSTANCE.sub("_sum", column)
        if name != column and name in row:
            continue
        values[name] = values.get(name, 0.0) + number(text)
    return values


def _kernels(
    clock: Clock, dispatches: list[_Dispatch], numbers: dict[str, int]
) -> Structured:
    """Records of the kernels whose times the file tells."""
    timed = [dispatch for dispatch in dispatches if dispatch.ns > 0]
    rows = {
        "start": np.array([dispatch.start for dispatch in timed], np.int64),
        "end": np.array([dispatch.end for dispatch in timed], np.int64),
        "name": np.array([numbers[dispatch.name] for dispatch in timed], np.int64),
        "device": np.array([dispatch.device for dispatch in timed], np.int64),
        "correlation": np.array(
            [dispatch.correlation or 0 for dispatch in timed], np.int64
        ),
        "grid": np.array(
            [[_blocks(dispatch), 1, 1] for dispatch in timed], np.int64
        ).reshape(-1, 3),
        "block": np.array(
            [[dispatch.block, 1, 1] for dispatch in timed], np.int64
        ).reshape(-1, 3),
    }
    return records(DEVICE_DTYPE, clock.place(rows), kind=DeviceKind.KERNEL)


def _blocks(dispatch: _Dispatch) -> int:
    return dispatch.threads // max(dispatch.block, 1)  # ROCm counts threads, not blocks


def _counted(dispatch: _Dispatch, numbers: dict[str, int]) -> Counted:
    return Counted(
        name=numbers[dispatch.name],
        values=dispatch.values,
        device=dispatch.device,
        ns=dispatch.ns,
        correlation=dispatch.correlation,
    )
