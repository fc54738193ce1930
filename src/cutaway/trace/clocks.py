"""Chooses the points through which times of other clocks are mapped to CLOCK_MONOTONIC, and one clock for a run of several hosts.

Between two anchors the time runs evenly; outside them it goes on at the average rate of all. The mapping itself is
native/sweep/clock.h.

Every host counts CLOCK_MONOTONIC from its own boot. The wall clocks in the anchors say roughly how far two hosts lie apart.
Their connections say it better: what one end has received or acknowledged, the other end has sent before. The log holds
how far each connection had got at many moments (`link` lines), so each pair of moments may bound the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway import _sweep
from cutaway.trace.log import Anchor, Link, Log
from cutaway.vocabulary import Clock

SHIFT = 40  # binary digits behind the point of a rate, which is a fixed-point number

_COLUMN = {
    Clock.TICKS: 3,
    Clock.MONOTONIC: 0,
    Clock.REALTIME: 1,
    Clock.MONOTONIC_RAW: 2,
}
_SLACK = 2  # bytes by which counters may differ for the same data: the ends of a connection count as one byte each
_FAR = 1 << 62


@dataclass(frozen=True)
class ClockMap:
    """Anchors of one foreign clock: (its time, monotonic time, rate from there on).

    >>> map = ClockMap.through([(0, 1000), (10, 1020), (20, 1060)])
    >>> map.apply([0, 5, 10, 15, 20]).tolist()
    [1000, 1010, 1020, 1040, 1060]
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    rate: tuple[int, ...]
    before: int

    @staticmethod
    def through(points: Iterable[tuple[int, int]]) -> ClockMap:
        """The map through these points; points at which a clock goes back are left out."""
        kept: list[tuple[int, int]] = []
        fine = (p for p in points if min(p) >= 0 and max(p) < 1 << 63)
        for point in sorted(fine, key=lambda p: (p[1], p[0])):
            if not kept or (point[0] > kept[-1][0] and point[1] >= kept[-1][1]):
                kept.append(point)
        if not kept:
            return ClockMap((0,), (0,), (1 << SHIFT,), 1 << SHIFT)
        if len(kept) > 1:
            average = _rate(kept[0], kept[-1])
        else:
            average = 1 << SHIFT
        source, target = zip(*kept, strict=True)
        return ClockMap(
            source,
            target,
            (*(_rate(a, b) for a, b in pairwise(kept)), average),
            average,
        )

    def columns(
        self,
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], int]:
        """The map in the form the native code takes."""
        arrays = (np.array(c, np.uint64) for c in (self.source, self.target, self.rate))
        return (*arrays, self.before)  # type: ignore[return-value]

    def apply(self, times: ArrayLike) -> NDArray[np.uint64]:
        """Nanoseconds of CLOCK_MONOTONIC."""
        return _sweep.to_ns(np.ascontiguousarray(times, np.uint64), self.columns())


def _rate(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Rounded up, so that a time that lies exactly on a nanosecond is not cut down to the one before."""
    return min(-(((a[1] - b[1]) << SHIFT) // (b[0] - a[0])), (1 << 63) - 1)


def clock_map(
    clock: int, anchors: Sequence[Anchor], others: Sequence[Anchor] = (), shift: int = 0
) -> ClockMap:
    """The map for a block's clock. `others` are anchors of other processes of the same host: they help a
    process that was killed before it wrote two of its own. `shift` leads to the clock of another host; anchors have it already."""
    if clock == Clock.MONOTONIC:
        return ClockMap.through([(0, shift)])
    column = _COLUMN.get(clock, 3)
    points = [(a[column], a.mono) for a in anchors if a[column]]
    if len(points) < 2:
        points += [(a[column], a.mono) for a in others if a[column]]
    return ClockMap.through(points)


@dataclass(frozen=True)
class HostClock:
    """How the clock of a host was moved: by so much, known to within `error_ns` (None: by wall clocks only)."""

    shift_ns: int
    error_ns: int | None


_Pairs = dict[tuple[str, str], int]
_Ends = dict[str, list[Link]]
"""The moments of each end of a connection."""


def host_clocks(logs: Iterable[tuple[str, Log]]) -> dict[str, HostClock]:
    """The clocks of all hosts of a run, on that of the host that has been up longest, so that no time becomes negative."""
    offsets: dict[str, list[int]] = {}  # wall clock minus monotonic clock
    links: dict[str, _Ends] = {}
    for name, log in logs:
        offsets.setdefault(name, []).extend(_offsets(log))
        _add_links(links.setdefault(name, {}), log)
    walls = {name: int(np.median(seen)) for name, seen in offsets.items() if seen}
    if not walls:
        return {name: HostClock(0, None) for name in offsets}
    reference = min(walls, key=lambda name: walls[name])
    bounds = _bounds(links)
    clocks = {}
    for name in sorted(offsets):
        wall = walls.get(name, walls[reference]) - walls[reference]
        most = bounds[name, reference]
        least = -bounds[reference, name]
        clocks[name] = _between(least, most, wall)
    clocks[reference] = HostClock(0, 0)
    return clocks


def _offsets(log: Log) -> list[int]:
    """How far the wall clock was ahead of the monotonic one."""
    found = []
    for anchor in log.anchors:
        if anchor.real:
            found.append(anchor.real - anchor.mono + log.shift)
    return found


def _add_links(ends: _Ends, log: Log) -> None:
    for link in log.links:
        since = link.t - log.shift
        until = link.until - log.shift
        ends.setdefault(link.on, []).append(link._replace(t=since, until=until))


def _bounds(links: dict[str, _Ends]) -> _Pairs:
    """How much more than the shift of the second host that of the first can be at most; through third hosts as well."""
    found = {}
    for a, b in product(links, repeat=2):
        if a == b:
            found[a, b] = 0
        else:
            found[a, b] = _bound(links[a], links[b])
    for via, a, b in product(links, repeat=3):
        found[a, b] = min(found[a, b], found[a, via] + found[via, b])
    return found


def _between(least: int, most: int, wall: int) -> HostClock:
    """A clock whose shift lies between two bounds; wall clocks say `wall`."""
    if most >= _FAR or least <= -_FAR:
        return HostClock(max(0, min(max(wall, least), most)), None)
    middle = (least + most) // 2
    if least <= wall <= most:
        middle = wall
    error = max(abs(most - middle), abs(middle - least))
    return HostClock(max(0, middle), error)


def _bound(a: _Ends, b: _Ends) -> int:
    """The least time from a moment of `a` to the first of `b` that counts more than `a` did then: when one end has received more than
    the other had sent, or knows of more than the other had, it is later."""
    found = [_FAR]
    for on, samples in a.items():
        kind, _, ends = on.partition(":")
        here, _, there = ends.partition(">")
        others = b.get(f"{kind}:{there}>{here}")
        if others:
            since, _, sent, _, got = _in_time(samples)
            _, until, _, acked, received = _in_time(others)
            for counted, beyond in ((sent, received), (got, acked)):
                at = np.searchsorted(beyond, counted + _SLACK, side="right")
                known = at < len(beyond)
                found += (until[at[known]] - since[known]).tolist()
    return min(found)


def _in_time(links: list[Link]) -> NDArray[np.int64]:
    """Moments of a connection in order of time, a row for each of their numbers."""
    moments = sorted(link[1:] for link in links)
    return np.asarray(np.array(moments, np.int64).T)
