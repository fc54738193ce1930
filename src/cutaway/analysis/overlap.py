"""Exact overlap and nesting of intervals, for any categories. Half-open, integer, no limit on their number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway import _sweep


def overlap(intervals: Mapping[str, ArrayLike]) -> dict[frozenset[str], int]:
    """Time for each exact set of categories that are active together.

    Each category is an array of shape (n, 2) of starts and ends in any order; what overlaps within a category is
    merged first. The times add up to the time in which anything was active.

    >>> times = overlap({"cpu": [[0, 10]], "gpu": [[5, 8], [7, 20]]})
    >>> times[frozenset({"cpu"})], times[frozenset({"cpu", "gpu"})], times[frozenset({"gpu"})]
    (5, 5, 10)
    """
    names = list(intervals)
    found = _sweep.overlap([_pairs(name, intervals[name]) for name in names])
    return {frozenset(names[member] for member in members): time for members, time in found}


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
        raise ValueError(f"{name}: intervals are an array of shape (n, 2), not {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}: intervals are integers (nanoseconds), not {array.dtype}")
    if (array[:, 1] < array[:, 0]).any():
        raise ValueError(f"{name}: an interval ends before it starts")
    return np.ascontiguousarray(array, np.int64).reshape(-1)
