"""Passes of the training loop: when each began and ended, and which share of it was recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import union
from cutaway.analysis.sweep import Swept
from cutaway.analysis.table import Table

_FIRST = 2
"""An iteration with a larger number is not the first of its program, even if it is the first recorded."""

_NAMES = ("process", "iteration", "start_ns", "end_ns", "steps", "recorded")


def iterations(swept: Swept, part: str = "all") -> Table:
    """One row for each iteration of each process; `recorded` is the share of it in which recording was not paused."""
    rows: list[tuple[Any, ...]] = []
    for process in np.unique(swept.iterations["process"]).tolist():
        own = _process(swept, int(process))
        first = 1 if own[0][1] <= _FIRST else 0
        rows += own[:first] if part == "startup" else own[first:] if part == "steady" else own
    return Table.from_rows(_NAMES, rows)


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


def _process(swept: Swept, process: int) -> list[tuple[Any, ...]]:
    at = swept.iterations["process"] == process
    number, time, steps = (swept.iterations[name][at] for name in ("number", "time", "steps"))
    threads = np.flatnonzero(swept.threads["process"] == process)
    last = int(swept.threads["end"][threads].max(initial=0))
    ends = np.append(time[1:], max(last, int(time[-1])))
    made = np.diff(np.append(steps, swept.steps[process]))
    paused = np.isin(swept.pauses["thread"], threads)
    gaps = union(swept.pauses["start"][paused], swept.pauses["end"][paused])
    rows: list[tuple[Any, ...]] = []
    for i in range(len(number)):
        missing = int(number[i + 1]) - int(number[i]) - 1 if i + 1 < len(number) else 0
        rows += _rows(process, (int(number[i]), int(time[i]), int(ends[i]), int(made[i])), missing, gaps)
    return rows


def _rows(
    process: int, mark: tuple[int, int, int, int], missing: int, gaps: NDArray[np.int64]
) -> list[tuple[Any, ...]]:
    """The row of a mark, and that of the one iteration after it which ran wholly inside a pause."""
    number, start, end, steps = mark
    first = int(np.searchsorted(gaps[:, 1], start, side="right"))
    last = int(np.searchsorted(gaps[:, 0], end, side="left"))
    inside = np.clip(gaps[first:last], start, end)
    if missing == 1 and len(inside) == 1:
        a, b = inside[0].tolist()
        return [(process, number, start, a, steps, 1.0), (process, number + 1, a, b, 0, 0.0)]
    paused = int(np.sum(inside[:, 1] - inside[:, 0]))
    return [(process, number, start, end, steps, 1.0 - paused / (end - start) if end > start else 1.0)]
