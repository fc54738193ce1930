"""Counters the inference server writes and the learner's process reads, in shared memory."""

from __future__ import annotations

import numpy as np

from .shared import Block, Context, Field

RECENT = 100


class Statistics:
    """The shared block; `open` gives a process its view of it."""

    def __init__(self, ctx: Context) -> None:
        fields = [
            Field("counts", (4,), "int64"),
            Field("recent", (2, RECENT), "float64"),
        ]
        self.block = Block(ctx, fields)

    def open(self) -> Counters:
        return Counters(self)


class Counters:
    """Steps, batches, episodes and the last hundred returns. One writer, any number of readers."""

    def __init__(self, statistics: Statistics) -> None:
        arrays = statistics.block.arrays()
        self._counts, self._recent = arrays["counts"], arrays["recent"]

    @property
    def steps(self) -> int:
        """Agent steps: one for each action, however many frames it is repeated for."""
        return int(self._counts[0])

    @steps.setter
    def steps(self, value: int) -> None:
        self._counts[0] = value

    @property
    def batches(self) -> int:
        return int(self._counts[1])

    @batches.setter
    def batches(self, value: int) -> None:
        self._counts[1] = value

    @property
    def episodes(self) -> int:
        return int(self._counts[2])

    def episode(self, env: int, score: float) -> None:
        row = self.episodes % RECENT
        self._recent[:, row] = env, score
        self._counts[2] += 1

    def mean_return(self, first_env: int = 0) -> float:
        """Mean return of the last episodes of the environments from `first_env` on; NaN without any."""
        known = self._recent[:, : min(self.episodes, RECENT)]
        scores = known[1, known[0] >= first_env]
        return float(np.mean(scores)) if scores.size else float("nan")
