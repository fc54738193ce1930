"""Overlap and flattening: RL-Scope's own cases, brute force, and what the inputs may look like."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sweep_twin as twin
from hypothesis import given
from hypothesis import strategies as st

from cutaway.analysis import flatten, overlap

pytestmark = pytest.mark.core

CASES = json.loads(
    (Path(__file__).parents[1] / "data/overlap/overlap_cases.json").read_text()
)["cases"]
OVERLAPS = [case for case in CASES if case["kind"] == "overlap"]
NESTED = [
    case
    for case in CASES
    if case["kind"] != "overlap" and "segments" in case["expected"]
]
SECOND = 1_000_000_000


def ns(value):
    return round(value * SECOND)


def case_id(case):
    return case["id"]


@pytest.mark.parametrize("case", OVERLAPS, ids=case_id)
@pytest.mark.parametrize("compute", [overlap, twin.overlap], ids=["native", "twin"])
def test_overlap_gives_the_published_times(case, compute):
    given = {
        name: [(ns(a), ns(b)) for a, b in pairs]
        for name, pairs in case["input"]["categories"].items()
    }
    expected = {
        frozenset(row["set"]): ns(row["time"])
        for row in case["expected"]["time_per_set"]
    }
    assert compute(given) == expected


@pytest.mark.parametrize("case", NESTED, ids=case_id)
@pytest.mark.parametrize("compute", [flatten, twin.flatten], ids=["native", "twin"])
def test_flatten_gives_the_published_segments(case, compute):
    given = [
        (op["name"], ns(op["start"]), ns(op["end"]))
        for op in case["input"]["operations"]
    ]
    expected = [
        (s["name"], ns(s["start"]), ns(s["end"])) for s in case["expected"]["segments"]
    ]
    assert compute(given) == expected


def test_of_two_equal_operations_the_last_given_is_the_inner_one():
    assert flatten([("op1", 0, 1), ("op2", 0, 1)]) == [("op2", 0, 1)]


interval = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(
    lambda p: (p[0], p[0] + p[1])
)
categories = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(interval, max_size=8), max_size=5
)


@given(categories)
def test_overlap_agrees_with_counting_every_instant(given):
    counted = {}
    for t in range(60):
        active = frozenset(
            name for name, pairs in given.items() if any(a <= t < b for a, b in pairs)
        )
        if active:
            counted[active] = counted.get(active, 0) + 1
    assert overlap(given) == counted == twin.overlap(given)


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), interval).map(lambda p: (p[0], *p[1])),
        max_size=10,
    )
)
def test_flatten_gives_each_instant_to_the_operation_that_started_last(operations):
    owner = {}
    for t in range(60):
        inside = [(a, -b, i) for i, (_, a, b) in enumerate(operations) if a <= t < b]
        if inside:
            owner[t] = operations[max(inside)[2]][0]
    segments = flatten(operations)
    assert {t: name for name, a, b in segments for t in range(a, b)} == owner
    assert segments == twin.flatten(operations)
    assert all(a[2] <= b[1] for a, b in pairwise(segments))


def test_more_than_64_categories_are_no_limit():
    given = {f"c{i}": np.array([[i, 200]]) for i in range(150)}
    times = overlap(given)
    assert times[frozenset(given)] == 51
    assert sum(times.values()) == 200


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([[1.5, 2.0]], "integers"),
        ([[5, 1]], "ends before it starts"),
        ([1, 2, 3], "shape"),
    ],
)
def test_what_is_no_interval_is_refused_in_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        overlap({"a": wrong})
