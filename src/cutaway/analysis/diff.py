"""What changed between two runs (or two sets of runs), cell by cell, for each iteration of the training loop.

The unit is an iteration of the steady state. Intervals are 95 % percentile intervals of a bootstrap: iterations are drawn
again, in blocks of neighbours so that slow drifts count as what they are; with several runs on a side, whole runs are drawn
first. A change that the interval does not separate from zero is not called one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Floats = NDArray[np.float64]
Key = tuple[str, str, str, str]
"""Process, operation, layer, resource."""

RESAMPLES = 2000
FEWEST_UNITS = 5
"""Fewer iterations than this say nothing about how much they vary."""
MOST_PART = 0.5
"""What must have been recorded of an iteration that counts."""
_MOST_BLOCKS = 400


@dataclass(frozen=True)
class Interval:
    """A difference and its 95 % interval; the bounds are NaN where too little is known."""

    value: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Diff:
    """The answer: the whole, and the cells that explain it, the largest change first."""

    unit: str
    a_ns: float
    b_ns: float
    change: Interval
    """Of the time of an iteration, relative to A: 0.05 means 5 % slower."""
    cells: Table
    units: tuple[int, int]

    def regressed(self, threshold: float) -> bool:
        """Whether B is slower by more than `threshold`, and the interval excludes that it is not."""
        return self.change.low > threshold


@dataclass(frozen=True)
class _Side:
    """One run: the time of every unit, and of every cell in it."""

    total: Floats
    keys: list[Key]
    cells: Floats  # (units, cells)


def compare(a: list[Run], b: list[Run], seed: int = 0) -> Diff:
    """Compares run(s) `b` with run(s) `a`."""
    iterates = all(len(_units(run)) for run in (*a, *b))
    sides = [[_measure(run) if iterates else _whole(run) for run in runs] for runs in (a, b)]
    keys = sorted({key for side in sides for one in side for key in one.keys})
    columns = [[_spread(one, keys) for one in side] for side in sides]
    rng = np.random.default_rng(seed)
    means = [np.mean([c.mean(axis=0) for c in side], axis=0) for side in columns]
    drawn = [_draw(side, rng) for side in columns]
    change = _relative(means, drawn)
    cells = _cells(keys, means, drawn)
    units = (sum(len(c) for c in columns[0]), sum(len(c) for c in columns[1]))
    unit = "iteration" if iterates else "run"
    return Diff(unit, float(means[0][0]), float(means[1][0]), change, cells, units)


def _units(run: Run) -> Table:
    """The iterations that count: of the process with the most of them, in the steady state, recorded for the most part. The
    last one is left out: nothing marks its end, so it holds the end of the program too."""
    iterations = run.steady().iterations()
    counted: list[int] = iterations["process"].tolist() if len(iterations) else []
    if not counted:
        return iterations
    lead = max(sorted(set(counted)), key=counted.count)
    own = iterations.where(process=lead)
    own = own.head(max(len(own) - 1, 0))
    return own.where(own["recorded"] >= MOST_PART)


def _measure(run: Run) -> _Side:
    own = _units(run)
    lead = int(own["process"][0])
    names = _labels(run)
    numbers = {int(n): i for i, n in enumerate(own["iteration"].tolist())}
    total = (own["end_ns"] - own["start_ns"]).astype(np.float64)
    by = ("process", "operation", "layer", "resource")
    found: dict[Key, Floats] = {}
    # Calibration pauses for moments: what was recorded of an iteration stands for all of it.
    whole = 1 / own["recorded"]
    split = run.breakdown(by=(*by, "iteration"))
    mine = split.where(process=lead)
    for row in zip(*(mine[c].tolist() for c in (*by[1:], "iteration", "ns")), strict=True):
        unit = numbers.get(int(row[3]))
        if unit is not None:
            key = (names[lead], str(row[0]), str(row[1]), str(row[2]))
            found.setdefault(key, np.zeros(len(total)))[unit] += row[4] * whole[unit]
    # Workers count no iterations, or others than the leader: their time is spread evenly over the leader's.
    others = run.steady().breakdown(by=by)
    for row in zip(*(others[c].tolist() for c in (*by, "ns")), strict=True):
        if row[0] != lead:
            key = (names[int(row[0])], str(row[1]), str(row[2]), str(row[3]))
            found.setdefault(key, np.zeros(len(total)))[:] += row[4] / len(total)
    return _side(total, found)


def _whole(run: Run) -> _Side:
    """A run without iterations is one unit."""
    names = _labels(run)
    by = ("process", "operation", "layer", "resource")
    table = run.breakdown(by=by)
    found: dict[Key, Floats] = {}
    for row in zip(*(table[c].tolist() for c in (*by, "ns")), strict=True):
        key = (names[int(row[0])], str(row[1]), str(row[2]), str(row[3]))
        found.setdefault(key, np.zeros(1))[0] += row[4]
    processes = run.processes()
    ends, starts = processes["end_ns"], processes["start_ns"]
    span = float(ends.max() - starts.min()) if len(processes) else 0.0
    return _side(np.array([span]), found)


def _labels(run: Run) -> list[str]:
    """Role or name of each process, without the number that tells siblings apart."""
    processes = run.processes()
    pairs = zip(processes["role"].tolist(), processes["name"].tolist(), strict=True)
    return [re.sub(r"[-_ #]*\d+$", "", str(role or name)) or str(name) for role, name in pairs]


def _side(total: Floats, found: dict[Key, Floats]) -> _Side:
    keys = sorted(found)
    cells = np.stack([found[key] for key in keys], axis=1) if keys else np.zeros((len(total), 0))
    return _Side(total, keys, cells)


def _spread(side: _Side, keys: list[Key]) -> Floats:
    """Units by [total, cell, cell, …] in the order of `keys`; neighbours merged into at most 400 blocks."""
    out = np.zeros((len(side.total), 1 + len(keys)))
    out[:, 0] = side.total
    position = {key: i + 1 for i, key in enumerate(keys)}
    for i, key in enumerate(side.keys):
        out[:, position[key]] = side.cells[:, i]
    if len(out) <= _MOST_BLOCKS:
        return out
    return np.stack([block.mean(axis=0) for block in np.array_split(out, _MOST_BLOCKS)])


def _draw(side: list[Floats], rng: np.random.Generator) -> Floats | None:
    """Means of units drawn again; None where there is too little to draw from."""
    if len(side) == 1:
        return _draw_units(side[0], rng) if len(side[0]) >= FEWEST_UNITS else None
    enough = all(len(one) >= FEWEST_UNITS for one in side)
    each = [
        _draw_units(one, rng) if enough else np.repeat(one.mean(axis=0)[None], RESAMPLES, axis=0)
        for one in side
    ]
    stacked = np.stack(each)  # (runs, resamples, columns)
    chosen = rng.integers(len(side), size=(len(side), RESAMPLES))
    return np.asarray(stacked[chosen, np.arange(RESAMPLES)].mean(axis=0))


def _draw_units(units: Floats, rng: np.random.Generator) -> Floats:
    n = len(units)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    return np.asarray(weights @ units)


def _bounds(values: Any) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _relative(means: list[Any], drawn: list[Floats | None]) -> Interval:
    a, b = float(means[0][0]), float(means[1][0])
    value = b / a - 1 if a else np.nan
    if drawn[0] is None or drawn[1] is None or not a:
        return Interval(value, np.nan, np.nan)
    base = np.maximum(drawn[0][:, 0], 1e-9)
    return Interval(value, *_bounds(drawn[1][:, 0] / base - 1))


def _cells(keys: list[Key], means: list[Any], drawn: list[Floats | None]) -> Table:
    rows = []
    whole = means[1][0] - means[0][0]
    for i, key in enumerate(keys, start=1):
        a, b = float(means[0][i]), float(means[1][i])
        low, high = np.nan, np.nan
        if drawn[0] is not None and drawn[1] is not None:
            low, high = _bounds(drawn[1][:, i] - drawn[0][:, i])
        interval = Interval(b - a, low, high)
        share = (b - a) / whole if whole else np.nan
        rows.append((*key, a, b, b - a, low, high, interval.certain, share))
    rows.sort(key=lambda row: -abs(row[6]))
    names = ("process", "operation", "layer", "resource", "a_ns", "b_ns", "change_ns", "low_ns", "high_ns")
    return Table.from_rows((*names, "certain", "share"), rows)
