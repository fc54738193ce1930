"""What a language model generated, and what was trained on, in each pass of the training loop: `Run.generated`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutaway.analysis.processes import token_points
from cutaway.analysis.rollouts import Rollouts, between, told_by_process
from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

NAMES = (
    *("iteration", "start_ns", "end_ns", "tokens", "decoding_ns", "tail_ns"),
    *("peak", "mean", "waiting", "queue", "staleness", "trained", "discarded"),
)


def generated(run: Run) -> Table:
    """A row for each pass of the main process in which something was generated or trained on; NaN where unknown.

    >>> len(run.generated())
    0
    """
    told = told_by_process(run)
    at, made = token_points(run)
    if not any(told) and not len(at):
        return Table.from_rows(NAMES, [])
    until = np.concatenate([[0], np.cumsum(made)])
    rows = []
    for one in run.iterations().where(process=run.main_process):
        first = one["start_ns"]
        end = one["end_ns"]
        before, after = np.searchsorted(at, [first, end])
        tokens = int(until[after] - until[before])
        here = between(told, first, end)
        if tokens or _anything(here):
            rows.append((one["iteration"], first, end, tokens, *_told(here)))
    return Table.from_rows(NAMES, rows)


def _anything(found: Rollouts) -> bool:
    """Whether it adds anything to a value that has held since an earlier pass."""
    return bool(found.decoding_ns or found.trained or found.discarded)


def _told(found: Rollouts) -> tuple[float, ...]:
    means = (found.waiting, found.queue, found.staleness)
    known = (np.nan if value is None else value for value in means)
    batch = (np.nan, np.nan)
    if found.decoding_ns:
        batch = (found.peak, found.mean)
    tail = (found.decoding_ns, found.tail_ns)
    return (*tail, *batch, *known, found.trained, found.discarded)
