"""What an agent is: its settings, its first weights, the batches it learns from. NumPy only, so that every backend starts alike."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Layers = list[tuple[Floats, Floats]]
"""Weight (inputs × outputs) and bias of each layer."""


@dataclass(frozen=True)
class Settings:
    """One algorithm on one environment; actions lie between −1 and 1."""

    observation: int
    action: int
    critics: int = 2
    smoothing: float = 0.2
    smoothing_limit: float = 0.5
    delay: int = 2
    hidden: tuple[int, ...] = (400, 300)
    batch: int = 100
    discount: float = 0.99
    polyak: float = 0.005
    learning_rate: float = 1e-3
    epsilon: float = 1e-16
    """Of Adam: tiny, because TensorFlow adds it before the bias correction and the others after. 1e-8 would make two optimizers."""
    dtype: str = "float32"


ALGORITHMS: dict[str, dict[str, Any]] = {
    "td3": {"critics": 2, "smoothing": 0.2, "delay": 2},
    "ddpg": {"critics": 1, "smoothing": 0.0, "delay": 1},
}


class Batch(NamedTuple):
    """Transitions, one a row. `noise` smooths the target action; it comes with the batch so that all backends see the same."""

    observation: Floats
    action: Floats
    reward: Floats
    next_observation: Floats
    ended: Floats
    noise: Floats


class Weights(NamedTuple):
    """An actor and its critics."""

    actor: Layers
    critics: list[Layers]


def first_weights(settings: Settings, seed: int) -> Weights:
    """Uniform within ± 1/√inputs, as PyTorch begins."""
    rng = np.random.default_rng(seed)

    def network(inputs: int, outputs: int) -> Layers:
        sizes = (inputs, *settings.hidden, outputs)
        layers = []
        for before, after in itertools.pairwise(sizes):
            limit = before**-0.5
            drawn = rng.uniform(-limit, limit, (before + 1, after)).astype(
                settings.dtype
            )
            layers.append((drawn[:-1], drawn[-1]))
        return layers

    both = settings.observation + settings.action
    return Weights(
        network(settings.observation, settings.action),
        [network(both, 1) for _ in range(settings.critics)],
    )


class Replay:
    """The last `capacity` transitions in NumPy arrays."""

    def __init__(self, settings: Settings, capacity: int, seed: int) -> None:
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        sizes = (settings.observation, settings.action, 1, settings.observation, 1)
        self._columns = [np.zeros((capacity, size), settings.dtype) for size in sizes]
        self._next = self.size = 0

    def add(self, *values: Any) -> None:
        """Observation, action, reward, next observation, whether the episode ended there."""
        for column, value in zip(self._columns, values, strict=True):
            column[self._next] = value
        self._next = (self._next + 1) % len(self._columns[0])
        self.size = min(self.size + 1, len(self._columns[0]))

    def sample(self) -> Batch:
        rows = self._rng.integers(self.size, size=self._settings.batch)
        noise = self._rng.standard_normal((self._settings.batch, self._settings.action))
        return Batch._make(
            [
                *(column[rows] for column in self._columns),
                noise.astype(self._settings.dtype),
            ]
        )


class Agent(ABC):
    """One backend's actor, critics and their targets."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.updates = 0

    @abstractmethod
    def act(self, observation: Floats) -> Floats:
        """The action for one observation."""

    @abstractmethod
    def update(self, batch: Batch, with_actor: bool) -> tuple[Any, Any]:
        """One update of the critics and, if asked, of the actor and all targets; both losses (the actor's is 0 without)."""

    @abstractmethod
    def weights(self) -> Weights:
        """The weights as they are now."""

    def learn(self, replay: Replay, updates: int) -> list[tuple[float, float]]:
        """So many updates, each on a batch of its own; their losses."""
        losses = []
        for _ in range(updates):
            self.updates += 1
            losses.append(
                self.update(replay.sample(), self.updates % self.settings.delay == 0)
            )
        return [(float(critic), float(actor)) for critic, actor in losses]
