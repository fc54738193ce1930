"""From units and a prior to the cost of an event in this very run, with its interval; see docs/correction.md.

Every unrecorded unit is paired with its recorded neighbours of the same kind (with or without the boundary of an iteration in it,
where training happens), their CPU time brought to the same number of steps, so that drift and warming-up cancel. The
differences, trimmed alike on both sides, say what the events of a unit cost together; relative to what the prior expects for these
events this is one factor (a ratio of sums, as units with many events say more), which corrects the prior for caches and
everything else that a benchmark cannot know. Prior and measurement are combined by their precision: a short run leans on the
prior, a long one on itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.calibration.costs import Cost, Costs
from cutaway.calibration.prior import Kind, Prior, of_run
from cutaway.calibration.units import Units, units
from cutaway.trace.reader import Trace

NEIGHBOURS = 4  # recorded units on each side
TRIM = 0.1  # share cut off at each end: rare dear events are cost too, what disturbs is on both sides alike
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


def calibrate_run(trace: Trace, marks: Sequence[NDArray[Any]]) -> Calibration | None:
    """The costs of a run from its own units, of which the sweep noted `marks`, and the prior it was recorded with. None for a
    run that Cutaway did not record."""
    return calibrate(units(marks), of_run(trace.path)) if "cutaway" in trace.about else None


def calibrate(units: Sequence[Units], prior: Prior) -> Calibration:
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


@dataclass(frozen=True)
class Pairs:
    """One row for each unrecorded unit, one column for each recorded neighbour, brought to the same work; NaN where there is none."""

    off_ns: NDArray[np.float64]
    on_ns: NDArray[np.float64]
    calls: NDArray[np.float64]
    operations: NDArray[np.float64]


def pairs(u: Units) -> Pairs:
    """Unrecorded units and what their recorded neighbours took for the same work."""
    steps, iterations = (u.steps, u.iterations) if np.any(u.steps > 0) else (u.iterations, np.zeros(len(u)))
    on = ~u.off & (steps > 0)
    plain = on & (iterations == 0)
    if np.count_nonzero(plain) < 0.1 * np.count_nonzero(on):
        plain, iterations = on, np.zeros(len(u))  # every step is an iteration: there is one kind of unit
    kinds = {False: np.flatnonzero(plain), True: np.flatnonzero(on & (iterations > 0))}
    columns = np.stack([u.cpu_ns, u.calls, u.operations])
    rows = []
    for i in np.flatnonzero(u.off & (steps > 0)):
        long = bool(iterations[i] > 0)
        near = _nearest(kinds[long], i)
        if len(near) < NEIGHBOURS:
            continue
        row = np.full((4, 2 * NEIGHBOURS), np.nan)
        row[0] = u.cpu_ns[i]
        if long:  # training and some steps: more or fewer steps are added at their usual price
            around = _nearest(kinds[False], i)
            each = np.median(columns[:, around] / steps[around], axis=1) if len(around) else np.zeros(3)
            row[1:, : len(near)] = columns[:, near] + each[:, None] * (steps[i] - steps[near])
        else:
            row[1:, : len(near)] = columns[:, near] * (steps[i] / steps[near])
        rows.append(row)
    table = np.stack(rows) if rows else np.zeros((0, 4, 2 * NEIGHBOURS))
    return Pairs(*(table[:, k] for k in range(4)))


def _nearest(among: NDArray[np.intp], i: np.intp) -> NDArray[np.intp]:
    at = int(np.searchsorted(among, i))
    return among[max(0, at - NEIGHBOURS) : at + NEIGHBOURS]


def _measure(units: Sequence[Units], prior: Prior) -> Factor | None:
    found = [pairs(thread) for thread in units]
    if not found:
        return None
    off, on, calls, operations = (
        np.concatenate([getattr(p, name) for p in found])
        for name in ("off_ns", "on_ns", "calls", "operations")
    )
    expected = calls * prior.kinds["call"].middle + operations * prior.kinds["operation"].middle
    some = np.any(expected > 0, axis=1)
    off, on, expected = off[some], on[some], expected[some]
    if len(off) < ENOUGH:
        return None
    random = np.random.default_rng(1)
    draws = [random.integers(0, len(off), len(off)) for _ in range(200)]
    error = float(np.std([_ratio(on[d], off[d], expected[d]) for d in draws], ddof=1))
    few = 1 + 1.5 / (len(off) - 1)  # Student's
    return Factor(_ratio(on, off, expected), max(1.1 * few * error, 1e-3), len(off))


def _ratio(on: NDArray[np.float64], off: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """What the units cost together ÷ what was expected, without the pairs that differ most from the rest."""
    there = expected > 0  # and not NaN
    on, off, expected = on[there], off[there], expected[there]
    first = float(np.median((on - off) / expected))
    keep = _middle((on - off - first * expected) / (on + off))
    return float(np.sum((on - off)[keep]) / np.sum(expected[keep]))


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
