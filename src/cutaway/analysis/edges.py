"""Where start-up ends and shut-down begins, as far as it can be told without sweeping the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace, Trace
from cutaway.vocabulary import Kind

_LOOKED_AT = 1 << 18  # records of a thread
_TAILS = (
    1 << 14,
    1 << 18,
    1 << 22,
)  # so many of its last records, if there was no work in fewer
_UPDATES = ("backpropagation", "training program")
_WORK = (*_UPDATES, "simulation")


@dataclass(frozen=True)
class Ends:
    """When the last work of each process, and of the run, was done; 0 is unknown."""

    processes: tuple[int, ...]
    run: int


def guess_steady(trace: Trace) -> int:
    """When the run leaves its start-up, from the first records of the process that is likely to lead."""
    for process in trace.processes:
        if process.past and process.past.steady_ns:
            return process.past.steady_ns
    streams = chain.from_iterable(p.threads.values() for p in trace.processes)
    events = sum(int(stream["count"].sum()) for stream in streams)
    left = _LOOKED_AT + events // 50
    for process in sorted(
        trace.processes, key=lambda p: p.log.process.get("role") != "learner"
    ):
        for sources in process.threads.values():
            most = min(left, _LOOKED_AT)
            steady = _sweep.steady_since(process.native(), sources.view(np.uint8), most)
            if steady or not left:
                return steady
            left -= min(most, int(sources["count"].sum()))
    return 0


def first_work(trace: Trace, found: int) -> int:
    """Where the start-up of a run without a second iteration ends: at its first operation, or after what is compiled in that; 0
    if there is none. `found`: what the sweep says; totals of a past were divided by what was known then."""
    kept = [
        process.past.edge_ns
        for process in trace.processes
        if process.past and process.past.edge_ns
    ]
    return min(kept, default=found)


def last_work(trace: Trace) -> Ends:
    """Steady state ends with the last step or update, and as much as the pass before did after its last. What follows is
    shut-down: joined threads, a last evaluation or save, the end of the interpreter. A process that is killed or still
    runs has none: nobody knows what it was about to do."""
    found = [last_work_of(process) for process in trace.processes]
    return Ends(tuple(end for _, end in found), run_end(found))


def run_end(found: Sequence[tuple[bool, int]]) -> int:
    """When the last work of a run was done, by that of its processes. Actors may go on for a while after the last update."""
    last = max((end for _, end in found), default=0)
    return max((end for updates, end in found if updates), default=last)


def last_work_of(process: ProcessTrace) -> tuple[bool, int]:
    """Whether a process makes updates, and when its last pass was over; 0 if it has not ended."""
    if process.past and process.past.last_work:
        return process.past.last_work
    if not process.log.exit:
        return False, 0
    of = {
        id: name
        for id, name in process.log.names.items()
        if name in (*_WORK, "evaluation")
    }
    last = [(False, 0)]
    for sources in process.threads.values() if of else ():
        for size in _TAILS:
            kept = np.cumsum(sources["count"][::-1])[::-1] <= size
            kept[-1:] = True
            found = _last_of(process, sources[kept], of)
            if found[1] or kept.all():
                break
        last.append(found)
    return max(last)


def _last_of(
    process: ProcessTrace, sources: fmt.Structured, of: dict[int, str]
) -> tuple[bool, int]:
    """The same by some of the records of one thread."""
    kinds = (Kind.ITERATION, Kind.OP_ENTER, Kind.OP_EXIT)
    reader = _sweep.Reader(process.native(), sources.view(np.uint8))
    rows = reader.read(_TAILS[-1], 0, sum(1 << kind for kind in kinds)).view(
        fmt.EVENT_DTYPE
    )
    work, updates, evaluation = (
        _is_of(rows, of, names) for names in (_WORK, _UPDATES, ("evaluation",))
    )
    ends = rows["kind"] == Kind.OP_EXIT
    # Evaluation is no work, nor is what is in it. One that began before these records began with them.
    depth = np.cumsum(np.where(evaluation, np.where(ends, -1, 1), 0))
    done = np.flatnonzero(work & ends & (depth == min(0, depth.min(initial=0))))
    if not len(done) or rows["operation"][-1]:
        return False, 0  # nothing, or it ended in the middle of something
    return bool(updates.any()), _end_of_pass(rows, done)


def _is_of(
    rows: fmt.Structured, of: dict[int, str], names: tuple[str, ...]
) -> NDArray[np.bool_]:
    ids = [id for id, name in of.items() if name in names]
    return np.asarray(np.isin(rows["id"], ids) & (rows["kind"] != Kind.ITERATION))


def _end_of_pass(rows: fmt.Structured, done: NDArray[np.intp]) -> int:
    """Where the next iteration would begin after the last piece of work, with what is around it. `done`: where work ends."""

    def end(at: int) -> int:
        return int(rows["time"][at + np.flatnonzero(rows["operation"][at:] == 0)[0]])

    marks = np.flatnonzero(rows["kind"] == Kind.ITERATION)
    if len(later := marks[marks > done[-1]]):
        return int(rows["time"][later[0]])
    if not len(earlier := marks[(marks > done[0])]):
        return end(done[-1])
    before = done[done < earlier[-1]][-1]
    return end(done[-1]) + max(0, int(rows["time"][earlier[-1]]) - end(before))
