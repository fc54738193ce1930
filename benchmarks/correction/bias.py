"""Bias of the correction from units that were left unrecorded: one half calibrates, the other half is the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.calibration.estimate import calibrate
from cutaway.calibration.prior import Prior
from cutaway.calibration.units import Units

LONG = 4.0  # times the median CPU of a step: a unit with training in it, compared with its own kind


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
    found = calibrate([_select(u, ~u.off | h) for u, h in zip(threads, halves, strict=True)], prior)
    cost = {k: found.costs.inside[k].ns + found.costs.outside[k].ns for k in ("call", "operation")}
    spread = {k: found.costs.inside[k].high + found.costs.outside[k].high - cost[k] for k in cost}
    rows = [_select(u, ~(u.off & h)) for u, h in zip(threads, halves, strict=True)]
    off = np.concatenate([u.off for u in rows])
    steps = np.concatenate([np.maximum(u.steps, 1) for u in rows])
    raw = np.concatenate([u.cpu_ns for u in rows]) / steps
    paid = np.concatenate([u.calls * cost["call"] + u.operations * cost["operation"] for u in rows]) / steps
    unsure = (
        np.concatenate([u.calls * spread["call"] + u.operations * spread["operation"] for u in rows]) / steps
    )
    kind = (raw > LONG * np.median(raw)).astype(int)
    return Bias(
        _interval(raw, off, kind, random),
        _interval(raw - paid, off, kind, random),
        float(np.mean(unsure[~off]) / np.mean(raw[off])),
        int(np.count_nonzero(off)),
    )


def _select(u: Units, keep: NDArray[np.bool_]) -> Units:
    return Units(u.cpu_ns[keep], u.steps[keep], u.calls[keep], u.operations[keep], u.off[keep])


def _interval(
    values: NDArray[np.float64], off: NDArray[np.bool_], kind: NDArray[np.int64], random: np.random.Generator
) -> tuple[float, float, float]:
    draws = [_ratio(values, off, kind, random.integers(0, len(values), len(values))) for _ in range(400)]
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return _ratio(values, off, kind, np.arange(len(values))), float(low), float(high)


def _ratio(
    values: NDArray[np.float64], off: NDArray[np.bool_], kind: NDArray[np.int64], rows: NDArray[np.intp]
) -> float:
    """Recorded ÷ unrecorded, the kinds of units weighted as the recorded part of the program has them."""
    v, o, k = values[rows], off[rows], kind[rows]
    on = truth = 0.0
    for one in (0, 1):
        mine, theirs = v[(k == one) & ~o], v[(k == one) & o]
        if len(mine) and len(theirs):
            on += len(mine) * _trimmed(mine)
            truth += len(mine) * _trimmed(theirs)
    return on / truth if truth else float("nan")


def _trimmed(values: NDArray[np.float64]) -> float:
    if len(values) < 20:
        return float(np.mean(values))
    low, high = np.quantile(values, [0.05, 0.95])
    return float(np.mean(values[(values >= low) & (values <= high)]))
