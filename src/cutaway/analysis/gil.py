"""Time spent waiting for the interpreter lock inside native calls.

A call that gives the lock up while it computes wants it back at its end. If another thread runs Python meanwhile, it waits for that,
up to a switch interval (5 ms). Records cannot distinguish that from computing; sampled stacks can.
"""

from __future__ import annotations

from cutaway.analysis.run import Run
from cutaway.analysis.table import totals
from cutaway.vocabulary import THREAD_LAYERS, Doing

NATIVE = frozenset(
    number
    for number, layer in enumerate(THREAD_LAYERS)
    if layer not in ("python", "wait")
)


def gil_in_calls(run: Run) -> int:
    """For how many nanoseconds the leading thread of the run waited so, by the share of the samples of each cell."""
    swept = run.swept
    rows = run.rows(swept.samples)
    cells = run.rows(swept.cells)
    leads = {
        thread
        for thread, leading in enumerate(swept.summary_threads.tolist())
        if leading and swept.threads["process"][thread] == run.main_process
    }
    names = ("thread", "operation", "layer", "doing", "count")
    sampled = []
    columns = [rows[name].tolist() for name in names]
    for thread, operation, layer, doing, count in zip(*columns, strict=True):
        if thread in leads and layer in NATIVE and doing != Doing.UNTOLD:
            waits = doing == Doing.AWAITS_GIL
            sampled.append(((operation, layer), waits, count))
    whole = totals((cell, count) for cell, _, count in sampled)
    waited = totals((cell, count) for cell, waits, count in sampled if waits)
    figures = ("thread", "operation", "layer", "ns")
    table = zip(*(cells[name].tolist() for name in figures), strict=True)
    spent = totals(
        ((operation, layer), ns)
        for thread, operation, layer, ns in table
        if thread in leads
    )
    return sum(
        spent.get(cell, 0) * count // whole[cell] for cell, count in waited.items()
    )
