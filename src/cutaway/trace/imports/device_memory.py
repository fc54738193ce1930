"""An allocator's events (memory allocated and freed), summed up by operation for a run.

torch.profiler writes an event for each allocation and release (`profile_memory=True`), with what is allocated and what the caching
allocator has reserved after it. The operation is the innermost one that is open on the same thread at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cutaway.trace.format import Structured
from cutaway.trace.imports.allocator import Event, sums
from cutaway.trace.imports.columns import MISSING, Columns
from cutaway.trace.writer import ProcessWriter

CPU = 0  # PyTorch's number for it; all others are accelerators


def write_device_memory(
    writer: ProcessWriter,
    events: Columns | None,
    operations: Structured,
    names: list[str],
) -> None:
    """Writes the sums of a process; `operations` are the spans with a name."""
    if events is None or not len(events["start"]):
        return
    told = list(_in_order(events, operations, names))
    fine = [event for event in told if event.allocated >= 0 and event.reserved >= 0]
    fine = [event for event in fine if event.size != MISSING]
    write_sums(writer, fine)
    if left_out := len(told) - len(fine):
        text = f"{left_out} sizes of memory are impossible (negative or missing) and were left out"
        writer.log("note", {"text": text})


def write_sums(writer: ProcessWriter, events: list[Event]) -> None:
    """One log entry with a row for each device, operation and line."""
    rows = []
    for (device, (operation, frame)), one in sums(events).items():
        about = [device, writer.name(operation) if operation else 0]
        rows.append(
            [*about, one.peak, one.reserved, one.kept, one.count, one.held, frame]
        )
    writer.log("device_memory", {"rows": rows})


def _in_order(
    events: Columns, operations: Structured, names: list[str]
) -> Iterator[Event]:
    """The events by time, each with the operation around it."""
    spans = _innermost(events, operations)
    order = np.argsort(events["start"], kind="stable")
    device = np.where(events["device_type"] == CPU, -1, events["device_number"])
    reserved = np.where(events["reserved"] == MISSING, 0, events["reserved"])
    columns = (device, events["address"], events["size"], events["allocated"], reserved)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    for sizes, span in zip(rows, spans[order].tolist(), strict=True):
        if span >= 0:
            name = names[int(operations["name"][span])]
        else:
            name = ""
        yield Event._make((*sizes, (name, 0)))


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
            if open_spans:
                found[row] = open_spans[-1]
            else:
                found[row] = -1
    return found
