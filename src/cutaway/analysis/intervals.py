"""Intervals of time: merged, measured, cut, and how they overlap and nest. Half-open, integer, exact.

Merged intervals are disjoint, in order of time, in an array of shape (n, 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway import _sweep


def union(start: NDArray[Any], end: NDArray[Any]) -> NDArray[np.int64]:
    """The intervals merged; empty ones vanish.

    >>> union(np.array([5, 1, 2]), np.array([6, 3, 4])).tolist()
    [[1, 4], [5, 6]]
    """
    keep = end > start
    start = start[keep].astype(np.int64)
    end = end[keep].astype(np.int64)
    order = np.argsort(start, kind="stable")
    start = start[order]
    end = np.maximum.accumulate(end[order])
    apart = start[1:] > end[:-1]
    first = np.append(True, apart)[: len(start)]
    last = np.append(apart, True)[: len(start)]
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


def overlap(intervals: Mapping[str, ArrayLike]) -> dict[frozenset[str], int]:
    """Time for each exact set of categories that are active together. There may be any number of them.

    Each category is an array of shape (n, 2) of starts and ends in any order; what overlaps within a category is
    merged first. The times add up to the time in which anything was active.

    >>> times = overlap({"cpu": [[0, 10]], "gpu": [[5, 8], [7, 20]]})
    >>> times[frozenset({"cpu"})], times[frozenset({"cpu", "gpu"})], times[frozenset({"gpu"})]
    (5, 5, 10)
    """
    names = list(intervals)
    found = _sweep.overlap([_pairs(name, intervals[name]) for name in names])
    times = {}
    for members, time in found:
        times[frozenset(names[member] for member in members)] = time
    return times


def flatten(operations: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Nested operations (name, start, end), in any order, as segments without overlap: the innermost owns the time.

    The innermost is the one that started last; of those that started together the shortest; of equal ones the
    last given.

    >>> flatten([("train", 0, 10), ("inference", 2, 5)])
    [('train', 0, 2), ('inference', 2, 5), ('train', 5, 10)]
    """
    given = list(operations)
    pairs = _pairs("operations", [(start, end) for _, start, end in given])
    rows = _sweep.flatten(pairs).view(np.int64).reshape(-1, 3).tolist()
    return [(given[index][0], start, end) for index, start, end in rows]


def _pairs(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"{name}: intervals are an array of shape (n, 2), not {array.shape}"
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name}: intervals are integers (nanoseconds), not {array.dtype}"
        )
    if (array[:, 1] < array[:, 0]).any():
        raise ValueError(f"{name}: an interval ends before it starts")
    return np.ascontiguousarray(array, np.int64).reshape(-1)
