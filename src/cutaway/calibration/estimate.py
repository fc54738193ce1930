"""The cost of an event in this very run, with its interval, from units of its work and a prior; see docs/correction.md.

The recorder leaves a few units (a step, an iteration, or several of them) unrecorded and notes the thread's CPU time around each. On
the driving thread the records read: CpuTime … CpuTime [Pause … Resume CpuTime CpuTime] CpuTime …; the two after Resume bound
the unrecorded unit. Iterations in it are marked inside the pause, each after the steps before it; Resume's value and id count what
is not. A CpuTime right before an Iteration bounds no unit.

Every unrecorded unit is paired with its recorded neighbours of the same kind (with or without the boundary of an iteration in it,
where training happens), their CPU time brought to the same number of steps, so that drift and warming-up cancel. The
differences, trimmed alike on both sides, say what the events of a unit cost together; relative to what the prior expects for these
events this is one factor (a ratio of sums, as units with many events say more), which corrects the prior for caches and
everything else that a benchmark cannot know. Prior and measurement are combined by their precision: a short run leans on the
prior, a long one on itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.calibration.costs import Cost, Costs
from cutaway.calibration.prior import Prior
from cutaway.trace.format import Structured
from cutaway.vocabulary import Kind

Floats = NDArray[np.float64]

NEIGHBOURS = 4  # recorded units on each side
TRIM = 0.1  # share cut off at each end: rare dear events are cost too, what disturbs is on both sides alike
ENOUGH = 5  # unrecorded units below which only the prior speaks
CALIBRATION = 1  # reason of a pause
MARK = np.dtype(
    [(name, "<u8") for name in ("cpu_ns", "steps", "calls", "operations")]
    + [(name, "<u4") for name in ("iterations", "pauses", "value", "id")]
    + [("before", "u1"), ("reason", "u1"), ("", "V6")]
)
"""`UnitMark` of native/sweep/tables.h: a note of the thread's CPU time, and what had happened by then."""


@dataclass(frozen=True)
class Units:
    """One row a unit, in order of time: CPU nanoseconds, steps and iterations in it, recorded calls and operations, and whether
    it was left unrecorded."""

    cpu_ns: Floats
    steps: Floats
    calls: Floats
    operations: Floats
    off: NDArray[np.bool_]
    iterations: Floats

    def __len__(self) -> int:
        return len(self.cpu_ns)


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


def units(marks: Iterable[NDArray[Any]]) -> list[Units]:
    """The units of every thread of the run that has unrecorded ones; `marks` are the sweep's, one array a thread."""
    found = [_units(m.view(MARK)) for m in marks]
    return [u for u in found if np.any(u.off)]


