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


def ratio(
    blocks: list[dict[str, int]], clock: str = "thread_ns", draws: int = 2000
) -> Ratio:
    """Time with the tool ÷ time without it, the mean over the middle half of the pairs; drawn again for the 95 % interval.

    A pair in which something else ran away with the machine tells about that and not about the tool; on a shared machine
    this is so for many of them, on both sides alike.
    """
    pairs = [
        (a, b) if a["on"] else (b, a)
        for a, b in zip(blocks[::2], blocks[1::2], strict=False)
    ]
    ratios = np.log([on[clock] / off[clock] for on, off in pairs])
    random = np.random.default_rng(1)
    drawn = _middle(ratios[random.integers(len(ratios), size=(draws, len(ratios)))])
    low, high = np.exp(np.quantile(drawn, [0.025, 0.975]))
    return Ratio(float(np.exp(_middle(ratios))), float(low), float(high), len(ratios))


def _middle(ratios: np.ndarray) -> np.ndarray:
    cut = ratios.shape[-1] // 4
    return np.sort(ratios, axis=-1)[..., cut : ratios.shape[-1] - cut].mean(axis=-1)
