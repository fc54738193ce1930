"""Estimates with 95 % intervals, and how wide these are for few repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_T95 = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
    2.12,
    2.11,
    2.10,
    2.09,
)


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval; the bounds are NaN where too little is known."""

    value: float
    low: float = np.nan
    high: float = np.nan

    @classmethod
    def around(cls, value: float, half: float) -> Estimate:
        """Of something that cannot be negative."""
        return cls(
            value, max(value - half, 0.0), value + half
        )  # in this order: NaN stays NaN

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.low == self.low

    @property
    def certain(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def t95(free: int) -> float:
    """Student's t for a 95 % interval.

    >>> t95(1), round(t95(100), 2)
    (12.71, 1.98)
    """
    if free <= len(_T95):
        return _T95[free - 1]
    return 1.96 + 2.5 / free


def half_width(rows: NDArray[Any]) -> NDArray[Any]:
    """Half the 95 % interval of the mean of rows: repeated runs, or blocks of one run.

    >>> half_width(np.array([[1.0], [2.0], [3.0]])).round(2).tolist()
    [2.48]
    """
    spread = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    return np.asarray(t95(len(rows) - 1) * spread)


def difference(a: NDArray[Any], b: NDArray[Any]) -> tuple[Any, Any] | None:
    """95 % bounds of mean(b) - mean(a), with one variance for both sides.

    Rows are repeated runs, or blocks of one run. None with one row on each side.
    """
    free = len(a) + len(b) - 2
    if free < 1:
        return None
    squares = ((a - a.mean(axis=0)) ** 2).sum(axis=0)
    squares = squares + ((b - b.mean(axis=0)) ** 2).sum(axis=0)
    half = t95(free) * np.sqrt(squares / free * (1 / len(a) + 1 / len(b)))
    middle = b.mean(axis=0) - a.mean(axis=0)
    return middle - half, middle + half
