"""Call sites: where native calls are made, how long they take, which cross from one layer into another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import names_of, summary_threads
from cutaway.analysis.sweep import API_CALL, Swept
from cutaway.analysis.table import Table
from cutaway.trace.log import Call
from cutaway.trace.reader import Trace
from cutaway.vocabulary import ACCELERATOR_API, THREAD_LAYERS

Mask = NDArray[np.bool_]


def sites(trace: Trace, swept: Swept, keep: Mask) -> Table:
    """All call sites with thread, operation and both layers: what the tables below are made from."""
    rows = {name: values[keep] for name, values in swept.sites.items()}
    process = swept.threads["process"][rows["thread"]].astype(np.int64)
    key = process << 32 | rows["call"]
    distinct, inverse = np.unique(key, return_inverse=True)
    calls = [call_of(trace, int(k) >> 32, int(k) & 0xFFFFFFFF) for k in distinct]
    columns: dict[str, Any] = {
        "process": process,
        "thread": rows["thread"].astype(np.int64),
        "operation": names_of(trace, swept, rows["thread"], rows["operation"]),
        "from": objects([THREAD_LAYERS[i] for i in rows["from"].tolist()]),
        "to": objects([c.layer for c in calls])[inverse],
    }
    for column, get in {
        "function": "fn", "file": "file", "line": "line", "caller": "func", "on": "on", "peer": "peer",
    }.items():  # fmt: skip
        values = [getattr(c, get) for c in calls]
        columns[column] = (np.array(values, np.int64) if get == "line" else objects(values))[inverse]
    columns |= {"count": rows["count"], "ns": rows["ns"]}
    return Table(columns)


def transitions(trace: Trace, swept: Swept, keep: Mask, iterations: NDArray[np.float64]) -> Table:
    """Crossings from one layer into another by operation and call site, the most frequent first."""
    table = sites(trace, swept, keep)
    table = table.where(table["from"] != table["to"])
    by = ("process", "operation", "from", "to", "function", "file", "line")
    out = table.group(by, ["count"])
    number = iterations[out["process"].astype(np.int64)].astype(float) if len(out) else np.zeros(0)
    each = np.divide(out["count"], number, out=np.full(len(out), np.nan), where=number > 0)
    columns = {name: out[name] for name in out.columns}
    return Table({**columns, "per_iteration": each}).sort("count", descending=True)


def hotspots(trace: Trace, swept: Swept, keep: Mask) -> Table:
    """Call sites by the time they take; `ns` excludes calls made inside, `transitions` counts layer changes. Helper threads
    that wait for work are left out: they are idle."""
    table = sites(trace, swept, keep)
    table = table.where(
        (table["to"] != "wait") | summary_threads(trace, swept)[table["thread"].astype(np.int64)]
    )
    crossing = np.where(table["from"] != table["to"], table["count"], 0)
    columns = {name: table[name] for name in table.columns} | {"layer": table["to"], "transitions": crossing}
    by = ("operation", "layer", "function", "file", "line", "caller")
    return Table(columns).group(by, ["ns", "count", "transitions"]).sort("ns", descending=True)


def call_of(trace: Trace, process: int, call: int) -> Call:
    """What a call id of the sweep stands for: a native call, or an accelerator API call."""
    log = trace.processes[process].log
    if call >= API_CALL:
        return Call(layer=ACCELERATOR_API, fn=log.name(call - API_CALL))
    known = log.calls.get(call, Call(fn=f"call {call}"))
    return known if known.layer in THREAD_LAYERS else known._replace(layer="python")


def objects(values: list[str]) -> NDArray[Any]:
    """A column of texts."""
    out = np.empty(len(values), object)
    out[:] = values
    return out
