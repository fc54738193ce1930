"""What threads gave to each other: what every channel held at the start, and how long a thread takes to wake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.items import GIVE, PASS, PEEK, TAKE

if TYPE_CHECKING:
    from cutaway.analysis.whatif.timeline import Timeline

_LONGEST_WAKE = (
    1_000_000  # ns; whoever takes longer was not waiting for its core to wake
)
_LEAST_WAKES = 20


def held(
    timelines: list[Timeline], channels: int, edges: tuple[int, int]
) -> list[float]:
    """What every channel must have held at the start for all that was taken to have been there."""
    columns = []
    for line in timelines:
        inside = (
            (line.event_time >= edges[0])
            & (line.event_time < edges[1])
            & (line.event_code != PASS)
        )
        sign = np.where(line.event_code == GIVE, 1.0, -1.0)
        columns.append(
            np.stack(
                [line.event_time, line.event_what, sign * line.event_amount, -sign]
            )[:, inside]
        )
    time, what, change, later = np.concatenate([np.zeros((4, 0)), *columns], axis=1)
    order = np.lexsort((later, time, what))
    what, change = what[order], change[order]
    found = [0.0] * channels
    bounds = np.flatnonzero(np.diff(np.concatenate([[-1.0], what, [-1.0]])))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        lowest = float(np.cumsum(change[begin:end]).min(initial=0.0))
        found[int(what[begin])] = max(0.0, -lowest)
    return found


def wake_up(timelines: list[Timeline]) -> float:
    """Seconds from the moment something is given until who waited for it runs: the fastest quarter, where nobody
    stood in the way. 0: too few waits to tell."""
    latency = np.zeros(0)
    for ended in endings(timelines, (TAKE,)):
        latency = np.concatenate([latency, (ended.stop - ended.moment).astype(float)])
    latency = latency[(latency > 0) & (latency < _LONGEST_WAKE)]
    return (
        float(np.percentile(latency, 25)) / 1e9 if len(latency) >= _LEAST_WAKES else 0.0
    )


class Endings(NamedTuple):
    """Of the waits of a thread that somebody was seen to end: when they were over, when the last thing they waited for was given, and
    which thread gave it."""

    stop: NDArray[np.int64]
    moment: NDArray[np.int64]
    giver: NDArray[np.int64]


def endings(timelines: list[Timeline], codes: Sequence[int]) -> list[Endings]:
    """For each thread. `codes`: which waits count, TAKE or PEEK."""
    parts = []
    for number, line in enumerate(timelines):
        gives = line.event_code == GIVE
        givers = np.full(int(gives.sum()), number)
        parts.append(np.stack([line.event_what[gives], line.event_time[gives], givers]))
    given = np.concatenate([np.zeros((3, 0), np.int64), *parts], axis=1)
    given = given[:, np.lexsort((given[1], given[0]))]
    return [_endings(line, given, codes) for line in timelines]


def _endings(line: Timeline, given: NDArray[np.int64], codes: Sequence[int]) -> Endings:
    """Where it was last given during the wait."""
    waits = np.flatnonzero(np.isin(line.code, codes))
    place = np.where(line.code == PEEK, line.peeked * 3, line.place)[waits]
    event = np.searchsorted(line.event_place, place)
    known = event < len(line.event_place)
    waits, event = waits[known], event[known]
    if not given.size:
        waits, event = waits[:0], event[:0]
    # Channel and time in one number, so that one search finds the last gift before the end of each wait.
    origin = int(given[1].min()) if given.size else 0
    order = (given[0] << 44) | (given[1] - origin)
    wanted = (line.event_what[event] << 44) | np.maximum(line.stop[waits] - origin, 0)
    last = np.searchsorted(order, wanted, "right") - 1
    fits = last >= 0
    fits[fits] &= given[0][last[fits]] == line.event_what[event[fits]]
    waits, last = waits[fits], last[fits]
    during = given[1][last] >= line.start[waits]
    waits, last = waits[during], last[during]
    return Endings(line.stop[waits], given[1][last], given[2][last])
