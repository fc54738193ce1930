"""Whether a quantity over time grows, how fast, and whether that goes on: for memory, whose courses have steps and noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCKS = 10
T_95 = 2.306  # of Student's distribution with BLOCKS - 2 degrees of freedom
GOES_ON = 0.25  # of the slope must be left in the second half


class Growth(NamedTuple):
    """Bytes a second with their 95 % interval, bytes in all, and whether the second half still grows."""

    per_s: float
    low: float
    high: float
    grown: float
    goes_on: bool

    @property
    def certain(self) -> bool:
        """It grows, and it did so until the end."""
        return self.low > 0 and self.goes_on


NONE = Growth(0.0, 0.0, 0.0, 0.0, False)


def growth(
    t_ns: NDArray[np.int64],
    values: NDArray[np.float64],
    span: tuple[int, int],
    noise: float = 0.0,
) -> Growth:
    """The trend of a course inside a span of time; `noise` is the standard error of one value.

    >>> t = np.arange(100) * 10**9
    >>> round(growth(t, 5.0 * np.arange(100), (0, 99 * 10**9)).per_s, 1)
    5.0
    >>> growth(t, np.minimum(5.0 * np.arange(100), 250.0), (0, 99 * 10**9)).goes_on
    False
    """
    start, end = span
    if len(t_ns) < 2 or end <= start:
        return NONE
    edges = np.linspace(start, end, BLOCKS + 1)
    means = block_means(t_ns, values, edges)
    middle = (edges[:-1] + edges[1:]) / 2e9
    slope, error = _fit(middle, means)
    sampled = noise / np.sqrt(np.sum((middle - middle.mean()) ** 2))
    half = T_95 * float(np.hypot(error, sampled))
    later = _fit(middle[BLOCKS // 2 :], means[BLOCKS // 2 :])[0]
    goes_on = slope > 0 and later > GOES_ON * slope
    seconds = (end - start) / 1e9
    return Growth(slope, slope - half, slope + half, slope * seconds, goes_on)


def block_means(
    t_ns: NDArray[np.int64], values: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Means of a course, which keeps each value until the next one, between the edges."""
    fine = np.linspace(edges[0], edges[-1], 20 * (len(edges) - 1) + 1)
    at = np.clip(np.searchsorted(t_ns, fine, side="right") - 1, 0, None)
    held = values[at].astype(np.float64)
    means: NDArray[np.float64] = held[:-1].reshape(len(edges) - 1, 20).mean(axis=1)
    return means


def _fit(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """The slope of a line through the points and its standard error."""
    away = x - x.mean()
    spread = float(np.sum(away**2))
    slope = float(np.sum(away * (y - y.mean())) / spread)
    rest = y - y.mean() - slope * away
    error = float(np.sqrt(np.sum(rest**2) / max(1, len(x) - 2) / spread))
    return slope, error
