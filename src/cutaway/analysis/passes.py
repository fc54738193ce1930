"""The passes of the training loop: `Run.iterations`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.intervals import covered, union
from cutaway.analysis.sweep import Swept, select
from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Array = NDArray[np.int64]
CALIBRATION_PAUSE = 1  # a reason of a pause, as in native/trace/format.h
COLUMNS = ("process", "iteration", "count", "start_ns", "end_ns", "steps", "recorded")


def iteration_table(run: Run) -> Table:
    """`Run.iterations`: one row for each iteration of each process, or for several that follow each other."""
    parts = [Table.from_rows(COLUMNS, [])]
    for process in np.unique(run.swept.pace.iterations["process"]).tolist():
        passes = _passes(run.swept, process)
        if run.part != "all":
            passes = passes.where(_in_part(run.swept, process, passes, run.part))
        parts.append(passes.table(process))
    return Table.concat(parts)


@dataclass(frozen=True)
class Passes:
    """Passes of one process; a row may stand for `count` of them. `known`: when its mark was written."""

    number: Array
    count: Array
    start: Array
    end: Array
    steps: Array
    paused: Array  # for so long it was not recorded
    known: Array

    def where(self, kept: NDArray[np.bool_]) -> Passes:
        return Passes(
            **{field.name: getattr(self, field.name)[kept] for field in fields(self)}
        )

    def table(self, process: int) -> Table:
        recorded = 1.0 - self.paused / np.maximum(self.end - self.start, 1)
        who = np.full(len(self.number), process)
        columns = (
            who,
            self.number,
            self.count,
            self.start,
            self.end,
            self.steps,
            recorded,
        )
        return Table(dict(zip(COLUMNS, columns, strict=True)))


def _in_part(
    swept: Swept, process: int, passes: Passes, part: str
) -> NDArray[np.bool_]:
    """A process without a second iteration is in its start-up."""
    steady = int(swept.pace.own_steady[process])
    if steady:
        early = passes.known < steady
    else:
        early = np.full(len(passes.known), True)
    if part == "shutdown":
        return np.full(len(early), False)
    if part == "startup":
        return early
    return ~early


def _passes(swept: Swept, process: int) -> Passes:
    found = swept.pace.iterations
    own = {
        name: values[found["process"] == process].astype(np.int64)
        for name, values in found.items()
    }
    last, in_pause = _last_record(swept, process)
    last = max(last, int(own["time"][-1]))
    exited = (swept.trace.processes[process].log.exit or {}).get("t") or 0
    end = np.append(own["time"][1:], max(last, exited) if in_pause else last)
    steps = np.diff(np.append(own["steps"], swept.pace.steps[process]))
    passes = Passes(
        own["number"],
        own["count"],
        own["time"],
        end,
        steps,
        own["paused"],
        own["known"],
    )
    passes = _until_done(passes, swept.stages.own_ends[process])
    gaps = pauses_of(swept, process)
    _end_with_window(passes, gaps)
    passes.paused[:] += covered(gaps, passes.end) - covered(gaps, passes.start)
    was_killed = in_pause and passes.end[-1] == last
    if was_killed or _is_no_pass(passes):
        passes = passes.where(np.arange(len(passes.number)) < len(passes.number) - 1)
    return passes


def pauses_of(swept: Swept, process: int) -> NDArray[np.int64]:
    """When the recording of a process was paused: starts and ends of stretches."""
    paused = swept.threads["process"][swept.pace.pauses["thread"]] == process
    return union(swept.pace.pauses["start"][paused], swept.pace.pauses["end"][paused])


def _last_record(swept: Swept, process: int) -> tuple[int, bool]:
    """The time of the last record of a process, and whether calibration had paused the recording then: the length of that
    pass is unknown."""
    last, reason = _last_pause(swept, process)
    return last, reason == CALIBRATION_PAUSE


def _last_pause(swept: Swept, process: int) -> tuple[int, int]:
    """The time of the last record of a process, and why recording was paused then; 0 if it was not."""
    paused = select(
        swept.pace.pauses,
        swept.threads["process"][swept.pace.pauses["thread"]] == process,
    )
    threads = swept.threads["end"][swept.threads["process"] == process]
    last = max(int(threads.max(initial=0)), int(paused["end"].max(initial=0)))
    never_resumed = (paused["start"] == paused["end"]) & (paused["end"] == last)
    return last, int(paused["reason"][never_resumed].max(initial=0))


def unrecorded(swept: Swept, process: int, life: tuple[int, int]) -> tuple[int, int]:
    """For how long a process had run when its recording began, and went on when that was over (`--after`, `--for`, `--window`)."""
    marks = select(swept.pace.iterations, swept.pace.iterations["process"] == process)
    began_later = (
        len(marks["number"]) and marks["known"][0] == swept.pace.own_steady[process]
    )
    first = int(
        swept.threads["first"][swept.threads["process"] == process].min(initial=life[1])
    )
    last, reason = _last_pause(swept, process)
    is_over = reason not in (0, CALIBRATION_PAUSE)
    return max(0, first - life[0]) if began_later else 0, max(
        0, life[1] - last
    ) if is_over else 0


def _until_done(passes: Passes, done: int) -> Passes:
    """Without marks after the last work; those are of no pass."""
    if done <= passes.start[:2][-1]:
        return passes
    return replace(passes, end=passes.end.clip(max=done)).where(passes.start < done)


def _end_with_window(passes: Passes, gaps: NDArray[np.int64]) -> None:
    """Iterations outside a window leave no mark: the one before them ends where the window does."""
    following = passes.number[1:]
    left_out = np.flatnonzero(following > passes.number[:-1] + passes.count[:-1])
    before = np.searchsorted(gaps[:, 0], passes.end[left_out]) - 1
    for row, gap in zip(left_out[before >= 0], before[before >= 0], strict=True):
        passes.end[row] = np.clip(gaps[gap, 0], passes.start[row], passes.end[row])


def _is_no_pass(passes: Passes) -> bool:
    """What comes after the last pass (saving, evaluation) makes no steps where the others do."""
    others = passes.steps[:-1]
    return len(others) > 0 and not passes.steps[-1] and bool(np.median(others) > 0)
