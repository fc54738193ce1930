"""Ratios with intervals from pairs of blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ratio:
    value: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}–{self.high:.3f}]"


def ratio(blocks: list[dict[str, int]], clock: str = "thread_ns", draws: int = 4000) -> Ratio:
    """Time with the tool ÷ time without it. The pairs are drawn again and again for the 95 % interval.

    A pair in which something else ran away with the machine tells about that: the tenth of the pairs whose own ratio
    is the most extreme, on both sides alike, is left out.
    """
    pairs = [(a, b) if a["on"] else (b, a) for a, b in zip(blocks[::2], blocks[1::2], strict=False)]
    times = np.array([(on[clock], off[clock]) for on, off in pairs], dtype=float)
    times = _trimmed(times, 0.05)
    random = np.random.default_rng(1)
    drawn = times[random.integers(len(times), size=(draws, len(times)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    on, off = times.sum(axis=0)
    return Ratio(on / off, float(low), float(high), len(times))


def _trimmed(times: np.ndarray, share: float) -> np.ndarray:
    order = np.argsort(times[:, 0] / times[:, 1])
    cut = int(len(order) * share)
    return times[order[cut : len(order) - cut]]
