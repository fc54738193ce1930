"""Passes of the training loop: when each began and ended, and which share of it was recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.intervals import covered, union
from cutaway.analysis.sweep import Swept
from cutaway.analysis.table import Table

_FIRST = 2
"""An iteration with a larger number is not the first of its program, even if it is the first recorded."""

_NAMES = ("process", "iteration", "start_ns", "end_ns", "steps", "recorded")


def iterations(swept: Swept, part: str = "all") -> Table:
    """One row for each iteration of each process; `recorded` is the share of it in which recording was not paused."""
    parts = [Table.from_rows(_NAMES, [])]
    for process in np.unique(swept.iterations["process"]).tolist():
        own = _process(swept, int(process))
        early = np.arange(len(own)) < (1 if own["iteration"][0] <= _FIRST else 0)
        parts.append(own if part == "all" else own.where(early if part == "startup" else ~early))
    return Table.concat(parts)


def in_part(swept: Swept, part: str) -> NDArray[np.bool_]:
    """Which cells of a sweep by iteration lie in this part of the run; a process without iterations follows the
    first process that has some."""
    slices = swept.cells["slice"]
    if part == "all" or not len(swept.iterations["process"]):
        return np.full(len(slices), part != "startup")
    first = np.full(len(swept.devices), swept.iterations["number"][0], np.int64)
    process, at = np.unique(swept.iterations["process"], return_index=True)
    first[process] = swept.iterations["number"][at]
    last_of_startup = np.where(first <= _FIRST, first, first - 1)
    early = slices <= last_of_startup[swept.threads["process"][swept.cells["thread"]]]
    return np.asarray(early if part == "startup" else ~early)


def recorded_iterations(table: Table, processes: int) -> NDArray[np.float64]:
    """How many iterations each process has recorded, parts added up; one that counts none (a worker) has as many as
    the process that counts most."""
    out = np.zeros(processes)
    if len(table):
        np.add.at(out, table["process"].astype(np.int64), table["recorded"])
    out[out == 0] = out.max(initial=0)
    return out


def _process(swept: Swept, process: int) -> Table:
    at = swept.iterations["process"] == process
    number, start, steps = (
        swept.iterations[name][at].astype(np.int64) for name in ("number", "time", "steps")
    )
    threads = np.flatnonzero(swept.threads["process"] == process)
    end = np.append(start[1:], max(int(swept.threads["end"][threads].max(initial=0)), int(start[-1])))
    steps = np.diff(np.append(steps, swept.steps[process]))
    paused = np.isin(swept.pauses["thread"], threads)
    gaps = union(swept.pauses["start"][paused], swept.pauses["end"][paused])

    # An iteration that ran wholly inside the one pause between its neighbours left no mark.
    first = np.searchsorted(gaps[:, 1], start, side="right")
    last = np.searchsorted(gaps[:, 0], end, side="left")
    hides = (np.diff(number, append=number[-1]) == 2) & (last - first == 1)
    hidden = gaps[first[hides]].clip(start[hides, None], end[hides, None])
    end[hides] = hidden[:, 0]

    share = 1.0 - (covered(gaps, end) - covered(gaps, start)) / np.maximum(end - start, 1)
    marked = _rows(process, number, start, end, steps, share)
    if not len(hidden):
        return marked
    zero = np.zeros(len(hidden), np.int64)
    unmarked = _rows(process, number[hides] + 1, hidden[:, 0], hidden[:, 1], zero, zero.astype(np.float64))
    return Table.concat([marked, unmarked]).sort("start_ns", "iteration")


def _rows(process: int, *columns: NDArray[Any]) -> Table:
    return Table(dict(zip(_NAMES, (np.full(len(columns[0]), process), *columns), strict=True)))
