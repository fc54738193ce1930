"""Prioritised replay against a plain list of priorities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway_workloads.r2d2.config import ReplayConfig
from cutaway_workloads.r2d2.envs import EnvSpec
from cutaway_workloads.r2d2.replay import Replay, SumTree, mix_priorities
from cutaway_workloads.r2d2.unrolls import Layout
from effort import effort

pytestmark = pytest.mark.core

LAYOUT = Layout(EnvSpec((2,), "float32", actions=3), length=4, overlap=1, lstm=2)


def unrolls(*marks: int):
    """Unrolls that can be told apart by their first reward."""
    batch = LAYOUT.zeros(len(marks))
    batch["reward"][:, 0] = marks
    return batch


@settings(max_examples=effort(80, 25))
@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=20),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=8),
)
def test_the_tree_finds_what_a_cumulative_sum_finds(weights, points):
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), np.array(weights))
    assert tree.total == pytest.approx(sum(weights))
    if tree.total == 0:
        return
    for point, leaf in zip(
        points, tree.find(np.array(points) * tree.total), strict=True
    ):
        before, upto = sum(weights[:leaf]), sum(weights[: leaf + 1])
        assert (
            before - 1e-9 * tree.total <= point * tree.total <= upto + 1e-9 * tree.total
        )
        assert weights[leaf] > 0


def test_updates_of_equal_leaves_keep_the_sums_right():
    tree = SumTree(5)
    tree.set(np.array([1, 1, 4]), np.array([2.0, 3.0, 5.0]))
    assert tree.get(np.array([1]))[0] == 3.0
    assert tree.total == 8.0


def test_the_oldest_is_overwritten():
    replay = Replay(LAYOUT, ReplayConfig(capacity=3), seed=1)
    replay.insert(unrolls(1, 2), np.ones(2))
    replay.insert(unrolls(3, 4), np.ones(2))
    assert len(replay) == 3
    assert set(replay.sample(200).unrolls["reward"][:, 0]) == {2, 3, 4}


def test_sampling_follows_priority_to_the_exponent_and_weights_undo_it():
    config = ReplayConfig(capacity=4, priority_exponent=0.9, importance_exponent=0.6)
    priorities = np.array([1.0, 2.0, 4.0, 8.0])
    replay = Replay(LAYOUT, config, seed=2)
    replay.insert(unrolls(0, 1, 2, 3), priorities)
    sample = replay.sample(20_000)
    marks = sample.unrolls["reward"][:, 0].astype(int)
    wanted = [p**0.9 / sum(q**0.9 for q in priorities) for p in priorities]
    assert np.bincount(marks) / 20_000 == pytest.approx(wanted, abs=0.015)
    weight_of = dict(zip(marks.tolist(), sample.weights.tolist(), strict=True))
    largest = max((4 * p) ** -0.6 for p in wanted)
    for mark in range(4):
        assert weight_of[mark] == pytest.approx(
            (4 * wanted[mark]) ** -0.6 / largest, rel=1e-5
        )


def test_new_priorities_count_and_late_ones_for_overwritten_rows_do_not():
    replay = Replay(LAYOUT, ReplayConfig(capacity=2), seed=3)
    replay.insert(unrolls(1, 2), np.array([1.0, 1.0]))
    sample = replay.sample(64)
    first = sample.unrolls["reward"][:, 0] == 1
    replay.update(sample, np.where(first, 0.0, 1.0))
    assert set(replay.sample(200).unrolls["reward"][:, 0]) == {2}
    replay.insert(unrolls(3), np.array([1.0]))
    replay.update(
        sample, np.where(first, 0.0, 1.0)
    )  # row of 1 now holds 3: must stay at priority 1
    assert set(replay.sample(200).unrolls["reward"][:, 0]) == {2, 3}


def test_priorities_mix_largest_and_mean_error():
    errors = np.array([[1.0, -2.0], [-3.0, 0.0]])
    assert mix_priorities(errors, 0.9).tolist() == pytest.approx(
        [0.9 * 3 + 0.1 * 2, 0.9 * 2 + 0.1 * 1]
    )


def test_a_saved_replay_goes_on_where_it_stopped(tmp_path):
    config = ReplayConfig(capacity=5, minimum=1)
    first, second = Replay(LAYOUT, config, seed=3), Replay(LAYOUT, config, seed=3)
    first.insert(
        unrolls(1, 2, 3, 4, 5, 6, 7), np.arange(1.0, 8.0)
    )  # two rows overwritten
    first.save(tmp_path / "replay.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["replay.npz"]
    assert second.load(tmp_path / "replay.npz")
    assert (len(second), second.inserted) == (5, 7)
    for _ in range(3):
        a, b = first.sample(16), second.sample(16)
        for name in a.unrolls:
            np.testing.assert_array_equal(a.unrolls[name], b.unrolls[name])
        np.testing.assert_array_equal(a.weights, b.weights)
        first.update(a, np.linspace(1, 2, 16)), second.update(b, np.linspace(1, 2, 16))
    assert not Replay(LAYOUT, ReplayConfig(capacity=4), seed=3).load(
        tmp_path / "replay.npz"
    )
    wider = Layout(EnvSpec((3,), "float32", actions=3), length=4, overlap=1, lstm=2)
    assert not Replay(wider, config, seed=3).load(tmp_path / "replay.npz")
