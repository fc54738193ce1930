"""Time in equal bins: what each thread did, and how busy each device was, for drawing."""

from __future__ import annotations

import numpy as np

from cutaway.analysis.breakdown import breakdown
from cutaway.analysis.devices import union
from cutaway.analysis.sweep import Slicing, Swept, sweep
from cutaway.analysis.table import Table
from cutaway.analysis.utilisation import run_span
from cutaway.trace.reader import Trace


def timeline(trace: Trace, swept: Swept, bins: int) -> Table:
    """Cells of every thread in each bin: process, thread, start_ns, operation, layer, resource, ns."""
    first, last = run_span(trace, swept)
    width = max(-(-(last - first) // max(bins, 1)), 1)
    binned = sweep(trace, Slicing.BIN, first, width)
    keep = np.ones(len(binned.cells["ns"]), bool)
    by = ("process", "thread", "bin", "operation", "layer", "resource")
    none = np.zeros(len(trace.processes), np.int64)
    table = breakdown(trace, binned, by, keep, none).sort("thread", "bin")
    columns = {name: table[name] for name in ("process", "thread")}
    columns["start_ns"] = first + table["bin"] * width
    columns |= {name: table[name] for name in ("operation", "layer", "resource", "ns")}
    out = Table(columns)
    return out.where(out["ns"] > 0)


def device_timeline(trace: Trace, swept: Swept, bins: int) -> Table:
    """Busy time of each device in each bin: device, start_ns, ns."""
    first, last = run_span(trace, swept)
    width = max(-(-(last - first) // max(bins, 1)), 1)
    edges = first + width * np.arange(bins + 1)
    rows: list[tuple[int, int, int]] = []
    numbers = {int(d) for work in swept.devices for d in np.unique(work.records["device"][work.busy])}
    for device in sorted(numbers):
        parts = [work.records[work.busy & (work.records["device"] == device)] for work in swept.devices]
        records = np.concatenate(parts)
        busy = union(records["start"], records["end"])
        done = np.concatenate([[0], np.cumsum(busy[:, 1] - busy[:, 0])])
        at = np.searchsorted(busy[:, 0], edges, side="right")
        inside = np.where(
            at > 0, np.minimum(edges, busy[np.maximum(at - 1, 0), 1]) - busy[np.maximum(at - 1, 0), 0], 0
        )
        total = np.where(at > 0, done[np.maximum(at - 1, 0)] + inside, 0)
        rows += [(device, int(e), int(ns)) for e, ns in zip(edges, np.diff(total), strict=False) if ns > 0]
    return Table.from_rows(("device", "start_ns", "ns"), rows)
