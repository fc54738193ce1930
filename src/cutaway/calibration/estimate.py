"""From units and a prior to the cost of an event in this very run, with its interval. Pure; see docs/correction.md.

Every unrecorded unit is compared with its recorded neighbours, in CPU time for each step of the program, so that drift and
warming-up cancel. The differences, trimmed against outliers, say what the events of a unit cost together; relative to what
the prior expects for these events this is one factor (a ratio of sums, as units with many events say more), which corrects
the prior for caches and everything else that a benchmark cannot know. Prior and measurement are combined by their precision: a
short run leans on the prior, a long one on itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.correction import Cost, Costs
from cutaway.calibration.prior import Kind, Prior
from cutaway.calibration.units import Units

NEIGHBOURS = 4  # recorded units on each side
TRIM = 0.2  # share cut off at each end
ENOUGH = 5  # unrecorded units below which only the prior speaks


@dataclass(frozen=True)
class Factor:
    """Cost of an event in this run relative to the prior's middle, its standard error, and the unrecorded units it rests on."""

    value: float
    error: float
    units: int


@dataclass(frozen=True)
class Calibration:
    """What was found: the costs for the sweep, and how they came about."""

    costs: Costs
    factor: Factor
    measured: Factor | None


def calibrate(units: Sequence[Units], prior: Prior) -> Calibration:
    """The costs of a run."""
    before = _prior_factor(prior)
    measured = _measure(units, prior)
    factor = before if measured is None else _combine(before, measured)
    return Calibration(_costs(prior, factor), factor, measured)


def _prior_factor(prior: Prior) -> Factor:
    """1, within what lies between a hot loop and evicted caches (the ends count as two standard errors)."""
    call = prior.kinds["call"]
    spread = max(abs(call.cold.ns - call.middle), abs(call.middle - call.hot.ns)) / call.middle / 2
    return Factor(1.0, max(spread, 0.1), 0)


def _combine(a: Factor, b: Factor) -> Factor:
    """Both by their precision. Where they contradict each other, the run itself is believed more than any benchmark."""
    gap = abs(a.value - b.value)
    wide = max(a.error, gap / 2)
    w = (1 / wide**2, 1 / b.error**2)
    return Factor((a.value * w[0] + b.value * w[1]) / sum(w), float(sum(w) ** -0.5), b.units)


def _measure(units: Sequence[Units], prior: Prior) -> Factor | None:
    ratios, weights = [], []
    for thread in units:
        difference, expected = _differences(thread, prior)
        ratios.append(difference)
        weights.append(expected)
    extra = np.concatenate(ratios) if ratios else np.zeros(0)
    expected = np.concatenate(weights) if weights else np.zeros(0)
    if np.count_nonzero(expected > 0) < ENOUGH:
        return None
    some = expected > 0
    extra, expected = extra[some], expected[some]
    random = np.random.default_rng(1)
    draws = [random.integers(0, len(extra), len(extra)) for _ in range(200)]
    error = float(np.std([_ratio(extra[d], expected[d]) for d in draws], ddof=1))
    return Factor(_ratio(extra, expected), max(1.1 * error, 1e-3), len(extra))


def _ratio(extra: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """What the units cost together ÷ what was expected, without those that differ most from the rest."""
    keep = _middle(extra - float(np.median(extra / expected)) * expected)
    return float(np.mean(extra[keep]) / np.mean(expected[keep]))


def _differences(u: Units, prior: Prior) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each unrecorded unit: how much more CPU its recorded neighbours took for the same work, and what the prior expects."""
    cost = u.calls * prior.kinds["call"].middle + u.operations * prior.kinds["operation"].middle
    work = np.where(u.steps > 0, u.steps, 1.0)
    per_work, expected = u.cpu_ns / work, cost / work
    on = np.flatnonzero(~u.off)
    extra, want = [], []
    for i in np.flatnonzero(u.off):
        at = int(np.searchsorted(on, i))
        near = on[max(0, at - NEIGHBOURS) : at + NEIGHBOURS]
        if len(near) < NEIGHBOURS:
            continue
        typical = float(np.median(per_work[near]))
        extra.append((typical - per_work[i]) * work[i])
        want.append(float(np.median(expected[near])) * work[i])
    return np.array(extra), np.array(want)


def _middle(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    low, high = np.quantile(values, [TRIM, 1 - TRIM])
    return np.asarray((values >= low) & (values <= high))


def _costs(prior: Prior, factor: Factor) -> Costs:
    """Costs of each kind at the factor, split into the parts inside and outside the recorded interval."""
    inside, outside = {}, {}
    for name, kind in prior.kinds.items():
        share = min(1.0, max(0.0, kind.inside / max(kind.hot.ns, 1e-9)))
        inside[name] = _cost(kind, factor, share)
        outside[name] = _cost(kind, factor, 1 - share)
    return Costs(inside, outside)


def _cost(kind: Kind, factor: Factor, share: float) -> Cost:
    ns = kind.middle * share
    value = max(0.0, factor.value)
    return Cost(ns * value, ns * max(0.0, value - 1.96 * factor.error), ns * (value + 1.96 * factor.error))
