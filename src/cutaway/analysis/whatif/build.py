"""A recording as something that can be run again: what each thread worked on, gave to others and took from them.

Time is cut at whatever couples threads: something given (a write, a release, a put), something taken (a read, an
acquired semaphore, a get), the end of an iteration. Between two such events a thread has work, by operation and
layer. Work is CPU time: what a thread waited for a core is left out, because the replay decides that anew. A wait that
ends with something taken has no length of its own. Any other wait (a sleep, a timeout, somebody nobody saw) stays as
long as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif import tasks
from cutaway.analysis.whatif.couplings import held, wake_up
from cutaway.analysis.whatif.cpu import shares
from cutaway.analysis.whatif.devices import Devices, nothing
from cutaway.analysis.whatif.graph import GIL_LAYERS, Graph, Key, Segment, Thread
from cutaway.analysis.whatif.items import (
    DELAY,
    PASS,
    PEEK,
    RUN,
    RUN_GIL,
    TAKE,
    Items,
    in_turns,
)
from cutaway.analysis.whatif.timeline import Names, Timeline, Told, rows_of, timeline
from cutaway.errors import CutawayError
from cutaway.vocabulary import THREAD_LAYERS, Kind

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

MOST_EVENTS = 2_000_000
_PLACE = ("process", "operation", "layer")
_GIL_LAYERS = [THREAD_LAYERS.index(name) for name in GIL_LAYERS]


def build(run: Run, most_events: int = MOST_EVENTS, alone: bool = False) -> Graph:
    """The graph of the steady iterations of a run, or of as many as fit. `alone`: without what other programs held it up, to compare
    two recordings."""
    on_devices = any(seen.works for seen in run.swept.seen)
    marks, process, steps = _iterations(run, on_devices)
    first, last = _window(run, marks, most_events)
    found = read(run, process, (first, last))
    if on_devices:
        add_devices(run, found, process, (first, last))
    if found.leader < 0:
        raise CutawayError(_NO_ITERATIONS)
    used, notes = shares(run, found.timelines, found.ids, (first, last), alone)
    cpus = run.trace.about.get("cpus")
    imported = on_devices and "cutaway" not in run.trace.about
    if imported:
        used = [(*one[:2], False) for one in used]
        notes.append(
            "not recorded by Cutaway: each thread has a core, and nobody knows who holds the interpreter lock"
        )
    if len(marks) == 2:
        notes.append("without iterations, so the whole recording is taken as one")
    segments = [
        _segment(found.timelines, used, found.names, edges, marks)
        for edges in _stretches(found.timelines, marks, first, last)
    ]
    segments = [segment for segment in segments if segment.seconds]
    if not segments:
        raise CutawayError(
            "No iteration of this run was recorded whole; record it for longer, with --calibrate-share 0."
        )
    return Graph(
        found.threads,
        list(found.names.keys),
        list(found.names.channels),
        segments,
        found.leader,
        len(found.threads) if imported else int(cpus or 1),
        steps,
        notes,
        wake_up(found.timelines),
        kept=_kept(run, found.names),
    )


def _kept(run: Run, names: Names) -> dict[Key, float]:
    """How much of the work of each key is left when the cost of recording it is taken away; a wait stays what it was."""
    table = run.breakdown(by=(*_PLACE, "thread"))
    table = table.where(table["layer"] != "wait").group(_PLACE, ["ns", "raw_ns"])
    left = table["ns"] / np.maximum(table["raw_ns"], 1)
    places = zip(*(table[name].tolist() for name in _PLACE), strict=True)
    by_place = dict(zip(places, left.tolist(), strict=True))
    return {key: by_place.get(key.place, 1.0) for key in names.keys}


@dataclass
class Read:
    """All threads of the window; `ids`: process and tid of each."""

    names: Names = field(default_factory=Names)
    timelines: list[Timeline] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    ids: list[tuple[int, int]] = field(default_factory=list)
    leader: int = -1


def read(run: Run, process: int, window: tuple[int, int]) -> Read:
    """The leader is the first thread of its process that marks iterations."""
    found = Read()
    for index, trace in enumerate(run.trace.processes):
        for thread in trace.threads:
            rows = rows_of(trace, thread, *window)
            if not len(rows):
                continue
            number = len(found.threads)
            marks = (rows["kind"] == Kind.ITERATION).sum()
            if index == process and found.leader < 0 and marks > 1:
                found.leader = number
            info = trace.log.threads.get(thread)
            found.ids.append((index, info.tid if info else 0))
            line = timeline(trace, index, number, rows, found.names, window)
            found.timelines.append(line)
            found.threads.append(Thread(index, info.name if info else ""))
    found.timelines = tasks.coupled(run.trace.processes, found.timelines, found.names)
    return found


def add_devices(run: Run, found: Read, process: int, window: tuple[int, int]) -> None:
    """The streams of all devices as threads of their own; a thread that only called the accelerator's API becomes one, too."""
    devices = Devices(found.names, window)
    for index, trace in enumerate(run.trace.processes):
        for tid in np.unique(trace.api()["os_thread"]).tolist():
            if (index, tid) not in found.ids:
                number = len(found.threads)
                line = nothing(index, number, found.names, window)
                _append(found, line, Thread(index, ""), (index, tid))
        own = {tid: number for number, (at, tid) in enumerate(found.ids) if at == index}
        lines = {tid: found.timelines[number] for tid, number in own.items()}
        for tid, line in devices.process(index, trace, lines).items():
            found.timelines[own[tid]] = line
    if found.leader < 0:
        found.leader = _lead(found, process, window[1])
    free = len(run.trace.processes)
    for name, line in devices.streams(free, len(found.threads)):
        _append(found, line, Thread(line.process, name, device=True), (0, -1))


