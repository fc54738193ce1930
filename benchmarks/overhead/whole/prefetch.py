"""A learner whose batches are drawn by a thread: torch in one, NumPy in the other, a bounded queue between them, two busy cores."""

from __future__ import annotations

import queue
import threading

import numpy as np
import torch
from torch import nn

from benchmarks.overhead.whole.pace import run_for, seconds_asked

TRANSITIONS = 100_000
BATCH = 256


class Replay:
    """Proportional sampling, with observations normalised over the batch."""

    def __init__(self, normalised: int) -> None:
        self.normalised = normalised
        self.random = np.random.default_rng(1)
        self.observations = self.random.standard_normal(
            (TRANSITIONS, 24), dtype=np.float32
        )
        self.returns = self.random.standard_normal(TRANSITIONS, dtype=np.float32)
        self.cumulated = np.cumsum(self.random.random(TRANSITIONS) + 0.1)

    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        drawn = self.random.random(BATCH) * self.cumulated[-1]
        rows = np.searchsorted(self.cumulated, drawn)
        for _ in range(self.normalised):
            observations = self.observations[rows]
            spread = observations.std(0) + 1e-6
            observations = (observations - observations.mean(0)) / spread
        return observations, self.returns[rows]


class Learner:
    def __init__(
        self, batches: queue.Queue[tuple[np.ndarray, np.ndarray]], width: int
    ) -> None:
        self.batches = batches
        self.network = nn.Sequential(
            nn.Linear(24, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )
        self.optimizer = torch.optim.Adam(self.network.parameters())

    def update(self) -> None:
        observations, returns = self.batches.get()
        values = self.network(torch.as_tensor(observations)).squeeze(1)
        loss = nn.functional.mse_loss(values, torch.as_tensor(returns))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def learner(threads: int, width: int, normalised: int) -> Learner:
    """With so many threads in torch's pool, and a thread that draws its batches. Each batch is normalised so often that drawing
    it takes about as long as the update of networks of this width."""
    torch.set_num_threads(threads)
    batches: queue.Queue[tuple[np.ndarray, np.ndarray]] = queue.Queue(maxsize=4)
    replay = Replay(normalised)

    def draw() -> None:
        while True:
            batches.put(replay.sample())

    threading.Thread(target=draw, name="replay", daemon=True).start()
    return Learner(batches, width)


PREFETCH = {"threads": 1, "width": 256, "normalised": 25}
POOLS = {"threads": 2, "width": 512, "normalised": 60}


if __name__ == "__main__":
    run_for(seconds_asked(), learner(**PREFETCH).update)
