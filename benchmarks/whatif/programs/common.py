"""What the programs share: a pace that is measured in the same way everywhere, a world, and work that is real."""

from __future__ import annotations

import multiprocessing
import time
import zlib
from typing import Any

import gymnasium
import numpy as np

mp = multiprocessing.get_context("fork")
DATA = bytes(i * i % 251 for i in range(16_000))
WARM_UP = 3  # iterations


class Pace:
    """Counts steps from the fourth iteration on, until the seconds are over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.count = 0
        self.steps = 0
        self.start = self.last = time.perf_counter()
        self.cpu_start = self.cpu_last = time.process_time()

    def tick(self, steps: int) -> bool:
        """The end of an iteration; False when it is time to stop."""
        self.count += 1
        self.last = time.perf_counter()
        self.cpu_last = time.process_time()
        if self.count == WARM_UP:
            self.start, self.cpu_start = self.last, self.cpu_last
        elif self.count > WARM_UP:
            self.steps += steps
        return self.count <= WARM_UP + 1 or self.last - self.start < self.seconds

    @property
    def rates(self) -> tuple[float, float]:
        """Steps a second, and steps for each CPU second of this process."""
        cpu = self.cpu_last - self.cpu_start
        return self.steps / (self.last - self.start), self.steps / max(cpu, 1e-9)


def simulate(units: int) -> None:
    """About a tenth of a millisecond of a native simulator for each unit."""
    for _ in range(units):
        zlib.compress(DATA, 6)


class World(gymnasium.Env[np.ndarray, Any]):
    """Twenty numbers, two actions, episodes of 200 steps; a step costs so many units."""

    observation_space = gymnasium.spaces.Box(-1, 1, (20,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, units: int) -> None:
        self.units = units
        self.made = 0

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.made = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        simulate(self.units)
        self.made += 1
        return self._seen(), float(action), False, self.made >= 200, {}

    def _seen(self) -> np.ndarray:
        return self.np_random.random(20, np.float32)


def one_thread(threads: int = 1) -> None:
    """So many threads for PyTorch: programs measure themselves and not their thread pools."""
    import torch

    torch.set_num_threads(threads)
