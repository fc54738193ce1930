"""An accelerator that only sleeps, so that the balance of CPU and accelerator can be studied without one.

It serves one request at a time, first come, first served; inference and training share it like a GPU.
"""

from __future__ import annotations

import ctypes
import time
from multiprocessing.synchronize import Lock

import numpy as np

from .config import EmulatedDevice
from .envs import EnvSpec
from .shared import Array
from .transport import Requests
from .unrolls import Layout, Unrolls

PR_SET_TIMERSLACK = 29


def sharpen_sleep() -> None:
    """Lets this thread's sleeps end within a microsecond or so instead of the kernel's usual 50."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


class Accelerator:
    """The device as one process sees it; the lock is what makes it one device."""

    def __init__(self, device: EmulatedDevice, lock: Lock) -> None:
        self.device, self._lock = device, lock
        sharpen_sleep()

    def infer(self, observations: int) -> None:
        self._run(self.device.a_us + self.device.b_us * observations)

    def train(self) -> None:
        self._run(self.device.train_us)

    def _run(self, microseconds: float) -> None:
        with self._lock:
            time.sleep(microseconds * 1e-6)


class EmulatedPolicy:
    """Random actions after the time an accelerator would take."""

    def __init__(self, accelerator: Accelerator, layout: Layout, seed: int) -> None:
        self._accelerator = accelerator
        self._spec: EnvSpec = layout.spec
        self._random = np.random.default_rng(seed)
        self._state = layout.zeros(1)

    def reset(self, envs: Array) -> None:
        """Nothing is remembered."""

    def state(self, envs: Array) -> Unrolls:
        return self._state

    def act(self, requests: Requests) -> tuple[Array, Array]:
        count = len(requests.envs)
        self._accelerator.infer(count)
        actions = self._random.integers(0, self._spec.actions, count)
        return actions, np.zeros((count, self._spec.actions), np.float32)
