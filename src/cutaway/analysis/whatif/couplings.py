"""What threads gave to each other: what every channel held at the start, and how long a thread takes to wake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.items import GIVE, PASS, TAKE

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
    given = _column(timelines, GIVE)
    found = [_latencies(line, given) for line in timelines]
    latency = np.concatenate([np.zeros(0), *found])
    latency = latency[(latency > 0) & (latency < _LONGEST_WAKE)]
    return (
        float(np.percentile(latency, 25)) / 1e9 if len(latency) >= _LEAST_WAKES else 0.0
    )


def _column(timelines: list[Timeline], code: int) -> NDArray[np.int64]:
    """Channel and time of all events of a kind, in that order."""
    parts = [
        np.stack([line.event_what, line.event_time])[:, line.event_code == code]
        for line in timelines
    ]
    both = np.concatenate([np.zeros((2, 0), np.int64), *parts], axis=1)
    return both[:, np.lexsort((both[1], both[0]))]


def _latencies(line: Timeline, given: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each wait that ended with something taken: the time since it was last given, if that was during the wait."""
    waits = np.flatnonzero(line.code == TAKE)
    event = np.searchsorted(line.event_place, line.place[waits])
    known = event < len(line.event_place)
    waits, event = waits[known], event[known]
    # Channel and time in one number, so that one search finds the last gift before the end of each wait.
    origin = int(given[1].min()) if given.size else 0
    order = (given[0] << 44) | (given[1] - origin)
    wanted = (line.event_what[event] << 44) | np.maximum(line.stop[waits] - origin, 0)
    last = np.searchsorted(order, wanted) - 1
    fits = last >= 0
    fits[fits] &= given[0][last[fits]] == line.event_what[event[fits]]
    moment = (
        given[1][np.maximum(last, 0)] if given.size else np.zeros(len(last), np.int64)
    )
    during = fits & (moment >= line.start[waits])
    return (line.stop[waits] - moment)[during].astype(np.float64)