def _append(found: Read, line: Timeline, thread: Thread, id: tuple[int, int]) -> None:
    found.timelines.append(line)
    found.threads.append(thread)
    found.ids.append(id)


def _lead(found: Read, process: int, last: int) -> int:
    """The thread of a process that gives devices most work; its recording ends the only iteration."""
    own = [n for n, line in enumerate(found.timelines) if line.process == process]
    leader = max(own, key=lambda n: len(found.timelines[n].event_code))
    line = found.timelines[leader]
    end = Told(last, PASS, 0, 1.0, int(line.place.max(initial=0)) + 1)
    found.timelines[leader] = line.with_events([end])
    return leader


def whole(run: Run) -> tuple[NDArray[np.int64], int]:
    """From the first call of an accelerator's API to the end of all device work, and the process with most of it."""
    seen = [(trace.api(), trace.device()) for trace in run.trace.processes]
    calls = [api for api, _ in seen if len(api)]
    if not calls:
        raise CutawayError(
            "Nothing is known of who launched the work of the device, so it cannot be replayed; record API calls, too."
        )
    works = [work for _, work in seen if len(work)]
    first = min(int(api["start"].min()) for api in calls)
    last = max(int(rows["end"].max()) for rows in [*calls, *works])
    process = int(np.argmax([len(api) for api, _ in seen]))
    return np.array([first, last]), process


_NO_ITERATIONS = "This run has no iterations to replay; call cutaway.iteration() once a pass of your training loop, and record again."


def _iterations(run: Run, on_devices: bool) -> tuple[NDArray[np.int64], int, float]:
    """When the iterations of the leading process began, which process that is, and steps of an iteration. The last one
    has no end that the program marked, so it is left out."""
    table = run.iterations()
    if any(process.past for process in run.trace.processes):
        kept = (
            "This run was recorded with --keep, which keeps totals only of what is old"
        )
        raise CutawayError(f"{kept}; record a few minutes without it to ask what if.")
    if not len(table) and on_devices:
        return *whole(run), 0.0
    if not len(table):
        raise CutawayError(_NO_ITERATIONS)
    process = int(np.bincount(table["process"].astype(np.int64)).argmax())
    own = table.where(process=process)
    marks = own["start_ns"].astype(np.int64)
    if len(marks) < 3:
        raise CutawayError(_NO_ITERATIONS)
    return marks, process, float(own["steps"][:-1].mean())


def _window(run: Run, marks: NDArray[np.int64], most: int) -> tuple[int, int]:
    """From the end of start-up on; of a long run as many iterations as have `most` events, in the middle."""
    events = int(run.swept.threads["events"].sum())
    if len(marks) == 2:
        return int(marks[0]), int(marks[1])
    share = min(1.0, most / max(events, 1))
    begun = int(np.searchsorted(marks, run.stages.steady_ns or 0))
    begun = min(max(1, begun), len(marks) - 3) if len(marks) > 3 else 1
    steady = len(marks) - 1 - begun
    count = max(2, int(steady * share))
    skipped = begun + (steady - count) // 2
    return int(marks[skipped]), int(marks[min(skipped + count, len(marks) - 1)])


