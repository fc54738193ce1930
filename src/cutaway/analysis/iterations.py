"""Passes of the training loop: when each began and ended, and which share of it was recorded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.intervals import covered, union
from cutaway.analysis.sweep import NO_ITERATION, Swept
from cutaway.analysis.table import Table
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_FIRST = 2
"""An iteration with a larger number is not the first of its program, even if it is the first recorded."""

_NAMES = ("process", "iteration", "count", "start_ns", "end_ns", "steps", "recorded")


def iteration_table(run: Run) -> Table:
    """`Run.iterations`: one row for each iteration of each process, or for several that follow each other."""
    parts = [Table.from_rows(_NAMES, [])]
    for process in np.unique(run.swept.iterations["process"]).tolist():
        ended_ns = (run.trace.processes[process].log.exit or {}).get("t")
        own = _process(run.swept, int(process), ended_ns if isinstance(ended_ns, int) else 0)
        early = np.arange(len(own)) < (1 if own["iteration"][0] <= _FIRST else 0)
        kept = {"all": early | ~early, "startup": early, "steady": ~early, "shutdown": early & ~early}
        parts.append(own.where(kept[run.part]))
    return Table.concat(parts)


def lead_process(run: Run) -> int:
    """`Run.leader`: the learner, else the process that counts most iterations, else the busiest."""
    table = run.processes()
    if not len(table):
        raise CutawayError(f"{run.trace.path} is empty: no process recorded anything; see `cutaway doctor`.")
    passes = run.steady().iterations()
    counted: Counter[int] = Counter()
    for process, count in zip(passes["process"].tolist(), passes["count"].tolist(), strict=True):
        counted[process] += count
    named: Counter[int] = Counter()  # waiting is no part of what a process is busy with
    for row in run.steady().breakdown(by=("process", "operation", "layer")):
        named[row["process"]] += row["ns"] if row["operation"] and row["layer"] != "wait" else 0

    def rank(process: int) -> tuple[bool, int, int, int]:
        learns = table["role"][process] == "learner"
        return learns, counted[process], named[process], table["cpu_ns"][process]

    return max(range(len(table)), key=rank)


def in_part(swept: Swept, part: str) -> NDArray[np.bool_]:
    """Which cells of a sweep by iteration lie in this part of the run; a process without iterations follows the
    first process that has some."""
    slices = swept.cells["slice"]
    if part == "all" or not len(swept.iterations["process"]):
        return np.full(len(slices), part in ("all", "steady"))
    first = np.full(len(swept.seen), swept.iterations["number"][0], np.int64)
    process, at = np.unique(swept.iterations["process"], return_index=True)
    first[process] = swept.iterations["number"][at]
    last_of_startup = np.where(first <= _FIRST, first, first - 1)
    early = slices <= last_of_startup[swept.threads["process"][swept.cells["thread"]]]
    over = slices == NO_ITERATION
    return np.asarray({"startup": early, "steady": ~early & ~over, "shutdown": over}[part])


def recorded_iterations(run: Run) -> NDArray[np.float64]:
    """How many iterations each process has recorded, parts added up; one that counts none (a worker) has as many as
    the process that counts most."""
    table = run.iterations()
    out = np.zeros(len(run.trace.processes))
    np.add.at(out, table["process"].astype(np.int64), (table["recorded"] * table["count"]).astype(float))
    out[out == 0] = out.max(initial=0)
    return out


def _process(swept: Swept, process: int, exit_ns: int) -> Table:
    at = swept.iterations["process"] == process
    names = ("number", "count", "time", "steps", "paused")
    number, count, start, steps, paused_ns = (swept.iterations[name][at].astype(np.int64) for name in names)
    threads = np.flatnonzero(swept.threads["process"] == process)
    paused = np.isin(swept.pauses["thread"], threads)
    pauses = swept.pauses["start"][paused], swept.pauses["end"][paused]
    gaps = union(*pauses)
    last = max(int(times.max(initial=0)) for times in (swept.threads["end"][threads], pauses[1], start[-1:]))
    unknown = bool(((pauses[0] == pauses[1]) & (pauses[1] == last)).any())  # ended in a pause
    end = np.append(start[1:], max(last, exit_ns) if unknown else last)
    steps = np.diff(np.append(steps, swept.steps[process]))
    done = swept.ends.processes[process]
    if done > start[:2][-1]:  # marks that come later are of no pass
        inside = start < done
        columns = (number, count, start, end.clip(max=done), steps, paused_ns)
        number, count, start, end, steps, paused_ns = (column[inside] for column in columns)
    # Iterations outside a window leave no mark: the one before them ends where the window does.
    left_out = np.flatnonzero(np.append(number[1:], number[-1] + count[-1]) > number + count)
    gap = np.searchsorted(gaps[:, 0], end[left_out]) - 1
    if len(gaps):
        end[left_out] = np.where(gap >= 0, gaps[gap, 0].clip(start[left_out], end[left_out]), end[left_out])
    share = 1.0 - (paused_ns + covered(gaps, end) - covered(gaps, start)) / np.maximum(end - start, 1)
    found = (np.full(len(number), process), number, count, start, end, steps, share)
    table = Table(dict(zip(_NAMES, found, strict=True)))
    # What comes after the last pass (saving, evaluation) is no pass of its own, and of one in whose pause the program was
    # killed nobody knows the end.
    killed = unknown and last == end[-1]
    over = len(table) > 1 and not steps[-1] and np.median(steps[:-1]) > 0
    return table.head(len(table) - 1) if killed or over else table
