"""Twenty updates of any backend from the same weights on the same batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutaway_workloads.backends import make
from cutaway_workloads.backends.agent import ALGORITHMS, Replay, Settings, first_weights

UPDATES = 20


class Outcome(NamedTuple):
    losses: np.ndarray
    weights: np.ndarray
    action: np.ndarray


def outcome(backend: str, algorithm: str) -> Outcome:
    """Doubles: what differs is then the algorithm, not the order of additions."""
    settings = Settings(
        17, 6, hidden=(64, 48), batch=32, dtype="float64", **ALGORITHMS[algorithm]
    )
    rng = np.random.default_rng(0)
    replay = Replay(settings, capacity=300, seed=0)
    for _ in range(400):
        replay.add(rng.normal(size=17), rng.uniform(-1, 1, 6), rng.normal(), rng.normal(size=17), rng.random() < 0.05)  # fmt: skip
    agent = make(backend, settings, first_weights(settings, seed=0))
    losses = agent.learn(replay, UPDATES)
    actor, critics = agent.weights()
    flat = [
        value.ravel()
        for layers in (actor, *critics)
        for layer in layers
        for value in layer
    ]
    return Outcome(np.array(losses), np.concatenate(flat), agent.act(np.ones(17)))


def assert_equal(one: Outcome, other: Outcome) -> None:
    for name, a, b in zip(Outcome._fields, one, other, strict=True):
        assert np.abs(a - b).max() < 1e-5, name
