"""The same algorithm on every backend: equal losses and weights, and a loop that trains. TensorFlow: tests/tf_layer/test_tf_backends.py."""

from __future__ import annotations

import numpy as np
import pytest
from backend_runs import UPDATES, assert_equal, outcome

from cutaway_workloads.backends.agent import ALGORITHMS, Replay, Settings, first_weights
from cutaway_workloads.backends.loop import Plan, train


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_jax_and_pytorch_make_the_same_updates(algorithm: str) -> None:
    eager = outcome("torch", algorithm)
    assert_equal(eager, outcome("jax", algorithm))
    assert_equal(eager, outcome("jax-scan", algorithm))


def test_torch_compile_makes_the_same_updates() -> None:
    assert_equal(outcome("torch", "ddpg"), outcome("torch-compile", "ddpg"))


def test_twenty_updates_change_every_network_and_the_algorithms_differ() -> None:
    td3, ddpg = outcome("torch", "td3"), outcome("torch", "ddpg")
    assert (td3.losses[:, 0] > 0).all() and np.count_nonzero(
        td3.losses[:, 1]
    ) == UPDATES // 2
    assert np.count_nonzero(ddpg.losses[:, 1]) == UPDATES
    settings = Settings(17, 6, hidden=(64, 48), dtype="float64")
    actor, critics = first_weights(settings, seed=0)
    before = np.concatenate(
        [v.ravel() for layers in (actor, *critics) for layer in layers for v in layer]
    )
    assert (np.abs(td3.weights - before) > 1e-4).mean() > 0.8


def test_the_replay_forgets_the_oldest_and_keeps_rows_together() -> None:
    replay = Replay(Settings(2, 1, batch=256), capacity=10, seed=0)
    for i in range(25):
        replay.add([i, i], [i / 100], i, [i + 1, i + 1], i == 20)
    batch = replay.sample()
    assert replay.size == 10 and set(batch.reward[:, 0]) == set(range(15, 25))
    assert (batch.next_observation == batch.observation + 1).all()
    assert ((batch.ended == 1) == (batch.reward == 20)).all()


def test_the_loop_trains_on_walker2d() -> None:
    lines: list[str] = []
    plan = Plan("torch", steps=300, every=100, warm_up=100, hidden=(32, 32))
    assert np.isfinite(train(plan, lines.append))
    assert [line.split(" steps")[0] for line in lines] == ["100", "200", "300"]
