"""Waiting for the interpreter lock inside native calls.

A call that gives the lock up while it computes wants it back at its end. If another thread runs Python meanwhile, it waits for that,
up to a switch interval (5 ms). Records cannot tell that from computing; the sampled stacks can.
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
    rows, cells = run.rows(swept.samples), run.rows(swept.cells)
    leads = {
        thread
        for thread, leading in enumerate(swept.summary_threads.tolist())
        if leading and swept.threads["process"][thread] == run.leader
    }
    names = ("thread", "operation", "layer", "doing", "count")
    sampled = [
        ((operation, layer), doing == Doing.AWAITS_GIL, count)
        for thread, operation, layer, doing, count in zip(
            *(rows[name].tolist() for name in names), strict=True
        )
        if thread in leads and layer in NATIVE and doing != Doing.UNTOLD
    ]
    whole = totals((cell, count) for cell, _, count in sampled)
    waited = totals((cell, count) for cell, waits, count in sampled if waits)
    spent = totals(
        ((operation, layer), ns)
        for thread, operation, layer, ns in zip(
            *(cells[name].tolist() for name in ("thread", "operation", "layer", "ns")),
            strict=True,
        )
        if thread in leads
    )
    return sum(
        spent.get(cell, 0) * count // whole[cell] for cell, count in waited.items()
    )