def _units(m: Structured) -> Units:
    """Units of one thread: the stretches between two notes of its CPU time."""

    def before(values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([np.zeros(1, values.dtype), values])[: len(values)]

    names = ("cpu_ns", "steps", "calls", "operations", "iterations")
    cpu, steps, calls, operations, iterations = (
        np.diff(m[name].astype(np.float64)) for name in names
    )
    here = m[: len(cpu)]
    resumed = here["before"] == Kind.RESUME
    off = resumed & (here["reason"] == CALIBRATION)
    # A stretch with a pause inside is neither recorded nor unrecorded as a whole. The one after an unrecorded unit is the switch,
    # and the one after that finds what the recorder needs gone from the caches, as it never is in a run that is recorded all along.
    switch = before(off)
    whole = off | (~resumed & (np.diff(m["pauses"].astype(np.int64)) == 0))
    use = (cpu > 0) & ~switch & ~before(switch) & whole
    # The bounds of an unrecorded unit stand after it: what is marked in it lies before them.
    steps = np.where(off, before(steps) + here["value"], steps)
    iterations = np.where(off, before(iterations) + here["id"], iterations)
    return Units(
        cpu[use], steps[use], calls[use], operations[use], off[use], iterations[use]
    )


def calibrate(units: Sequence[Units], prior: Prior) -> Calibration:
    """The costs: each kind's prior at one factor, split into the parts inside and outside the recorded interval."""
    call = prior.kinds["call"]
    measured = _measure(units, prior)
    # The prior says 1, within what lies between a hot loop and evicted caches (the ends count as two standard errors).
    spread = (
        max(abs(call.cold.ns - call.middle), abs(call.middle - call.hot.ns))
        / call.middle
        / 2
    )
    factor = Factor(1.0, max(spread, 0.1), 0)
    if measured is not None:
        # Where they contradict each other, the run itself is believed more than any benchmark.
        wide = max(factor.error, abs(factor.value - measured.value) / 2)
        a = 1 / wide**2
        b = 1 / measured.error**2
        factor = Factor(
            (a * factor.value + b * measured.value) / (a + b),
            float((a + b) ** -0.5),
            measured.units,
        )
    value = max(0.0, factor.value)
    half = 1.96 * factor.error
    inside: dict[str, Cost] = {}
    outside: dict[str, Cost] = {}
    for name, kind in prior.kinds.items():
        share = min(1.0, max(0.0, kind.inside / max(kind.hot.ns, 1e-9)))
        for side, ns in (
            (inside, kind.middle * share),
            (outside, kind.middle * (1 - share)),
        ):
            side[name] = Cost(
                ns * value, ns * max(0.0, value - half), ns * (value + half)
            )
    return Calibration(Costs(inside, outside), factor, measured)


def pairs(u: Units) -> Floats:
    """What unrecorded units took, what their recorded neighbours took, and the calls and operations of these, brought to the
    same work: four tables with a row for each unrecorded unit and a column for each neighbour, NaN where there is none."""
    if np.any(u.steps > 0):
        steps = u.steps
        iterations = u.iterations
    else:
        steps = u.iterations
        iterations = np.zeros(len(u))
    on = ~u.off & (steps > 0)
    plain = on & (iterations == 0)
    if np.count_nonzero(plain) < 0.1 * np.count_nonzero(on):
        plain, iterations = (
            on,
            np.zeros(len(u)),
        )  # every step is an iteration: there is one kind of unit
    kinds = {False: np.flatnonzero(plain), True: np.flatnonzero(on & (iterations > 0))}
    columns = np.stack([u.cpu_ns, u.calls, u.operations])

    def nearest(long: bool, i: int) -> NDArray[np.intp]:
        at = int(np.searchsorted(kinds[long], i))
        return kinds[long][max(0, at - NEIGHBOURS) : at + NEIGHBOURS]

    rows = [np.zeros((4, 0, 2 * NEIGHBOURS))]
    for i in np.flatnonzero(u.off & (steps > 0)).tolist():
        long = bool(iterations[i] > 0)
        near = nearest(long, i)
        if len(near) < NEIGHBOURS:
            continue
        row = np.full((4, 1, 2 * NEIGHBOURS), np.nan)
        row[0] = u.cpu_ns[i]
        if long:  # training and some steps: more or fewer steps are added at their usual price
            around = nearest(False, i)
            if len(around):
                each = np.median(columns[:, around] / steps[around], axis=1)
            else:
                each = np.zeros(3)
            row[1:, 0, : len(near)] = columns[:, near] + each[:, None] * (
                steps[i] - steps[near]
            )
        else:
            row[1:, 0, : len(near)] = columns[:, near] * (steps[i] / steps[near])
        rows.append(row)
    return np.concatenate(rows, axis=1)


def _measure(units: Sequence[Units], prior: Prior) -> Factor | None:
    if not units:
        return None
    off, on, calls, operations = np.concatenate(
        [pairs(thread) for thread in units], axis=1
    )
    expected = (
        calls * prior.kinds["call"].middle
        + operations * prior.kinds["operation"].middle
    )
    some = np.any(expected > 0, axis=1)
    off = off[some]
    on = on[some]
    expected = expected[some]
    if len(off) < ENOUGH:
        return None
    random = np.random.default_rng(1)
    draws = [random.integers(0, len(off), len(off)) for _ in range(200)]
    error = float(np.std([_ratio(on[d], off[d], expected[d]) for d in draws], ddof=1))
    few = 1 + 1.5 / (len(off) - 1)  # Student's
    return Factor(_ratio(on, off, expected), max(1.1 * few * error, 1e-3), len(off))


def _ratio(on: Floats, off: Floats, expected: Floats) -> float:
    """What the units cost together ÷ what was expected, without the pairs that differ most from the rest."""
    there = expected > 0  # and not NaN
    on = on[there]
    off = off[there]
    expected = expected[there]
    first = float(np.median((on - off) / expected))
    unlike = (on - off - first * expected) / (on + off)
    low, high = np.quantile(unlike, [TRIM, 1 - TRIM])
    keep = (unlike >= low) & (unlike <= high)
    return float(np.sum((on - off)[keep]) / np.sum(expected[keep]))
