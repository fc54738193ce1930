"""Memory of accelerators by operation and line, as the framework's allocator counted it, and what each device has in all."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cutaway.analysis.stacks import Place, stack_of, your_place
from cutaway.analysis.table import Table
from cutaway.trace.log import Log
from cutaway.trace.memory_profile import Held, read_profile

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

COLUMNS = (
    *("process", "device", "operation", "function", "file", "line"),
    *("your_function", "your_file", "your_line"),
    *("held", "peak", "reserved", "unused", "kept", "count"),
)
POOL = ("reserved", "allocated", "requested", "stuck", "largest")
REFUSED = ("size", "left", "reserved", "function", "file", "line")
_LARGEST = 1 << 60
_ROW, _SHORT_ROW = 8, 6  # what 0.1 wrote had neither parts of the peak nor lines


def device_memory(run: Run) -> Table:
    """Who has the memory of devices: `held` is what of the most that a device ever had belonged to this operation and line (these
    add up), `peak` the most that was allocated during it by all together, `reserved` what the allocator had then; `unused` is the
    difference: cached, or lost to fragmentation. `kept` was still there at the end. Device -1 is the CPU.

    >>> len(run.device_memory())
    0
    """
    rows: list[tuple[Any, ...]] = []
    for index, process in enumerate(run.trace.processes):
        rows += _counted(index, process.log)
        rows += _live(run, index, process.log)
    rows.sort(key=lambda row: (-row[9], -row[10], row[:3]))
    return Table.from_rows(COLUMNS, rows)


def device_pools(run: Run) -> Table:
    """What PyTorch's caching allocator had when a snapshot was taken. Of what is reserved and not allocated, `stuck` lies in segments
    that are in use and cannot go back to the device; `largest` is the largest free block.

    >>> len(run.device_pools())
    0
    """
    rows = []
    for index, process in enumerate(run.trace.processes):
        for row in _rows(process.log, "device_pool", len(POOL) + 1):
            rows.append((index, *row))
    return Table.from_rows(("process", "device", *POOL), rows)


def device_refused(run: Run) -> Table:
    """Allocations that failed: bytes asked for, what the device had `left`, what the allocator had reserved, and your line.

    >>> len(run.device_refused())
    0
    """
    rows = []
    for index, process in enumerate(run.trace.processes):
        for device, *sizes, frame in _rows(process.log, "device_refused", 5):
            inner, yours = _places(stack_of(process.log, frame))
            place = yours if yours.file else inner
            rows.append((index, device, *sizes, *place))
    return Table.from_rows(("process", "device", *REFUSED), rows)


def _counted(index: int, log: Log) -> Iterator[tuple[Any, ...]]:
    """Rows of allocators that reported every event."""
    found = list(_rows(log, "device_memory", _ROW))
    found += [[*row, 0, 0] for row in _rows(log, "device_memory", _SHORT_ROW)]
    for device, name, peak, reserved, kept, count, held, frame in found:
        inner, yours = _places(stack_of(log, frame))
        sizes = (held, peak, reserved, max(0, reserved - peak), kept, count)
        yield (index, device, log.name(name), *inner, *yours, *sizes)


def _live(run: Run, index: int, log: Log) -> Iterator[tuple[Any, ...]]:
    """Rows of live buffers that were looked at now and then (JAX): what lines had when there was most, and at the end."""
    looks = [look for look in map(_look, _entries(log, "device_profile")) if look]
    for device in sorted({held.device for look in looks for held in look}):
        totals = [sum(h.bytes for h in look if h.device == device) for look in looks]
        most = max(totals)
        fullest = _by_place(looks[totals.index(most)], device)
        last = _by_place(looks[-1], device)
        if most:
            operations = _operations(run, index, log)
        else:
            operations = {}
        for places in sorted(fullest.keys() | last.keys()):
            inner, yours = places
            size, blocks = fullest.get(places, (0, 0))
            kept = last.get(places, (0, 0))[0]
            operation = _first(operations, (yours, inner))
            figures = (size, most, most, 0, kept, blocks)
            if size or kept:
                yield (index, device, operation, *inner, *yours, *figures)


def _look(entry: dict[str, Any]) -> list[Held]:
    try:
        return read_profile(base64.b64decode(str(entry.get("data")), validate=True))
    except ValueError:
        return []


def _by_place(
    look: list[Held], device: int
) -> dict[tuple[Place, Place], tuple[int, int]]:
    """Bytes and blocks by the innermost line and your line."""
    found: defaultdict[tuple[Place, Place], tuple[int, int]] = defaultdict(
        lambda: (0, 0)
    )
    for held in look:
        if held.device == device:
            stack = tuple(Place(*frame) for frame in reversed(held.frames))
            size, blocks = found[_places(stack)]
            found[_places(stack)] = (size + held.bytes, blocks + held.blocks)
    return dict(found)


def _operations(run: Run, index: int, log: Log) -> dict[tuple[str, str], str]:
    """The operation in which a function was sampled most; `log` knows its frames."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    rows = run.swept.samples
    own = run.swept.threads["process"][rows["thread"]] == index
    columns = (rows[name][own].tolist() for name in ("operation", "frame", "count"))
    for operation, frame, count in zip(*columns, strict=True):
        name = run.swept.names.text(operation)
        for place in set(stack_of(log, frame)):
            counts[place.file, place.function][name] += count
    return {key: names.most_common(1)[0][0] for key, names in counts.items()}


def _first(operations: dict[tuple[str, str], str], places: tuple[Place, ...]) -> str:
    keys = [(place.file, place.function) for place in places]
    return next((operations[key] for key in keys if key in operations), "")


def _places(stack: tuple[Place, ...]) -> tuple[Place, Place]:
    """The innermost frame, and the innermost of your own."""
    nobody = Place("", "", 0)
    return stack[-1] if stack else nobody, your_place(stack) or nobody


def _entries(log: Log, kind: str) -> Iterator[dict[str, Any]]:
    return (entry for entry in log.others if entry["k"] == kind)


def _rows(log: Log, kind: str, length: int) -> Iterator[list[int]]:
    """The rows of this length that make sense; others were not written by us."""
    for entry in _entries(log, kind):
        rows = entry.get("rows")
        for row in rows if isinstance(rows, list) else ():
            whole = isinstance(row, list) and len(row) == length
            if whole and all(map(_is_number, row)):
                yield row


def _is_number(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST
