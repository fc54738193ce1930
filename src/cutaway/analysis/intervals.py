"""Arithmetic of intervals of time: merged, measured, cut. Merged intervals are arrays of shape (n, 2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def union(start: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int64]:
    """The intervals merged: disjoint, ordered, as an array of shape (n, 2); empty ones vanish.

    >>> union(np.array([5, 1, 2]), np.array([6, 3, 4])).tolist()
    [[1, 4], [5, 6]]
    """
    keep = end > start
    start, end = start[keep].astype(np.int64), end[keep].astype(np.int64)
    if not len(start):
        return np.zeros((0, 2), np.int64)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.concatenate([[True], start[1:] > end[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(start) - 1]])
    return np.stack([start[first], end[last]], axis=1)


def length(merged: NDArray[np.int64]) -> int:
    """The time merged intervals cover."""
    return int((merged[:, 1] - merged[:, 0]).sum())


def covered(merged: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much of the time before each instant merged intervals cover.

    >>> covered(np.array([[1, 4], [5, 6]]), np.array([0, 2, 5, 9])).tolist()
    [0, 1, 3, 4]
    """
    before = np.concatenate([[0], np.cumsum(merged[:, 1] - merged[:, 0])])
    ends = np.concatenate([[0], merged[:, 1]])
    begun = np.searchsorted(merged[:, 0], until, side="left")
    beyond = np.where(begun > 0, np.maximum(ends[begun] - until, 0), 0)
    return np.asarray(before[begun] - beyond, np.int64)
