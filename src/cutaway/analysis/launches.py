"""Launches: how long device work waited, how deep the queue was, and who kept whom waiting. Pure functions.

Intervals are half-open, integer nanoseconds, rows of (start, end).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Intervals = NDArray[np.int64]

UNKNOWN = np.iinfo(np.int64).min
"""Latency of work whose launch is outside the recording."""


def launch_latency(work_start: ArrayLike, call_end: ArrayLike, launch: ArrayLike) -> NDArray[np.int64]:
    """Nanoseconds from the end of the launching call to the start on the device; `launch` is the position of the call,
    -1 for none. Negative where the work began before the call returned.

    >>> launch_latency([100, 130], [90], [0, -1]).tolist() == [10, UNKNOWN]
    True
    """
    start, end = np.asarray(work_start, np.int64), np.asarray(call_end, np.int64)
    position = np.asarray(launch, np.int64)
    known = position >= 0
    latency = np.full(len(start), UNKNOWN, np.int64)
    latency[known] = start[known] - end[position[known]]
    return latency


def queue_depth(launched: ArrayLike, finished: ArrayLike) -> NDArray[np.int64]:
    """For each piece of work, how many pieces launched before it were still unfinished when it was launched.

    >>> queue_depth([0, 1, 2, 50], [10, 20, 30, 60]).tolist()
    [0, 1, 2, 0]
    """
    at, end = np.asarray(launched, np.int64), np.asarray(finished, np.int64)
    order = np.argsort(at, kind="stable")
    before = np.empty(len(at), np.int64)
    before[order] = np.arange(len(at))
    done = np.searchsorted(np.sort(end), at, side="right")
    # Work that finished before its own launch (clocks a little apart) must not make the depth negative.
    return np.asarray(np.maximum(before - done, 0), np.int64)


def merge(intervals: ArrayLike) -> Intervals:
    """The union: disjoint, in order, none of length 0."""
    rows = _rows(intervals)
    if len(rows) == 0:
        return rows
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reach = np.maximum.accumulate(rows[:, 1])
    first = np.concatenate([[True], rows[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([rows[first, 0], reach[last]], axis=1)


def total(intervals: ArrayLike) -> int:
    """Length of the union."""
    rows = merge(intervals)
    return int((rows[:, 1] - rows[:, 0]).sum())


def intersect(first: ArrayLike, second: ArrayLike) -> Intervals:
    """What is in both."""
    a, b = merge(first), merge(second)
    if len(a) == 0 or len(b) == 0:
        return _rows([])
    begin = np.searchsorted(b[:, 1], a[:, 0], side="right")
    end = np.searchsorted(b[:, 0], a[:, 1], side="left")
    count = np.maximum(end - begin, 0)
    left = np.repeat(np.arange(len(a)), count)
    offset = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count)
    right = np.repeat(begin, count) + offset
    starts = np.maximum(a[left, 0], b[right, 0])
    ends = np.minimum(a[left, 1], b[right, 1])
    return _rows(np.stack([starts, ends], axis=1))


def subtract(first: ArrayLike, second: ArrayLike) -> Intervals:
    """What is in the first and not in the second."""
    a, b = merge(first), merge(second)
    if len(a) == 0:
        return a
    low, high = int(a[0, 0]), int(a[-1, 1])
    edges = np.concatenate([[low], np.clip(b, low, high).ravel(), [high]])
    return intersect(a, edges.reshape(-1, 2))


def gpu_bound(device_busy: ArrayLike, waiting: ArrayLike) -> int:
    """Nanoseconds in which the device worked while the launching thread waited in a synchronising call.

    >>> gpu_bound([(0, 10)], [(4, 20)])
    6
    """
    return total(intersect(device_busy, waiting))


def cpu_launch_bound(device_busy: ArrayLike, preparing: ArrayLike) -> int:
    """Nanoseconds in which the device idled while the launching thread was in Python or the backend of an operation that
    launches work (`preparing`).

    >>> cpu_launch_bound([(5, 8)], [(0, 10)])
    7
    """
    return total(subtract(preparing, device_busy))


def _rows(intervals: ArrayLike) -> Intervals:
    rows = np.asarray(intervals, np.int64).reshape(-1, 2)
    return rows[rows[:, 1] > rows[:, 0]]