def _stretches(
    timelines: list[Timeline], marks: NDArray[np.int64], first: int, last: int
) -> Iterator[tuple[int, int]]:
    """Iterations without a pause in any thread, as many as follow each other."""
    marks = marks[(marks >= first) & (marks <= last)]
    paused = np.concatenate([line.pauses for line in timelines])
    hit = np.zeros(len(marks) - 1, bool)
    for begin, end in paused.tolist():
        hit |= (marks[:-1] < end) & (marks[1:] > begin)
    whole = np.flatnonzero(
        np.diff(np.concatenate([[True], hit, [True]]).astype(np.int8))
    )
    for begin, end in whole.reshape(-1, 2).tolist():
        yield int(marks[begin]), int(marks[end])


def _segment(
    timelines: list[Timeline],
    shares: list[tuple[float, float, bool]],
    names: Names,
    edges: tuple[int, int],
    marks: NDArray[np.int64],
) -> Segment:
    inside = marks[(marks >= edges[0]) & (marks <= edges[1])]
    items = [
        _items(line, share, edges)
        for line, share in zip(timelines, shares, strict=True)
    ]
    return Segment(
        items,
        held(timelines, len(names.channels), edges),
        (np.diff(inside) / 1e9).tolist(),
    )


def _items(
    line: Timeline, share: tuple[float, float, bool], edges: tuple[int, int]
) -> Items:
    """The items of one thread between two instants, in order; work between two couplings is joined by key."""
    used, hidden, threaded = share
    own = (line.start < edges[1]) & (line.stop > edges[0]) & (line.code != TAKE)
    seconds = (np.minimum(line.stop, edges[1]) - np.maximum(line.start, edges[0]))[
        own
    ] / 1e9
    code, what, place = line.code[own], line.key[own], line.place[own]
    amount = np.where(code == RUN, seconds * used, seconds)
    gil = threaded & (code == RUN) & np.isin(line.layer[own], _GIL_LAYERS)
    code = np.where(gil, RUN_GIL, code)
    peeks = np.flatnonzero(code == PEEK)
    if len(peeks):
        event = np.searchsorted(line.event_place, line.peeked[own][peeks] * 3)
        what[peeks], amount[peeks] = line.event_what[event], line.event_amount[event]
    if hidden:
        busy = np.flatnonzero(code == RUN)
        code = np.concatenate([code, np.full(len(busy), DELAY)])
        what = np.concatenate([what, what[busy]])
        amount = np.concatenate([amount, seconds[busy] * hidden])
        place = np.concatenate([place, place[busy]])
    # An iteration ends with its mark, so the mark at the end belongs to it and the one at the start does not.
    ends = line.event_code == PASS
    event = (line.event_time >= edges[0]) & (line.event_time < edges[1]) & ~ends
    event |= ends & (line.event_time > edges[0]) & (line.event_time <= edges[1])
    code = np.concatenate([code, line.event_code[event]])
    what = np.concatenate([what, line.event_what[event]])
    amount = np.concatenate([amount, line.event_amount[event]])
    place = np.concatenate([place, line.event_place[event]])
    return _joined(code, what, amount, place)


def _joined(
    code: NDArray[Any], what: NDArray[Any], amount: NDArray[Any], place: NDArray[Any]
) -> Items:
    order = np.argsort(place, kind="stable")
    code, what, amount = code[order], what[order], amount[order]
    couples = code > RUN_GIL
    block = np.cumsum(couples)
    group = np.where(couples, -1, what * 2 + (code == RUN_GIL))
    # In the order in which they first appear: an overlap asks what came before what.
    both = np.stack([block, group], axis=1)
    _, appeared, inverse = np.unique(
        both, axis=0, return_index=True, return_inverse=True
    )
    first = appeared[inverse.reshape(-1)]
    order = np.argsort(first, kind="stable")
    code, what, amount, first = code[order], what[order], amount[order], first[order]
    new = np.ones(len(code), bool)
    new[1:] = first[1:] != first[:-1]
    starts = np.flatnonzero(new)
    amount = np.add.reduceat(amount, starts) if len(starts) else amount
    return in_turns(code[starts], what[starts], amount)
