"""Memory of accelerators by operation, as the framework's allocator counted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

COLUMNS = (
    "process",
    "device",
    "operation",
    "peak",
    "reserved",
    "unused",
    "kept",
    "count",
)
_FIELDS = 6
_LARGEST = 1 << 60


def device_memory(run: Run) -> Table:
    """The most memory that was allocated on a device during an operation, with what the allocator had reserved then; `unused` is
    the difference: cached, or lost to fragmentation. From traces with `profile_memory=True`; device -1 is the CPU.

    >>> len(run.device_memory())
    0
    """
    rows = []
    for index, process in enumerate(run.trace.processes):
        for entry in process.log.others:
            if entry["k"] != "device_memory":
                continue
            for row in _sound(entry.get("rows")):
                device, name, peak, reserved, kept, count = row
                unused = max(0, reserved - peak)
                sizes = (peak, reserved, unused, kept, count)
                rows.append((index, device, process.log.name(name), *sizes))
    rows.sort(key=lambda row: (-row[3], row[:3]))
    return Table.from_rows(COLUMNS, rows)


def _sound(rows: Any) -> list[list[int]]:
    """The rows that make sense; others were not written by us."""
    if not isinstance(rows, list):
        return []
    found = [row for row in rows if isinstance(row, list) and len(row) == _FIELDS]
    return [row for row in found if all(_is_number(value) for value in row)]


def _is_number(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST
