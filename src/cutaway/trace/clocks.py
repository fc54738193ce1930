"""Chooses the points through which times of other clocks are mapped to CLOCK_MONOTONIC.

Between two anchors the time runs evenly; outside them it goes on at the average rate of all. The mapping itself is
native/sweep/clock.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway import _sweep
from cutaway.trace.log import Anchor
from cutaway.vocabulary import Clock

SHIFT = 40  # binary digits behind the point of a rate, which is a fixed-point number

_COLUMN = {Clock.TICKS: 3, Clock.MONOTONIC: 0, Clock.REALTIME: 1, Clock.MONOTONIC_RAW: 2}


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
        average = _rate(kept[0], kept[-1]) if len(kept) > 1 else 1 << SHIFT
        rates = (*(_rate(a, b) for a, b in pairwise(kept)), average)
        return ClockMap(tuple(p[0] for p in kept), tuple(p[1] for p in kept), rates, average)

    def columns(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], int]:
        """The map in the form the native code takes."""
        arrays = (np.array(c, np.uint64) for c in (self.source, self.target, self.rate))
        return (*arrays, self.before)  # type: ignore[return-value]

    def apply(self, times: ArrayLike) -> NDArray[np.uint64]:
        """Nanoseconds of CLOCK_MONOTONIC."""
        return _sweep.to_ns(np.ascontiguousarray(times, np.uint64), self.columns())


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


def _rate(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Rounded up, so that a time that lies exactly on a nanosecond is not cut down to the one before."""
    return min(-(((a[1] - b[1]) << SHIFT) // (b[0] - a[0])), (1 << 63) - 1)
