"""Mapping foreign clocks: exact at the anchors, never backwards, and the same in Python and C++."""

from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cutaway.trace.clocks import SHIFT, ClockMap, clock_map
from cutaway.trace.log import Anchor
from cutaway.vocabulary import Clock

pytestmark = pytest.mark.core


def to_ns(map: ClockMap, time: int) -> int:
    """The readable twin of native/sweep/clock.h."""
    i = bisect_right(map.source, time) - 1
    if i < 0:
        return max(
            0,
            map.target[0] - min((map.source[0] - time) * map.before >> SHIFT, 1 << 62),
        )
    ns = map.target[i] + min((time - map.source[i]) * map.rate[i] >> SHIFT, 1 << 62)
    return min(ns, map.target[i + 1]) if i + 1 < len(map.target) else ns


points = st.lists(
    st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)), min_size=1, max_size=8
)
times = st.lists(st.integers(0, 2 * 10**12), min_size=1, max_size=20)


@given(points, times)
@example([(1, 1), (2, 1 << 24 | 1)], [0, 5])
@example([(1, 1), (2, 1 << 62)], [1 << 62])
def test_the_map_never_goes_back_and_both_twins_agree(points, times):
    map = ClockMap.through(points)
    mapped = [to_ns(map, t) for t in sorted(times)]
    assert all(a <= b for a, b in pairwise(mapped))
    assert map.apply(sorted(times)).tolist() == mapped


@given(points)
def test_the_map_passes_through_the_anchors_it_keeps(points):
    map = ClockMap.through(points)
    assert map.apply(map.source).tolist() == list(map.target)


def test_ticks_are_mapped_piecewise_so_that_drift_is_followed():
    second = 10**9
    anchors = [
        Anchor(mono=0 * second + 5, real=0, raw=0, ticks=1000),
        Anchor(mono=1 * second + 5, real=0, raw=0, ticks=1000 + 3 * second),
        Anchor(mono=2 * second + 5, real=0, raw=0, ticks=1000 + 6 * second + 300),
    ]
    map = clock_map(Clock.TICKS, anchors)
    mapped = map.apply([1000 + 3 * second // 2, 1000 + 6 * second + 300])
    assert mapped.tolist() == [second // 2 + 5, 2 * second + 5]


def test_a_clock_that_was_set_back_does_not_turn_time_round():
    anchors = [
        Anchor(10, 1000, 0, 0),
        Anchor(20, 1010, 0, 0),
        Anchor(30, 500, 0, 0),
        Anchor(40, 1030, 0, 0),
    ]
    map = clock_map(Clock.REALTIME, anchors)
    mapped = map.apply(range(990, 1050, 5)).tolist()
    assert mapped == sorted(mapped)
    assert mapped[4] == 20


def test_a_process_killed_after_its_first_anchor_borrows_those_of_its_host():
    own = [Anchor(mono=100, real=0, raw=0, ticks=1000)]
    others = [
        Anchor(mono=0, real=0, raw=0, ticks=700),
        Anchor(mono=200, real=0, raw=0, ticks=1300),
    ]
    assert clock_map(Clock.TICKS, own, others).apply([1150]).tolist() == [150]


def test_the_monotonic_clock_is_itself():
    assert clock_map(Clock.MONOTONIC, []).apply([123456789012345678]).tolist() == [
        123456789012345678
    ]
