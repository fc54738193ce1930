"""Bias of the correction from units that were left unrecorded: one half calibrates, the other half is the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from cutaway.calibration.estimate import Units, calibrate, pairs
from cutaway.calibration.prior import Prior

TRIM = 0.1  # share of the pairs cut off at each end


@dataclass(frozen=True)
class Bias:
    """Recorded ÷ true CPU time before and after correction, with 95 % intervals, and the interval the correction claims."""

    raw: tuple[float, float, float]
    corrected: tuple[float, float, float]
    claimed: float
    units: int

    @property
    def inside(self) -> bool:
        """Whether the truth lies in what the correction claims, given how well the truth itself is known."""
        known = (self.corrected[2] - self.corrected[1]) / 2
        return abs(self.corrected[0] - 1) <= self.claimed + known


def bias(threads: Sequence[Units], prior: Prior) -> Bias:
    """Over all threads of a run that have unrecorded units."""
    random = np.random.default_rng(7)
    halves = [random.random(len(u)) < 0.5 for u in threads]
    found = calibrate(
        [_select(u, ~u.off | h) for u, h in zip(threads, halves, strict=True)], prior
    )
    cost = {
        k: found.costs.inside[k].ns + found.costs.outside[k].ns
        for k in ("call", "operation")
    }
    spread = {
        k: found.costs.inside[k].high + found.costs.outside[k].high - cost[k]
        for k in cost
    }
    truth = [
        pairs(_select(u, ~(u.off & h))) for u, h in zip(threads, halves, strict=True)
    ]
    off, on, calls, operations = np.concatenate(truth, axis=1)
    paid, unsure = (
        calls * c["call"] + operations * c["operation"] for c in (cost, spread)
    )
    return Bias(
        _interval(on, off, random),
        _interval(on - paid, off, random),
        float(np.nansum(unsure) / np.nansum(np.where(np.isnan(on), np.nan, off))),
        len(off),
    )


def _select(u: Units, keep: NDArray[np.bool_]) -> Units:
    return Units(*(getattr(u, f.name)[keep] for f in fields(Units)))


def _interval(
    on: NDArray[np.float64], off: NDArray[np.float64], random: np.random.Generator
) -> tuple[float, float, float]:
    """Of the ratio, over unrecorded units drawn again."""
    draws = [random.integers(0, len(off), len(off)) for _ in range(400)]
    low, high = np.quantile([_ratio(on[d], off[d]) for d in draws], [0.025, 0.975])
    return _ratio(on, off), float(low), float(high)


def _ratio(on: NDArray[np.float64], off: NDArray[np.float64]) -> float:
    """Recorded ÷ unrecorded, without the pairs that differ most."""
    there = ~np.isnan(on)
    on, off = on[there], off[there]
    share = (on - off) / (on + off)
    low, high = np.quantile(share, [TRIM, 1 - TRIM])
    keep = (share >= low) & (share <= high)
    return float(np.sum(on[keep]) / np.sum(off[keep]))
