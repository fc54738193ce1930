"""Device work in a graph: it hangs on its launches, and threads wait for it where they synchronise.

A stream is a thread that needs no core. Each piece of its work waits for its launch, for what stands before it in the stream, and
for the work of another stream if it began when that ended. A gap that nothing explains stays as long as it was. A synchronising
call waits for the last work that ended while it ran. A collective begins when all devices have reached it. No thread runs further
ahead of a stream than it was seen to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.graph import Key
from cutaway.analysis.whatif.items import DELAY, GIVE, RUN, TAKE
from cutaway.analysis.whatif.timeline import Names, Timeline, Told
from cutaway.trace.process import ProcessTrace
from cutaway.vocabulary import (
    ACCELERATOR_API,
    API_SYNC,
    DEVICE_LAYERS,
    THREAD_LAYERS,
    DeviceKind,
)

_TOGETHER = 10_000  # ns: work that begins so soon after other work ended waited for it
_COLLECTIVE = "collective"
_DO_NOT_WAIT = ("Query", "WaitEvent")
_API = THREAD_LAYERS.index(ACCELERATOR_API)

Stream = tuple[int, int, int]
"""A process, a device and the number of a stream."""


class Event(NamedTuple):
    """What a thread gives or takes at a moment."""

    time: int
    code: int
    channel: int


@dataclass
class Work:
    """A piece of device work. `launched`: when; 0: before the recording. `call`: the thread and the number of the call that launched
    it. `since`: when the work of another stream that it follows ended."""

    start: int
    end: int
    layer: str
    name: str
    stream: Stream
    correlation: int
    operation: str = ""
    launched: int = 0
    call: tuple[int, int] = (-1, -1)
    since: int = 0
    rivals: list[Work] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)  # channels
    gives: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Nanoseconds of its own: of a collective what is left when all have come."""
        return min(one.end - one.start for one in [self, *self.rivals])


