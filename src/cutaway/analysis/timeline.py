"""Time in equal bins: what each thread did, and how busy each device was, for drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.analysis.breakdown import resources
from cutaway.analysis.devices import by_device
from cutaway.analysis.intervals import covered, union
from cutaway.analysis.sweep import Bins, select, sweep
from cutaway.analysis.table import Table, objects
from cutaway.vocabulary import THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run


def timeline(run: Run, bins: int = 1000) -> Table:
    """What each thread did in each of `bins` equal stretches of the run.

    >>> run.timeline(2).select("thread", "start_ns", "operation", "layer", "ns").head(3)
    thread  start_ns  operation        layer             ns
         0         0  simulation       wait             760
         0         0  backpropagation  accelerator_api  200
         0         0  backpropagation  backend          100
    """
    swept = run.swept
    lanes = sweep(run.trace, known=swept, lanes=[Bins.over(*run.span, bins)]).lanes[0]
    at, bin = np.nonzero(lanes.ns)
    rows = select(lanes.rows, at)
    columns = {
        "process": swept.threads["process"][rows["thread"]],
        "thread": rows["thread"],
        "start_ns": lanes.cut.edges[bin],
        "operation": swept.thread_text(rows["thread"], rows["operation"]),
        "layer": objects(THREAD_LAYERS)[rows["layer"]],
        "resource": resources(rows["blocked"], rows["busy"]),
    }
    table = Table({**columns, "ns": lanes.ns[at, bin]}).group(list(columns), ["ns"])
    return table.sort("ns", descending=True).sort("thread", "start_ns")


def device_timeline(run: Run, bins: int = 1000) -> Table:
    """How busy each device was in each of `bins` equal stretches of the run.

    >>> run.device_timeline(2)
    device  start_ns   ns
         0         0  300
         0      1500  540
    """
    edges = Bins.over(*run.span, bins).edges
    rows: list[tuple[int, int, int]] = []
    for device, records in by_device(run.swept.devices):
        done = np.diff(covered(union(records["start"], records["end"]), edges)).tolist()
        rows += [(device, e, ns) for e, ns in zip(edges.tolist(), done, strict=False) if ns > 0]
    return Table.from_rows(("device", "start_ns", "ns"), rows)
