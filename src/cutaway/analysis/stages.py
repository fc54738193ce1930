"""Where start-up ends and shut-down begins: looked for in a few records, before the sweep divides time there.

`native/sweep/stages.h` says where start-up ends, this file where the steady state does. `docs/analysis.md` has both in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace, Trace
from cutaway.vocabulary import Kind

_TAILS = (
    1 << 14,
    1 << 18,
    1 << 22,
)  # so many of its last records, if there was no work in fewer
_UPDATES = ("backpropagation", "training program")
_WORK = (*_UPDATES, "simulation", "rollout program")


@dataclass(frozen=True)
class Beginning:
    """How a run begins, as far as it has been written. Times are 0 if they have not come yet."""

    second_iteration: int  # of the process that has one first
    first_work: int  # when its first operation began, or after what was compiled in it; unknown once there is a second iteration
    first_iterations: dict[
        Path, int
    ]  # by the folder of the process; not looked for once a past knows the second one

    @property
    def has_iterations(self) -> bool:
        return bool(self.second_iteration or self.first_iterations)


@dataclass(frozen=True)
class Stages:
    """The instants that divide a run into start-up, steady state and shut-down; 0 is unknown."""

    steady_ns: int  # start-up ends. A process with iterations of its own goes by those, unless this is the first work.
    by_first_work: bool
    own_ends: tuple[int, ...]  # the last work of each process was done
    run_end: int  # and that of the run

    @property
    def over_ns(self) -> int:
        """When the steady state of the run ends; 0 if it lasts to the end."""
        return self.run_end if self.run_end > self.steady_ns else 0


def find_stages(trace: Trace) -> Stages:
    """Divides a run. One without iterations is steady from its first record to its last."""
    begins = find_beginning(trace)
    if not begins.has_iterations:
        return Stages(0, False, (0,) * len(trace.processes), 0)
    steady = begins.second_iteration or begins.first_work
    ends = [last_work_of(process) for process in trace.processes]
    own_ends = tuple(end for _, end in ends)
    return Stages(steady, not begins.second_iteration, own_ends, end_of_run(ends))


def find_beginning(trace: Trace) -> Beginning:
    """Looks for the second iteration of the run, and if there is none for its first work. What a past knows is not looked for again."""
    pasts = [process.past for process in trace.processes if process.past]
    known = [past.steady_ns for past in pasts if past.steady_ns]
    if known:
        return Beginning(min(known), 0, {})
    likely_first = sorted(
        trace.processes,
        key=lambda process: process.log.process.get("role") != "learner",
    )
    written = [_written(process) for process in likely_first]
    second, first = _sweep.find_iterations(written)
    firsts = {
        process.folder: time
        for process, time in zip(likely_first, first, strict=True)
        if time
    }
    if second:
        return Beginning(second, 0, firsts)
    worked = [past.edge_ns for past in pasts if past.edge_ns]
    first_work = min(worked) if worked else _sweep.find_first_work(written)
    return Beginning(0, first_work, firsts)


def _written(
    process: ProcessTrace,
) -> tuple[_sweep.Process, list[NDArray[np.uint8]], tuple[int, int, list[int]]]:
    """What is on disk of a process, and what its past knows of iterations (`ProcessRecords` in native/sweep/stages.h)."""
    sources = [own.view(np.uint8) for own in process.threads.values()]
    past = process.past
    if past is None:
        return process.native(), sources, (0, 0, [])
    paused = [int(thread in past.calibrating) for thread in process.threads]
    known = past.first_iteration_ns, past.devices.until_ns, paused
    return process.native(), sources, known


def end_of_run(ends: Sequence[tuple[bool, int]]) -> int:
    """When the last work of a run was done, by that of its processes. Actors may go on for a while after the last update."""
    last = max((end for _, end in ends), default=0)
    return max((end for updates, end in ends if updates), default=last)


def last_work_of(process: ProcessTrace) -> tuple[bool, int]:
    """Whether a process makes updates, and when its steady state was over; 0 if it has not ended.

    Steady state ends with the last step or update, and as much as the pass before did after its last. What follows is
    shut-down: joined threads, a last evaluation or save, the end of the interpreter. A process that is killed, still runs or
    is no longer recorded has none: nobody knows what it was about to do."""
    if process.past and process.past.last_work:
        return process.past.last_work
    if not process.log.exit:
        return False, 0
    names = {
        id: name
        for id, name in process.log.names.items()
        if name in (*_WORK, "evaluation")
    }
    if not names:
        return False, 0
    found = [_last_of_thread(process, own, names) for own in process.threads.values()]
    return max(found, default=(False, 0))


def _last_of_thread(
    process: ProcessTrace, sources: fmt.Structured, names: dict[int, str]
) -> tuple[bool, int]:
    """The same of one thread, by its last records."""
    last = process.last_record(int(sources["thread"][0]))
    if last and last[0] == Kind.PAUSE:
        return True, 0
    found = False, 0
    for size in _TAILS:
        tail = np.cumsum(sources["count"][::-1])[::-1] <= size
        tail[-1:] = True
        found = _last_in(process, sources[tail], names)
        if found[1] or tail.all():
            break
    return found


def _last_in(
    process: ProcessTrace, sources: fmt.Structured, names: dict[int, str]
) -> tuple[bool, int]:
    kinds = (Kind.ITERATION, Kind.OP_ENTER, Kind.OP_EXIT)
    reader = _sweep.Reader(process.native(), sources.view(np.uint8))
    rows = reader.read(_TAILS[-1], 0, sum(1 << kind for kind in kinds)).view(
        fmt.EVENT_DTYPE
    )
    ends = rows["kind"] == Kind.OP_EXIT
    # Evaluation is no work, nor is what is in it. One that began before these records began with them.
    change = np.where(ends, -1, 1)
    depth = np.cumsum(np.where(_is_one_of(rows, names, ("evaluation",)), change, 0))
    outside = depth == min(0, depth.min(initial=0))
    done = np.flatnonzero(_is_one_of(rows, names, _WORK) & ends & outside)
    if not len(done) or rows["operation"][-1]:
        return False, 0  # nothing, or it ended in the middle of something
    return bool(_is_one_of(rows, names, _UPDATES).any()), _end_of_pass(rows, done)


def _is_one_of(
    rows: fmt.Structured, names: dict[int, str], wanted: tuple[str, ...]
) -> NDArray[np.bool_]:
    ids = [id for id, name in names.items() if name in wanted]
    return np.asarray(np.isin(rows["id"], ids) & (rows["kind"] != Kind.ITERATION))


def _end_of_pass(rows: fmt.Structured, done: NDArray[np.intp]) -> int:
    """Where the next iteration would begin after the last piece of work, with what is around it. `done`: where work ends."""
    marks = np.flatnonzero(rows["kind"] == Kind.ITERATION)
    later = marks[marks > done[-1]]
    if len(later):
        return int(rows["time"][later[0]])
    last_end = _outermost_end(rows, done[-1])
    earlier = marks[marks > done[0]]
    if not len(earlier):
        return last_end
    mark = earlier[-1]
    before = done[done < mark][-1]
    afterwards = int(rows["time"][mark]) - _outermost_end(rows, before)
    return last_end + max(0, afterwards)


def _outermost_end(rows: fmt.Structured, at: int) -> int:
    """When the outermost operation around an event ended."""
    outside = np.flatnonzero(rows["operation"][at:] == 0)
    return int(rows["time"][at + outside[0]])