@dataclass(frozen=True)
class Calls:
    """The outermost calls of the accelerator's API of one thread, in order; `place`: in which of them a correlation id is."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    waits: NDArray[np.bool_]
    place: dict[int, int]


def calls_of(trace: ProcessTrace, api: NDArray[Any]) -> Calls:
    """A runtime call that makes a driver call is one. One that asks, or has a stream wait, does not wait itself."""
    distinct = np.unique(api["name"]).tolist()
    idle = [
        id for id in distinct if any(one in trace.log.name(id) for one in _DO_NOT_WAIT)
    ]
    waiting = ((api["flags"] & API_SYNC) > 0) & ~np.isin(api["name"], idle)
    start, end = api["start"].astype(np.int64), api["end"].astype(np.int64)
    reach = np.maximum.accumulate(np.concatenate([[-1], end[:-1]]))
    first = np.flatnonzero(start >= reach)
    inside = np.searchsorted(first, np.arange(len(start)), "right") - 1
    waits = np.zeros(len(first), bool)
    np.logical_or.at(waits, inside, waiting)
    ends = end[first].copy()
    np.maximum.at(ends, inside, end)
    place = dict(zip(api["correlation"].tolist(), inside.tolist(), strict=True))
    return Calls(start[first], ends, waits, place)


class Devices:
    """The devices of all processes, as threads of the graph."""

    def __init__(self, names: Names, window: tuple[int, int]) -> None:
        self.names, self.window = names, window
        self.works: list[Work] = []

    def channel(self, what: str) -> int:
        """A new one."""
        return self.names.channel(f"device: {what} {len(self.names.channels)}")

    def process(
        self, index: int, trace: ProcessTrace, lines: dict[int, Timeline]
    ) -> dict[int, Timeline]:
        """Takes in a process. Its threads, by tid, come back cut where they launched something or waited for it."""
        api = _within(trace.api(), self.window)
        rows = _within(trace.device(), self.window)
        rows = rows[rows["kind"] <= DeviceKind.COLLECTIVE]
        works = [_work(index, trace, row) for row in rows]
        own = [(tid, calls_of(trace, api[api["os_thread"] == tid])) for tid in lines]
        own = [(tid, calls) for tid, calls in own if len(calls.start)]
        events: dict[int, list[Event]] = {tid: [] for tid, _ in own}
        for tid, calls in own:
            mine = [work for work in works if work.correlation in calls.place]
            self._launch(lines[tid], (tid, calls), mine, events[tid])
        self.works += works
        works = sorted(works, key=lambda work: work.end)
        cut = {}
        for tid, calls in own:
            gone = self._wait((tid, calls), works, events[tid])
            told = sorted(events[tid], key=lambda event: event.time)
            cut[tid] = _cut(self.names, lines[tid], calls, gone, told)
        return cut

    def _launch(
        self,
        line: Timeline,
        owner: tuple[int, Calls],
        works: list[Work],
        events: list[Event],
    ) -> None:
        """One gift for each stream that a call has work in: its first work there takes it."""
        tid, calls = owner
        order = np.argsort(line.start, kind="stable")
        begins, keys = line.start[order], [*self.names.keys]
        seen: set[tuple[int, Stream]] = set()
        for work in works:  # in order of their start
            call = calls.place[work.correlation]
            start, end = int(calls.start[call]), int(calls.end[call])
            at = int(np.searchsorted(begins, start, "right")) - 1
            work.operation = keys[int(line.key[order[at]])].operation if at >= 0 else ""
            work.launched = max(start, min(end, work.start))
            work.call = (tid, call)
            if (call, work.stream) not in seen:
                seen.add((call, work.stream))
                channel = self.channel("launch")
                work.takes.append(channel)
                room = self.names.channel(f"device: room in {work.stream}")
                work.gives.append(room)
                events.append(Event(work.launched, TAKE, room))
                events.append(Event(work.launched, GIVE, channel))

    def _wait(
        self, owner: tuple[int, Calls], works: list[Work], events: list[Event]
    ) -> list[tuple[int, int]]:
        """Where the thread waited for work (in order of its end), which a replay decides anew."""
        tid, calls = owner
        ends = np.array([work.end for work in works], np.int64)
        lasts = np.searchsorted(ends, calls.end, "right") - 1
        gone = []
        for call, last in enumerate(lasts.tolist()):
            if last < 0:
                continue
            work = works[last]
            copies = work.call == (tid, call)  # and returns when that is done
            if not copies and not calls.waits[call]:
                continue
            channel = self.channel("done")
            work.gives.append(channel)
            begin = max(int(calls.start[call]), work.launched if copies else 0)
            events.append(Event(max(begin, work.end), TAKE, channel))
            if work.end > begin:
                gone.append((begin, work.end))
        return gone

    def streams(self, process: int, thread: int) -> list[tuple[str, Timeline]]:
        """A timeline for each stream, and what it is called. `process` and `thread` are the first numbers that are free."""
        by_stream: dict[Stream, list[Work]] = {}
        for work in sorted(self.works, key=lambda work: work.start):
            by_stream.setdefault(work.stream, []).append(work)
        _meet(by_stream)
        self._follow(by_stream)
        found = []
        for number, (stream, works) in enumerate(sorted(by_stream.items())):
            line = self._stream(works, process + number, thread + number)
            found.append((f"device {stream[1]}, stream {stream[2]}", line))
        return found

    def _follow(self, by_stream: dict[Stream, list[Work]]) -> None:
        """Work that begins when that of another stream of its process has just ended."""
        works = sorted(self.works, key=lambda work: work.end)
        ends = np.array([work.end for work in works], np.int64)
        for stream, own in by_stream.items():
            ready = 0
            for work in own:
                last = int(np.searchsorted(ends, work.start, "right")) - 1
                earliest = max(ready, work.launched, work.start - _TOGETHER)
                while last >= 0 and ends[last] > earliest:
                    other = works[last]
                    if other.stream[0] == stream[0] and other.stream != stream:
                        channel = self.channel("followed")
                        other.gives.append(channel)
                        work.takes.append(channel)
                        work.since = other.end
                        break
                    last -= 1
                ready = work.end

    def _stream(self, works: list[Work], process: int, thread: int) -> Timeline:
        """For each piece of work: what it waits for, a gap, who it meets, the work, and who waits for it."""
        rows: list[tuple[int, int, int, int]] = []  # start, stop, key, place
        events: list[tuple[Event, int]] = []
        gap = self.names.key(Key(process, thread, "", "wait"))
        before = self.window[0]
        for place, work in enumerate(works):
            key = Key(process, thread, work.operation, work.layer, work.name)
            ready = max(before, work.launched, work.since)
            events += [(Event(ready, TAKE, one), 3 * place) for one in work.takes]
            if work.start > ready:
                rows.append((ready, work.start, gap, 3 * place + 1))
            events += [(event, 3 * place + 1) for event in self._meeting(work)]
            done = (work.end - work.length, work.end)
            rows.append((*done, self.names.key(key), 3 * place + 2))
            events += [(Event(work.end, GIVE, one), 3 * place + 2) for one in work.gives]  # fmt: skip
            before = max(before, work.end)
        return _timeline(process, rows, events)

    def _meeting(self, work: Work) -> Iterable[Event]:
        """Devices tell each other that they are there."""
        for other in work.rivals:
            yield Event(work.start, GIVE, self.names.channel(_met(work, other)))
        for other in work.rivals:
            moment = max(work.start, other.start)
            yield Event(moment, TAKE, self.names.channel(_met(other, work)))


def _met(one: Work, other: Work) -> str:
    return f"device: {one.stream} meets {other.stream} at {one.start}"


def _within(rows: NDArray[Any], window: tuple[int, int]) -> NDArray[Any]:
    return rows[(rows["start"] >= window[0]) & (rows["end"] <= window[1])]


def _work(index: int, trace: ProcessTrace, row: Any) -> Work:
    return Work(
        int(row["start"]),
        int(row["end"]),
        DEVICE_LAYERS[int(row["kind"])],
        trace.log.name(int(row["name"])),
        (index, int(row["device"]), int(row["stream"])),
        int(row["correlation"]),
    )


def _meet(by_stream: dict[Stream, list[Work]]) -> None:
    """The n-th collective of each device is one and the same, if all have as many."""
    devices: dict[tuple[int, int], list[Work]] = {}
    for (process, device, _), works in by_stream.items():
        own = devices.setdefault((process, device), [])
        own += [work for work in works if work.layer == _COLLECTIVE]
    rows = [sorted(own, key=lambda work: work.start) for own in devices.values() if own]
    if len({len(row) for row in rows}) == 1:
        for met in zip(*rows, strict=True):
            for work in met:
                work.rivals = [other for other in met if other is not work]


def _timeline(
    process: int,
    rows: list[tuple[int, int, int, int]],
    events: list[tuple[Event, int]],
) -> Timeline:
    """Of a stream: all of it is a delay, for it needs no core."""
    start, stop, key, place = np.array(rows, np.int64).reshape(-1, 4).T
    told = [(*event, at) for event, at in events]
    time, code, channel, at = np.array(told, np.int64).reshape(-1, 4).T
    return Timeline(
        process,
        start,
        stop,
        np.full(len(start), DELAY, np.uint8),
        key,
        place,
        np.full(len(start), -1),
        np.zeros(len(start), np.uint8),
        np.zeros(len(start), np.int64),
        time,
        code.astype(np.uint8),
        channel,
        np.ones(len(time)),
        at,
        np.zeros((0, 2), np.int64),
    )


def nothing(
    process: int, thread: int, names: Names, window: tuple[int, int]
) -> Timeline:
    """A thread of which only the calls of the accelerator's API are known: it computes all the time."""
    key = names.key(Key(process, thread, "", "python"))
    line = _timeline(process, [(*window, key, 0)], [])
    line.code[:] = RUN
    return line


