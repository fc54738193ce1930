"""Time in equal bins: what each thread did, and how busy each device was, for drawing."""

from __future__ import annotations

import numpy as np

from cutaway.analysis.breakdown import breakdown
from cutaway.analysis.devices import by_device
from cutaway.analysis.intervals import covered, union
from cutaway.analysis.sweep import Bins, Swept, sweep
from cutaway.analysis.table import Table
from cutaway.analysis.utilisation import run_span
from cutaway.trace.reader import Trace


def timeline(trace: Trace, swept: Swept, bins: int) -> Table:
    """Cells of every thread in each bin: process, thread, start_ns, operation, layer, resource, ns."""
    cut = Bins.over(*run_span(trace, swept), bins)
    binned = sweep(trace, cut, swept)
    keep = np.ones(len(binned.cells["ns"]), bool)
    by = ("process", "thread", "bin", "operation", "layer", "resource")
    none = np.zeros(len(trace.processes), np.float64)
    table = breakdown(trace, binned, by, keep, none).sort("thread", "bin")
    columns = {name: table[name] for name in ("process", "thread")}
    columns["start_ns"] = cut.start + (table["bin"] - 1) * cut.width
    columns |= {name: table[name] for name in ("operation", "layer", "resource", "ns")}
    out = Table(columns)
    return out.where(out["ns"] > 0)


def device_timeline(trace: Trace, swept: Swept, bins: int) -> Table:
    """Busy time of each device in each bin: device, start_ns, ns."""
    edges = Bins.over(*run_span(trace, swept), bins).edges
    rows: list[tuple[int, int, int]] = []
    for device, records in by_device(swept.devices):
        done = covered(union(records["start"], records["end"]), edges)
        rows += [(device, int(e), int(ns)) for e, ns in zip(edges, np.diff(done), strict=False) if ns > 0]
    return Table.from_rows(("device", "start_ns", "ns"), rows)
