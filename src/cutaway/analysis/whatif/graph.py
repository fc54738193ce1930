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
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.processes import meters
from cutaway.analysis.whatif.couplings import held, wake_up
from cutaway.analysis.whatif.items import (
    DELAY,
    GIVE,
    PASS,
    PEEK,
    RUN,
    RUN_GIL,
    TAKE,
    Items,
    in_turns,
)
from cutaway.errors import CutawayError
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace
from cutaway.vocabulary import THREAD_LAYERS, Kind

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

MOST_EVENTS = 2_000_000
_WAIT = THREAD_LAYERS.index("wait")
GIL_LAYERS = ("python", "native", "simulator")
_GIL_LAYERS = [THREAD_LAYERS.index(name) for name in GIL_LAYERS]
_WARM_UP = 3  # iterations
_LEAST_METERED = 1_000_000_000  # ns; meters are read ten times a second
_POLLS = ("select", "poll")
_WRITES = ("write", "send", "sendall", "sendto", "sendmsg")


class Key(NamedTuple):
    """Whose work it is: what changes and elasticities are about."""

    process: int
    thread: int
    operation: str
    layer: str


@dataclass(frozen=True)
class Thread:
    """A thread of the graph."""

    process: int
    name: str


@dataclass(frozen=True)
class Segment:
    """Some iterations that follow each other, of all threads, with what every channel held at the start."""

    items: list[Items]
    channels: list[float]
    seconds: list[float]  # of each iteration, as recorded

    @property
    def warm_up(self) -> int:
        """How many iterations at the start live on what the channels happened to hold; all, if there are few."""
        count = len(self.seconds)
        return max(_WARM_UP, count // 4) if count > 2 * _WARM_UP else count


@dataclass(frozen=True)
class Graph:
    """A run that can be replayed. `steps`: environment steps of an iteration."""

    threads: list[Thread]
    keys: list[Key]
    channels: list[str]
    segments: list[Segment]
    leader: int
    cores: int
    steps: float = 0.0
    notes: list[str] = field(default_factory=list)
    wake: float = 0.0  # seconds a thread loses when it wakes on a core that sleeps

    @property
    def seconds(self) -> NDArray[np.float64]:
        """The recorded iterations that count."""
        return self.settled([np.array(segment.seconds) for segment in self.segments])

    def settled(self, seconds: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Iterations of all segments without those that warm up; all of them, if nothing else is left."""
        warm_ups = [segment.warm_up for segment in self.segments]
        kept = [own[skipped:] for own, skipped in zip(seconds, warm_ups, strict=True)]
        return np.concatenate(kept if any(map(len, kept)) else seconds)

    @property
    def events(self) -> int:
        """How many items a replay works off."""
        items = chain.from_iterable(segment.items for segment in self.segments)
        return sum(map(len, items))


@dataclass
class _Names:
    """Numbers for keys and channels."""

    keys: dict[Key, int] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=dict)

    def key(self, key: Key) -> int:
        return self.keys.setdefault(key, len(self.keys))

    def channel(self, name: str) -> int:
        return self.channels.setdefault(name, len(self.channels))


@dataclass(frozen=True)
class Timeline:
    """One thread in the window: stretches of work and waits, and events, each with its place in the order of rows."""

    process: int
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    code: NDArray[
        np.uint8
    ]  # RUN, DELAY, TAKE (a wait that ends with something taken) or PEEK
    key: NDArray[np.int64]
    place: NDArray[np.int64]
    peeked: NDArray[np.int64]  # of a PEEK: the event it looks at
    layer: NDArray[np.uint8]
    event_time: NDArray[np.int64]
    event_code: NDArray[np.uint8]
    event_what: NDArray[np.int64]
    event_amount: NDArray[np.float64]
    event_place: NDArray[np.int64]
    pauses: NDArray[np.int64]  # pairs

    @property
    def busy(self) -> int:
        """Nanoseconds that were not waiting."""
        return int((self.stop - self.start)[self.code == RUN].sum())


def build(run: Run, most_events: int = MOST_EVENTS) -> Graph:
    """The graph of the steady iterations of a run, or of as many as fit."""
    if any(seen.works for seen in run.swept.seen):
        raise CutawayError(
            "This run used an accelerator, whose work is not replayed yet; `cutaway show RUN` says what limits it."
        )
    marks, process, steps = _iterations(run)
    first, last = _window(run, marks, most_events)
    names, leader = _Names(), -1
    timelines: list[Timeline] = []
    threads: list[Thread] = []
    ids: list[tuple[int, int]] = []  # process and tid of each
    for index, trace in enumerate(run.trace.processes):
        for thread in trace.threads:
            rows = _rows(trace, thread, first, last)
            if not len(rows):
                continue
            if (
                index == process
                and leader < 0
                and (rows["kind"] == Kind.ITERATION).sum() > 1
            ):
                leader = len(threads)
            info = trace.log.threads.get(thread)
            ids.append((index, info.tid if info else 0))
            timelines.append(
                _timeline(trace, index, len(threads), rows, names, (first, last))
            )
            threads.append(Thread(index, info.name if info else ""))
    if leader < 0:
        raise CutawayError(_NO_ITERATIONS)
    shares, notes = _shares(run, timelines, ids, (first, last))
    segments = [
        _segment(timelines, shares, names, edges, marks)
        for edges in _stretches(timelines, marks, first, last)
    ]
    segments = [segment for segment in segments if segment.seconds]
    if not segments:
        raise CutawayError(
            "No iteration of this run was recorded whole; record it for longer, with --calibrate-share 0."
        )
    cores = int(run.trace.about.get("cpus") or 1)
    wake = wake_up(timelines)
    return Graph(
        threads,
        list(names.keys),
        list(names.channels),
        segments,
        leader,
        cores,
        steps,
        notes,
        wake,
    )


_NO_ITERATIONS = "This run has no iterations to replay; call cutaway.iteration() once a pass of your training loop, and record again."


def _iterations(run: Run) -> tuple[NDArray[np.int64], int, float]:
    """When the iterations of the leading process began, which process that is, and steps of an iteration. The last one
    has no end that the program marked, so it is left out."""
    table = run.iterations()
    if any(process.past for process in run.trace.processes):
        kept = (
            "This run was recorded with --keep, which keeps totals only of what is old"
        )
        raise CutawayError(f"{kept}; record a few minutes without it to ask what if.")
    if not len(table):
        raise CutawayError(_NO_ITERATIONS)
    process = int(np.bincount(table["process"].astype(np.int64)).argmax())
    own = table.where(process=process)
    marks = own["start_ns"].astype(np.int64)
    if len(marks) < 3:
        raise CutawayError(_NO_ITERATIONS)
    return marks, process, float(own["steps"][:-1].mean())


def _window(run: Run, marks: NDArray[np.int64], most: int) -> tuple[int, int]:
    """From the second iteration on; of a long run as many as have `most` events, in the middle."""
    events = int(run.swept.threads["events"].sum())
    share = min(1.0, most / max(events, 1))
    count = max(2, int((len(marks) - 2) * share))
    skipped = 1 + (len(marks) - 2 - count) // 2
    return int(marks[skipped]), int(marks[min(skipped + count, len(marks) - 1)])


def _rows(trace: ProcessTrace, thread: int, first: int, last: int) -> fmt.Structured:
    found = []
    for block in trace.events(thread, since=first):
        found.append(block[block["time"] <= last])
        if len(block) and block["time"][-1] > last:
            break
    return np.concatenate(found) if found else np.zeros(0, fmt.EVENT_DTYPE)


def _timeline(
    trace: ProcessTrace,
    process: int,
    thread: int,
    rows: fmt.Structured,
    names: _Names,
    window: tuple[int, int],
) -> Timeline:
    time, end = rows["time"].astype(np.int64), rows["end"].astype(np.int64)
    following = np.append(time[1:], window[1] if rows["flags"][-1] & 1 else end[-1])
    n = len(rows)
    place = np.arange(n) * 3
    start = np.concatenate([time, end])
    stop = np.concatenate([end, np.maximum(following, end)])
    layer = np.concatenate([rows["layer"], rows["after"]])
    recorded = np.tile((rows["flags"] & 1).astype(bool), 2)
    operation = np.tile(rows["operation"], 2)
    row = np.tile(np.arange(n), 2)
    places = np.concatenate([place + 1, place + 2])
    keep = (stop > start) & recorded & (start < window[1]) & (stop > window[0])
    start, stop, layer, operation, row, places = (
        column[keep] for column in (start, stop, layer, operation, row, places)
    )
    code, peeked = _waits(trace, rows, row, layer)
    key = _keys(names, trace, process, thread, operation, layer)
    events = _events(trace, rows, names)
    return Timeline(
        process,
        start,
        stop,
        code,
        key,
        places,
        peeked,
        layer,
        *events,
        pauses(rows, window),
    )


def _waits(
    trace: ProcessTrace, rows: fmt.Structured, row: NDArray[Any], layer: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """What becomes of each stretch, and for a poll the row of what was taken after it."""
    code = np.full(len(row), RUN, np.uint8)
    peeked = np.full(len(row), -1, np.int64)
    takes = np.flatnonzero(rows["kind"] == Kind.TAKE)
    waits = np.flatnonzero(layer == _WAIT)
    at = row[waits]
    nexts = np.minimum(at + 1, len(rows) - 1)
    taken = (rows["kind"][nexts] == Kind.TAKE) & (nexts > at)
    calls = {
        id: call.fn.rpartition(".")[2]
        for id, call in trace.log.calls.items()
        if call.layer == "wait"
    }
    function = np.array(
        [calls.get(id, "") for id in rows["id"][at].tolist()], dtype=object
    )
    is_poll, is_write = np.isin(function, _POLLS), np.isin(function, _WRITES)
    code[waits] = np.where(is_write, RUN, np.where(taken, TAKE, DELAY))
    position = np.searchsorted(takes, at + 1)
    found = is_poll & ~taken & (position < len(takes))
    then = (
        takes[np.minimum(position, max(len(takes) - 1, 0))]
        if len(takes)
        else np.zeros(len(at), np.int64)
    )
    soon = found & (then - at < 8)
    code[waits[soon]] = PEEK
    peeked[waits[soon]] = then[soon]
    return code, peeked


def _keys(
    names: _Names,
    trace: ProcessTrace,
    process: int,
    thread: int,
    operation: NDArray[Any],
    layer: NDArray[Any],
) -> NDArray[np.int64]:
    both = operation.astype(np.int64) << 8 | layer
    distinct, inverse = np.unique(both, return_inverse=True)
    numbers = [
        names.key(
            Key(
                process, thread, trace.log.name(value >> 8), THREAD_LAYERS[value & 0xFF]
            )
        )
        for value in distinct.tolist()
    ]
    return np.array(numbers, np.int64)[inverse] if numbers else np.zeros(0, np.int64)


def _events(
    trace: ProcessTrace, rows: fmt.Structured, names: _Names
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Time, code, channel, amount and place of what couples this thread to others."""
    logged = {int(e["id"]): e for e in trace.log.others if e["k"] == "channel"}
    kinds = {Kind.FEED: GIVE, Kind.TAKE: TAKE, Kind.ITERATION: PASS}
    at = np.flatnonzero(np.isin(rows["kind"], list(kinds)))
    kind = rows["kind"][at]
    code = np.array([kinds[k] for k in kind.tolist()], np.uint8)
    distinct, inverse = np.unique(
        rows["id"][at].astype(np.int64) << 8 | kind, return_inverse=True
    )
    numbers = []
    for value in distinct.tolist():
        entry = logged.get(value >> 8, {})
        on = str(entry.get("on") or f"channel {value >> 8} of {trace.pid}")
        name = str(entry.get("peer") or on) if value & 0xFF == Kind.TAKE else on
        numbers.append(
            0
            if value & 0xFF == Kind.ITERATION
            else names.channel(f"{trace.host} {name}")
        )
    what = np.array(numbers, np.int64)[inverse] if numbers else np.zeros(0, np.int64)
    return (
        rows["time"][at].astype(np.int64),
        code,
        what,
        rows["value"][at].astype(np.float64),
        at * 3,
    )


def pauses(rows: fmt.Structured, window: tuple[int, int]) -> NDArray[np.int64]:
    """Begin and end of each pause; one that reaches beyond the window lasts to its edge."""
    begins = rows["time"][rows["kind"] == Kind.PAUSE].astype(np.int64)
    ends = rows["time"][rows["kind"] == Kind.RESUME].astype(np.int64)
    if len(ends) and (not len(begins) or ends[0] < begins[0]):
        begins = np.concatenate([[window[0]], begins])
    if len(begins) > len(ends):
        ends = np.concatenate([ends, [window[1]]])
    return np.stack([begins, ends], axis=1)


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


def _shares(
    run: Run,
    timelines: list[Timeline],
    ids: list[tuple[int, int]],
    window: tuple[int, int],
) -> tuple[list[tuple[float, float, bool]], list[str]]:
    """For each thread: how much of its busy time was CPU time, how much was blocked in a way nobody saw, and whether it
    competes for an interpreter lock; and what had to be assumed."""
    length = window[1] - window[0]
    metered = meters(run.trace, window) if length >= _LEAST_METERED else []
    pairs = chain.from_iterable(process.values() for process in metered)
    own = sum(cpu for cpu, _ in pairs) / length
    foreign = _foreign(run, window)
    outside = foreign / (foreign + own) if foreign + own > 0 else 0.0
    rivals = np.bincount(
        [line.process for line in timelines if line.busy > 0.01 * length], minlength=1
    )
    shares = []
    for line, (process, tid) in zip(timelines, ids, strict=True):
        threaded = bool(line.process < len(rivals) and rivals[line.process] > 1)
        cpu, queued = metered[process].get(tid, (0, 0)) if metered else (0, 0)
        if not cpu or line.busy < 0.02 * length:
            shares.append((1.0, 0.0, threaded))
            continue
        used = min(1.0, (cpu + outside * queued) / line.busy)
        hidden = 0.0 if threaded else max(0.0, 1 - (cpu + queued) / line.busy)
        shares.append((used, hidden if hidden > 0.02 else 0.0, threaded))
    notes = []
    if foreign > 0.1:
        notes.append(
            f"other programs used {foreign:.1f} cores meanwhile: how they slowed it is kept as recorded"
        )
    return shares, notes


def _foreign(run: Run, window: tuple[int, int]) -> float:
    found = []
    for sample in chain.from_iterable(p.log.samples for p in run.trace.processes):
        if window[0] <= (sample.get("t") or 0) <= window[1]:
            found.append(float(sample.get("foreign") or 0.0))
    return float(np.mean(found)) if found else 0.0


def _segment(
    timelines: list[Timeline],
    shares: list[tuple[float, float, bool]],
    names: _Names,
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
