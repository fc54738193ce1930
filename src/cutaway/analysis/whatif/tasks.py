"""Tasks of Ray: who hands them over and who waits for them, from the waits alone.

Ray's own messages are not recorded. But a worker is idle between two tasks, and who wants a result waits for the worker by name. So
the end of an idle time is a task that was taken, and its beginning one that is done. The task was given when whoever waits for this
worker began to wait, or at the end of what it did just then. What the message took stays a delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.items import DELAY, GIVE, TAKE
from cutaway.analysis.whatif.timeline import Names, Timeline, Told
from cutaway.trace.reader import ProcessTrace
from cutaway.vocabulary import THREAD_LAYERS

IDLE = "ray: wait for a task"
_WAIT = THREAD_LAYERS.index("wait")
_AFTER = 2  # the place of what follows an event in its row
_GETS = ("ray.get", "ray.wait")


@dataclass
class _Added:
    """What one thread gives and takes beside what was recorded, and waits that are shorter."""

    events: list[Told] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)


def coupled(
    processes: Sequence[ProcessTrace], timelines: list[Timeline], names: Names
) -> list[Timeline]:
    """The timelines, with tasks as couplings where Ray's workers are among them."""
    idles = {
        n: idle
        for n, line in enumerate(timelines)
        if len(idle := _idle(processes[line.process], line))
    }
    if not idles:
        return timelines
    waits = [_waits(processes[line.process], line) for line in timelines]
    added = [_Added() for _ in timelines]
    for worker, idle in idles.items():
        own = {on for on, _ in processes[timelines[worker].process].log.feeds}
        asked = [[at for at, on in rows if own & on] for rows in waits]
        asker = max(range(len(asked)), key=lambda number: len(asked[number]))
        if asked[asker] and asker != worker:
            _couple(timelines, (worker, idle), (asker, asked[asker]), added, names)
    return [_with(line, more) for line, more in zip(timelines, added, strict=True)]


def _idle(process: ProcessTrace, line: Timeline) -> NDArray[np.intp]:
    """Where a worker had no task: what is left of the loop that runs tasks."""
    if not any(call.fn == IDLE for call in process.log.calls.values()):
        return np.zeros(0, np.intp)
    return np.flatnonzero((line.layer == _WAIT) & (line.place % 3 == _AFTER))


def _waits(process: ProcessTrace, line: Timeline) -> list[tuple[int, set[str]]]:
    """Waits for results, and for whose: a list of actors is cut into single ones."""
    found = []
    for at in np.flatnonzero((line.layer == _WAIT) & (line.call > 0)).tolist():
        call = process.log.calls.get(int(line.call[at]))
        if call and call.fn in _GETS:
            kind, _, whose = call.on.partition(":")
            found.append((at, {f"{kind}:{one}" for one in whose.split(",")}))
    return found


def _couple(
    timelines: list[Timeline],
    worker: tuple[int, NDArray[np.intp]],
    asker: tuple[int, list[int]],
    added: list[_Added],
    names: Names,
) -> None:
    """Two channels: tasks that were given, and those that are done."""
    (number, idle), (by, waits) = worker, asker
    line, other = timelines[number], timelines[by]
    given, done = (names.channel(f"ray: {what} {number}") for what in ("task", "done"))
    for at in idle.tolist():
        start, stop, place = (
            int(line.start[at]),
            int(line.stop[at]),
            int(line.place[at]) - 1,
        )
        moment, there = _sent(other, stop)
        added[number].events += [
            Told(start, GIVE, done, 1.0, place),
            Told(stop, TAKE, given, 1.0, place),
        ]
        added[by].events.append(Told(moment, GIVE, given, 1.0, there))
        _shorten(added[number], at, max(start, moment))
    ends = line.start[idle]
    taken = 0
    for at in waits:
        until = int(np.searchsorted(ends, other.stop[at], "right"))
        if until > taken:
            event = Told(
                int(other.stop[at]),
                TAKE,
                done,
                float(until - taken),
                int(other.place[at]) - 1,
            )
            added[by].events.append(event)
            _shorten(added[by], at, int(ends[until - 1]))
            taken = until


def _sent(line: Timeline, before: int) -> tuple[int, int]:
    """When a thread gave a task that was taken then, and the place of that: before the wait it was in, or after what it did."""
    at = int(np.argmax(np.where(line.start <= before, line.start, -1)))
    if line.layer[at] == _WAIT:
        return int(line.start[at]), int(line.place[at]) - 1
    return min(before, int(line.stop[at])), int(line.place[at])


def _shorten(added: _Added, at: int, start: int) -> None:
    """A wait that ends by somebody lasts from the moment that somebody was ready: that is what the message took."""
    added.starts[at] = max(added.starts.get(at, 0), start)


def _with(line: Timeline, more: _Added) -> Timeline:
    if not more.events:
        return line
    start, code = line.start.copy(), line.code.copy()
    for at, moment in more.starts.items():
        start[at] = min(max(moment, int(start[at])), int(line.stop[at]))
        code[at] = DELAY
    shorter = replace(line, start=start, code=code)
    return shorter.with_events(
        sorted(more.events, key=lambda event: (event.place, event.code))
    )
