"""Call sites: where native calls are made, how long they take, which cross from one layer into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.analysis.iterations import recorded_iterations
from cutaway.analysis.sweep import Columns
from cutaway.analysis.table import Table, objects
from cutaway.trace.log import Call
from cutaway.trace.reader import Trace
from cutaway.vocabulary import ACCELERATOR_API, API_CALL, THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

CALL = {"function": "fn", "file": "file", "line": "line", "caller": "func", "on": "on", "peer": "peer"}
"""Columns of call sites, and the fields of the log's `Call` they come from."""


def sites(run: Run) -> Table:
    """All call sites with thread, operation and both layers: what the tables below are made from."""
    swept, rows = run.swept, run.rows(run.swept.sites)
    process = swept.threads["process"][rows["thread"]].astype(np.int64)
    distinct, inverse = np.unique(process << 32 | rows["call"], return_inverse=True)
    calls = [call_of(run.trace, key >> 32, key & 0xFFFFFFFF) for key in distinct.tolist()]
    columns: Columns = {
        "process": process,
        "thread": rows["thread"].astype(np.int64),
        "operation": swept.thread_text(rows["thread"], rows["operation"]),
        "from": objects(THREAD_LAYERS)[rows["from"]],
        "to": objects([c.layer for c in calls])[inverse],
    }
    columns |= {name: objects([getattr(c, field) for c in calls])[inverse] for name, field in CALL.items()}
    columns["line"] = columns["line"].astype(np.int64)
    return Table({**columns, "count": rows["count"], "ns": rows["ns"]})


def transitions(run: Run) -> Table:
    """Calls from one layer into another, by operation and call site, the most frequent first.

    >>> run.transitions().where(process=0).select("operation", "from", "to", "function", "count")
    operation        from     to               function               count
    simulation       python   wait             os.read                    6
    inference        python   backend          torch.linear               3
    inference        backend  accelerator_api  cudaLaunchKernel           3
    backpropagation  python   backend          Tensor.backward            3
    backpropagation  backend  accelerator_api  cudaLaunchKernel           3
    backpropagation  backend  accelerator_api  cudaStreamSynchronize      3
                     python   backend          torch.linear               1
    """
    table = run._sites
    table = table.where(table["from"] != table["to"])
    out = table.group(("process", "operation", "from", "to", "function", "file", "line"), ["count"])
    number = recorded_iterations(run)[out["process"].astype(np.int64)]
    each = np.divide(out["count"], number, out=np.full(len(out), np.nan), where=number > 0)
    return out.with_columns({"per_iteration": each}).sort("count", descending=True)


def hotspots(run: Run) -> Table:
    """Call sites by time, without the calls made inside them. `transitions` counts calls into another layer. Helper threads
    that wait for work are left out: they are idle.

    >>> run.hotspots().select("operation", "layer", "function", "line", "ns", "count").head(3)
    operation   layer      function  line    ns  count
                wait       os.read     40  4290     12
    simulation  simulator  Sim.step     3  1710      6
    simulation  wait       os.read      7  1140      6
    """
    table = run._sites
    table = table.where((table["to"] != "wait") | run.swept.summary_threads[table["thread"]])
    crossing = np.where(table["from"] != table["to"], table["count"], 0)
    by = ("operation", "layer", "function", "file", "line", "caller")
    table = table.with_columns({"layer": table["to"], "transitions": crossing})
    return table.group(by, ["ns", "count", "transitions"]).sort("ns", descending=True)


def call_of(trace: Trace, process: int, call: int) -> Call:
    """What a call id of the sweep stands for: a native call, or an accelerator API call."""
    log = trace.processes[process].log
    if call >= API_CALL:
        return Call(layer=ACCELERATOR_API, fn=log.name(call - API_CALL))
    known = log.calls.get(call, Call(fn=f"call {call}"))
    return known if known.layer in THREAD_LAYERS else known._replace(layer="python")
