"""Time in equal bins: what each thread did, and how busy each device was, for drawing."""

from __future__ import annotations

import numpy as np

from cutaway.analysis.breakdown import names_of
from cutaway.analysis.devices import by_device
from cutaway.analysis.intervals import covered, union
from cutaway.analysis.sweep import Bins, Swept, sweep
from cutaway.analysis.table import Table
from cutaway.analysis.utilisation import run_span
from cutaway.trace.reader import Trace
from cutaway.vocabulary import RESOURCES, THREAD_LAYERS


def timeline(trace: Trace, swept: Swept, bins: int) -> Table:
    """Cells of every thread in each bin: process, thread, start_ns, operation, layer, resource, ns."""
    lanes = sweep(trace, known=swept, lanes=[Bins.over(*run_span(trace, swept), bins)]).lanes[0]
    at, bin = np.nonzero(lanes.ns)
    rows = {name: values[at] for name, values in lanes.rows.items()}
    columns = {
        "process": swept.threads["process"][rows["thread"]],
        "thread": rows["thread"],
        "start_ns": lanes.cut.edges[bin],
        "operation": names_of(trace, swept, rows["thread"], rows["operation"]),
        "layer": np.array(THREAD_LAYERS, object)[rows["layer"]],
        "resource": np.array(list(RESOURCES), object)[2 * rows["blocked"] + (rows["busy"] ^ rows["blocked"])],
    }
    table = Table({**columns, "ns": lanes.ns[at, bin]}).group(list(columns), ["ns"])
    return table.sort("ns", descending=True).sort("thread", "start_ns")


def device_timeline(trace: Trace, swept: Swept, bins: int) -> Table:
    """Busy time of each device in each bin: device, start_ns, ns."""
    edges = Bins.over(*run_span(trace, swept), bins).edges
    rows: list[tuple[int, int, int]] = []
    for device, records in by_device(swept.devices):
        done = covered(union(records["start"], records["end"]), edges)
        rows += [(device, int(e), int(ns)) for e, ns in zip(edges, np.diff(done), strict=False) if ns > 0]
    return Table.from_rows(("device", "start_ns", "ns"), rows)
