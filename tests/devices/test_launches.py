"""Latency, depth and bounds of launches, against slow but obvious twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.analysis import energy, launches

pytestmark = pytest.mark.core

interval = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
intervals = st.lists(interval, max_size=8)


def instants(rows: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in rows for t in range(start, end)}


@given(intervals, intervals)
def test_set_operations_equal_those_on_instants(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    assert launches.total(a) == len(instants(a))
    assert instants(launches.intersect(a, b).tolist()) == instants(a) & instants(b)
    assert instants(launches.subtract(a, b).tolist()) == instants(a) - instants(b)
    assert launches.total(launches.intersect(a, b)) == len(instants(a) & instants(b))


@given(intervals, intervals)
def test_bounds(busy: list[tuple[int, int]], host: list[tuple[int, int]]) -> None:
    assert launches.gpu_bound(busy, host) == len(instants(busy) & instants(host))
    assert launches.cpu_launch_bound(busy, host) == len(instants(host) - instants(busy))


@given(st.lists(interval, max_size=12))
def test_queue_depth_counts_what_was_launched_and_not_finished(work: list[tuple[int, int]]) -> None:
    work = sorted(work)
    found = launches.queue_depth([w[0] for w in work], [w[1] for w in work])
    for i, (at, _) in enumerate(work):
        unfinished = sum(1 for _, end in work[:i] if end > at)
        over_early = sum(1 for _, end in work[i:] if end <= at)  # of length 0: over at their own launch
        assert found[i] == max(unfinished - over_early, 0)


def test_latency_of_unknown_launches_is_unknown() -> None:
    found = launches.launch_latency([100, 200, 300], [150, 90], [1, 0, -1])
    assert found.tolist() == [10, 50, launches.UNKNOWN]


def test_energy_goes_to_operations_by_their_busy_time() -> None:
    second = 10**9
    readings = ([0, 10 * second, 20 * second], [0, 1000_000, 1500_000])  # 1000 J, then 500 J
    busy = {
        "inference": [(0, second), (12 * second, 13 * second)],
        "backpropagation": [(second, 4 * second)],
    }
    found = energy.energy_by_operation(readings, busy)
    assert found == {"inference": 250.0 + 500.0, "backpropagation": 750.0, energy.IDLE: 0.0}


def test_energy_of_idle_windows_belongs_to_no_operation() -> None:
    second = 10**9
    found = energy.energy_by_operation(([0, 10 * second], [0, 5000]), {"inference": []})
    assert found == {"inference": 0.0, energy.IDLE: 5.0}


def test_energy_is_unavailable_without_a_counter_not_zero() -> None:
    assert energy.energy_by_operation(None, {"inference": [(0, 1)]}) is None
    assert energy.energy_by_operation(([5], [7]), {}) is None, "one reading is no difference"


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), min_size=2, max_size=30))
def test_energy_windows_keep_every_joule(steps: list[tuple[int, int]]) -> None:
    times = np.cumsum([s[0] for s in steps])
    counts = np.cumsum([s[1] for s in steps])
    rows = energy.windows(times, counts, least_ns=5)
    assert rows[:, 2].sum() == counts[-1] - counts[0]
    assert (rows[:-1, 1] == rows[1:, 0]).all()


def test_a_counter_that_went_back_begins_afresh() -> None:
    rows = energy.windows([0, 10, 20, 30], [500, 700, 5, 105], least_ns=10)
    assert rows.tolist() == [[0, 10, 200], [20, 30, 100]]
