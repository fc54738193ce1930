"""A learner whose training is the sleep of an emulated accelerator; replay and queue are real."""

from __future__ import annotations

from multiprocessing.synchronize import Lock
from typing import Any

import numpy as np

import cutaway

from .config import Config, EmulatedDevice
from .emulation import Accelerator
from .replay import Replay
from .unrolls import Layout, Unrolls


class EmulatedLearner:
    """Same rate lock and same traffic of unrolls as the real one, without its arithmetic."""

    def __init__(
        self, config: Config, device: EmulatedDevice, layout: Layout, lock: Lock
    ) -> None:
        self.config, self._accelerator = config, Accelerator(device, lock)
        self.replay = (
            Replay(layout, config.replay, config.seed)
            if config.algorithm == "r2d2"
            else None
        )

    def feed(self, unrolls: Unrolls) -> None:
        if self.replay is not None:
            with cutaway.operation("replay"):
                self.replay.insert(unrolls, np.ones(len(unrolls["previous_action"])))

    def ready(self) -> bool:
        return self.replay is None or len(self.replay) >= self.config.replay.minimum

    def update(self) -> dict[str, float]:
        if self.replay is not None:
            with cutaway.operation("replay"):
                self.replay.sample(self.config.batch)
        with cutaway.operation("backpropagation"):
            self._accelerator.train()
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing was learnt."""
