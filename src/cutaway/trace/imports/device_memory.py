"""What an allocator says of its memory, event by event, as it becomes part of a run: sums by operation.

torch.profiler writes an event for each allocation and release (`profile_memory=True`), with what is allocated and what the caching
allocator has reserved after it. The operation is the innermost one that is open on the same thread at that moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cutaway.trace.format import Structured
from cutaway.trace.imports.columns import MISSING, Columns
from cutaway.trace.writer import ProcessWriter

CPU = 0  # PyTorch's number for it; all others are accelerators


@dataclass
class _Sum:
    """One operation on one device."""

    peak: int = 0
    reserved: int = 0  # when it was at its peak
    kept: int = 0  # allocated in it, less what was freed in it
    count: int = 0

    def add(self, allocated: int, reserved: int, size: int) -> None:
        if allocated >= self.peak:
            self.peak, self.reserved = allocated, reserved
        self.kept += size
        self.count += 1


def write_device_memory(
    writer: ProcessWriter,
    events: Columns | None,
    operations: Structured,
    names: list[str],
) -> None:
    """Writes one log entry with a row for each device and operation; `operations` are the spans with a name."""
    if events is None or not len(events["start"]):
        return
    found: defaultdict[tuple[int, str], _Sum] = defaultdict(_Sum)
    left_out = 0
    for device, allocated, reserved, size, span in _in_order(events, operations):
        if allocated < 0 or reserved < 0 or size == MISSING:
            left_out += 1
            continue
        name = names[int(operations["name"][span])] if span >= 0 else ""
        found[device, name].add(allocated, reserved, size)
    rows = []
    for (device, name), one in found.items():
        about = [device, writer.name(name) if name else 0]
        rows.append([*about, one.peak, one.reserved, one.kept, one.count])
    writer.log("device_memory", {"rows": rows})
    if left_out:
        text = f"{left_out} sizes of memory cannot be true (negative or missing); they are left out"
        writer.log("note", {"text": text})


def _in_order(
    events: Columns, operations: Structured
) -> Iterator[tuple[int, int, int, int, int]]:
    """Device (-1: CPU), allocated, reserved, size of each event, and the position of the operation around it, or -1."""
    spans = _innermost(events, operations)
    device = np.where(events["device_type"] == CPU, -1, events["device_number"])
    order = np.argsort(events["start"], kind="stable")
    reserved = np.where(events["reserved"] == MISSING, 0, events["reserved"])
    columns = (device, events["allocated"], reserved, events["size"])
    yield from zip(
        *(column[order].tolist() for column in columns),
        spans[order].tolist(),
        strict=True,
    )


def _innermost(events: Columns, operations: Structured) -> np.ndarray:
    """The operation on the same thread that began last and has not ended."""
    found = np.full(len(events["start"]), -1)
    for thread in np.unique(events["thread"]).tolist():
        rows = np.flatnonzero(events["thread"] == thread)
        own = np.flatnonzero(operations["thread"] == thread)
        own = own[np.argsort(operations["start"][own], kind="stable")]
        order = rows[np.argsort(events["start"][rows], kind="stable")]
        open_spans: list[int] = []
        coming = 0
        for row in order.tolist():
            t = events["start"][row]
            while coming < len(own) and operations["start"][own[coming]] <= t:
                open_spans.append(int(own[coming]))
                coming += 1
            while open_spans and operations["end"][open_spans[-1]] <= t:
                open_spans.pop()
            found[row] = open_spans[-1] if open_spans else -1
    return found