def _cut(
    names: Names,
    line: Timeline,
    calls: Calls,
    gone: list[tuple[int, int]],
    events: list[Event],
) -> Timeline:
    """The thread cut at its calls, launches and waits; a call is work in the layer of the API, what is `gone` is left out."""
    order = np.argsort(line.start, kind="stable")
    start, stop = line.start[order], line.stop[order]
    away = np.array(gone, np.int64).reshape(-1, 2)
    moments = np.array([event.time for event in events], np.int64)
    edges = (start, stop, calls.start, calls.end, away.reshape(-1), moments)
    bounds = np.unique(np.concatenate(edges))
    begin, end = bounds[:-1], bounds[1:]
    at = np.searchsorted(start, begin, "right") - 1
    known = (at >= 0) & (begin < stop[np.maximum(at, 0)])
    known &= ~_covered(begin, away[:, 0], away[:, 1])
    begin, end, at = begin[known], end[known], order[at[known]]
    in_api = _covered(begin, calls.start, calls.end)
    code = np.where(in_api | (line.code[at] == RUN), RUN, DELAY).astype(np.uint8)
    key = np.where(in_api, _api_keys(names, line.key)[at], line.key[at])
    layer = np.where(in_api, _API, line.layer[at]).astype(np.uint8)
    cut = replace(
        line,
        start=begin,
        stop=end,
        code=code,
        key=key,
        place=2 * np.arange(len(begin)),
        peeked=np.full(len(begin), -1),
        layer=layer,
        call=np.zeros(len(begin), np.int64),
        event_place=2 * np.searchsorted(begin, line.event_time, "left") - 1,
    )
    places = (2 * np.searchsorted(begin, moments, "left") - 1).tolist()
    told = [Told(*event, 1.0, at) for event, at in zip(events, places, strict=True)]
    return cut.with_events(told) if told else cut


def _covered(
    at: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether an instant lies in one of some intervals that do not overlap."""
    if not len(start):
        return np.zeros(len(at), bool)
    order = np.argsort(start, kind="stable")
    found = np.searchsorted(start[order], at, "right") - 1
    inside = (found >= 0) & (at < stop[order][np.maximum(found, 0)])
    return np.asarray(inside)


def _api_keys(names: Names, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The keys of the same operations in the layer of the API."""
    known = [*names.keys]
    distinct, inverse = np.unique(keys, return_inverse=True)
    made = [
        names.key(known[number]._replace(layer=ACCELERATOR_API))
        for number in distinct.tolist()
    ]
    return np.array(made, np.int64)[inverse] if made else keys
