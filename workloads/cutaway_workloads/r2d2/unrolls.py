"""Unrolls: stretches of fixed length of one environment's experience, and the bounded queue they travel in.

Step t of an unroll holds the observation, the reward and the flag that came with it (`done`: this observation
is the first of a new episode), the action chosen for it and the network's output (Q values or logits).
`h`, `c`, `previous` (frames) and `previous_action` are what the network remembered before step 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Semaphore

import numpy as np

from .config import Config
from .envs import EnvSpec
from .shared import Array, Block, Context, Field, learner_alive

Unrolls = dict[str, Array]
STEP_FIELDS = ("obs", "reward", "done", "action", "output")
STATE_FIELDS = ("h", "c", "previous", "previous_action")


@dataclass(frozen=True)
class Layout:
    """Shapes and types of one unroll."""

    spec: EnvSpec
    length: int
    overlap: int
    lstm: int

    @classmethod
    def of(cls, config: Config, spec: EnvSpec) -> Layout:
        return cls(spec, config.length, config.overlap, config.network.lstm)

    def fields(self, count: int) -> list[Field]:
        spec, steps = self.spec, (count, self.length)
        return [
            Field("obs", (*steps, *spec.shape), spec.dtype),
            Field("reward", steps, "float32"),
            Field("done", steps, "uint8"),
            Field("action", steps, "int64"),
            Field("output", (*steps, spec.actions), "float32"),
            Field("h", (count, self.lstm), "float32"),
            Field("c", (count, self.lstm), "float32"),
            Field("previous", (count, spec.stack - 1, *spec.shape), spec.dtype),
            Field("previous_action", (count,), "int64"),
        ]

    def zeros(self, count: int) -> Unrolls:
        """Room for `count` unrolls; the pages of a large one are only taken when they are written."""
        return {f.name: np.zeros(f.shape, f.dtype) for f in self.fields(count)}


class UnrollStore:
    """Grows one unroll for each environment. The end of an unroll (burn-in and one step) starts the next."""

    def __init__(self, layout: Layout, environments: int) -> None:
        self.layout = layout
        self.data = layout.zeros(environments)
        self._later = {name: self.data[name].copy() for name in STATE_FIELDS}
        self._at = np.zeros(environments, dtype=np.int64)
        self._next_start = layout.length - layout.overlap - 1
        self.reset(np.arange(environments))

    def reset(self, envs: Array) -> None:
        """Forgets these environments' experience; what comes before a first step counts as ended episodes."""
        for name in (*STEP_FIELDS, *STATE_FIELDS):
            self.data[name][envs] = 0
        self.data["done"][envs, : self.layout.overlap] = 1
        self._at[envs] = self.layout.overlap

    def starting(self, envs: Array) -> Array:
        """Those whose coming step will be step 0 of their next unroll: `remember` the state for them."""
        selected: Array = envs[self._at[envs] == self._next_start]
        return selected

    def remember(self, envs: Array, state: Unrolls) -> None:
        for name in STATE_FIELDS:
            self._later[name][envs] = state[name]

    def append(self, envs: Array, step: Unrolls) -> list[int]:
        """Adds one step; returns the environments whose unroll is now complete (hand them to `finish`)."""
        at = self._at[envs]
        for name in STEP_FIELDS:
            self.data[name][envs, at] = step[name]
        self._at[envs] = at + 1
        complete: list[int] = envs[at + 1 == self.layout.length].tolist()
        return complete

    def finish(self, env: int, write: Callable[[Unrolls], bool]) -> bool:
        """Hands a complete unroll to `write` and starts the next one with its end."""
        written = write({name: array[env] for name, array in self.data.items()})
        kept = self.layout.overlap + 1
        for name in STEP_FIELDS:
            row = self.data[name][env]
            row[:kept] = row[-kept:].copy()
        for name in STATE_FIELDS:
            self.data[name][env] = self._later[name][env]
        self._at[env] = kept
        return written


class UnrollQueue:
    """A bounded ring of unrolls in shared memory, one writer and one reader; a full one blocks the writer."""

    PATIENCE = 0.25

    def __init__(self, ctx: Context, layout: Layout, capacity: int) -> None:
        self.layout, self.capacity = layout, capacity
        self.block = Block(
            ctx, [*layout.fields(capacity), Field("closed", (1,), "uint8")]
        )
        self._free: Semaphore = ctx.Semaphore(capacity)
        self._filled: Semaphore = ctx.Semaphore(0)
        self._views: Unrolls = {}
        self._put = self._got = 0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_views": {}}

    @property
    def views(self) -> Unrolls:
        if not self._views:
            self._views = self.block.arrays()
        return self._views

    @property
    def closed(self) -> bool:
        return bool(self.views["closed"][0])

    def close(self) -> None:
        self.views["closed"][0] = 1

    def put(self, unroll: Unrolls) -> bool:
        """Copies an unroll in, waiting for room; False when the queue was closed or the reader died meanwhile."""
        while not self._free.acquire(True, self.PATIENCE):
            if self.closed or not learner_alive():
                return False
        row = self._put % self.capacity
        for name, value in unroll.items():
            self.views[name][row] = value
        self._put += 1
        self._filled.release()
        return True

    def get(self, into: Unrolls, at: int, timeout: float) -> bool:
        """Moves the oldest unroll into row `at` of `into`; False when none came in time."""
        if not self._filled.acquire(True, timeout):
            return False
        row = self._got % self.capacity
        for name, target in into.items():
            target[at] = self.views[name][row]
        self._got += 1
        self._free.release()
        return True
