"""Small environments: a memory task, a burner of CPU time, and gymnasium's with flat observations."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from cutaway import CutawayError

from .envs import EnvSpec
from .shared import Array


class TMaze:
    """A cue is shown once, a corridor follows, and the cue tells which way to turn at its end.

    Actions: forward, up, down. A turn at the junction ends the episode: 1 for the right one, −1 for the wrong
    one. Anything else that does not move costs 0.05. Without memory the expected return is at most 0.
    """

    def __init__(self, corridor: int, seed: int) -> None:
        self.spec = EnvSpec(shape=(4,), dtype="float32", actions=3)
        self._corridor = corridor
        self._limit = 4 * (corridor + 1)
        self._random = np.random.default_rng(seed)

    def reset(self, out: Array) -> None:
        self._cue = int(self._random.integers(2))
        self._position = self._time = 0
        self._observe(out)
        out[self._cue] = 1.0

    def step(self, action: int, out: Array) -> tuple[float, bool]:
        self._time += 1
        if self._position == self._corridor and action > 0:
            self._observe(out)
            return (1.0 if action - 1 == self._cue else -1.0), True
        moved = action == 0 and self._position < self._corridor
        self._position += moved
        self._observe(out)
        return (0.0 if moved else -0.05), self._time >= self._limit

    def _observe(self, out: Array) -> None:
        out[:] = 0.0
        out[2] = self._position < self._corridor
        out[3] = self._position == self._corridor


class Synthetic:
    """Each step burns a given CPU time, whatever else runs on the machine; episodes last 1,000 steps."""

    def __init__(self, microseconds: int, seed: int) -> None:
        self.spec = EnvSpec(shape=(84, 84), dtype="uint8", actions=18)
        self._burn = microseconds * 1000
        self._random = np.random.default_rng(seed)
        self._frame = self._random.integers(0, 256, (84, 84), dtype=np.uint8)

    def reset(self, out: Array) -> None:
        self._time = 0
        out[:] = self._frame

    def step(self, action: int, out: Array) -> tuple[float, bool]:
        clock = time.thread_time_ns
        end = clock() + self._burn
        self._time += 1
        out[:] = self._frame
        while clock() < end:
            pass
        return 0.0, self._time % 1000 == 0


class Gymnasium:
    """A gymnasium environment with a one-dimensional observation and discrete actions."""

    def __init__(self, name: str, seed: int, keep: tuple[int, ...] = ()) -> None:
        try:
            import gymnasium
        except ImportError as error:
            raise CutawayError(
                "Gymnasium environments need gymnasium: pip install 'cutaway[atari]'."
            ) from error
        try:
            self._env: Any = gymnasium.make(name)
        except gymnasium.error.Error as error:
            raise CutawayError(
                f"Gymnasium has no environment {name!r}: {error}"
            ) from error
        box, choice = self._env.observation_space, self._env.action_space
        shape = box.shape if isinstance(box, gymnasium.spaces.Box) else None
        if (
            shape is None
            or len(shape) != 1
            or not isinstance(choice, gymnasium.spaces.Discrete)
        ):
            raise CutawayError(
                f"{name} does not have flat observations and discrete actions: choose one that has."
            )
        self._first = int(choice.start)
        self._keep = list(keep or range(shape[0]))
        self._seed: int | None = seed
        self.spec = EnvSpec(
            shape=(len(self._keep),), dtype="float32", actions=int(choice.n)
        )

    def reset(self, out: Array) -> None:
        obs, _ = self._env.reset(seed=self._seed)
        self._seed = None
        out[:] = obs[self._keep]

    def step(self, action: int, out: Array) -> tuple[float, bool]:
        obs, reward, terminated, truncated, _ = self._env.step(action + self._first)
        out[:] = obs[self._keep]
        return float(reward), bool(terminated or truncated)
