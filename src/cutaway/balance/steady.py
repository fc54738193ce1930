"""Where start-up ends: the steady part of a rate over time, and the rate in it with an interval; several such rates as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 60
MINIMUM = 8  # bins that must be left to call anything steady


@dataclass(frozen=True)
class Steady:
    """Rate in a second over [start, end), both in seconds of the input, with a 95 % interval; `enough` tells whether to trust it."""

    rate: float
    low: float
    high: float
    start: float
    end: float
    enough: bool


NOTHING = Steady(0.0, 0.0, 0.0, 0.0, 0.0, False)


def steady(times: NDArray[np.float64], amounts: NDArray[np.float64]) -> Steady:
    """The steady rate of something that happened at `times` in these `amounts` (steps).

    Start-up is cut by the marginal standard error rule (MSER): the cut that makes the mean of the rest most certain, in the first half.
    The interval uses batch means, because neighbouring bins are correlated.

    >>> t = np.concatenate([np.arange(5.0), 5 + np.arange(2000) / 100])
    >>> s = steady(t, np.ones_like(t))
    >>> 98 < s.rate < 102 and s.start >= 4 and s.enough
    True
    """
    if len(times) < 2 or times[-1] <= times[0]:
        return NOTHING
    first, last = float(times[0]), float(times[-1])
    edges = np.linspace(first, last, BINS + 1)
    counts, _ = np.histogram(times, edges, weights=amounts)
    width = (last - first) / BINS
    rates = counts / width
    cut = int(np.argmin([np.var(rates[c:]) / (BINS - c) for c in range(BINS // 2 + 1)]))
    start = float(edges[cut])
    inside = times >= start
    count = int(np.count_nonzero(inside))
    rate = float(np.sum(amounts[inside][1:]) / (last - times[inside][0])) if count > 1 else 0.0
    batches = min(10, (BINS - cut) // 4)  # seven or more: at least half of the bins are left
    means = [np.mean(part) for part in np.array_split(rates[cut:], batches)]
    half = float(2.26 * np.std(means, ddof=1) / np.sqrt(batches))  # t for 9 degrees of freedom
    enough = BINS - cut >= MINIMUM and count >= MINIMUM and rate > 0
    return Steady(rate, max(0.0, rate - half), rate + half, start, last, bool(enough))


def typical(values: Sequence[float]) -> tuple[float, float]:
    """The median of repeated measurements, and its standard error from the median distance to it: one disturbed run moves neither.

    >>> value, error = typical([100.0, 101.0, 99.0, 10.0])
    >>> value, round(error, 2)
    (99.5, 0.74)
    """
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(np.asarray(values) - middle)))  # a normal's standard deviation
    return middle, spread / len(values) ** 0.5
