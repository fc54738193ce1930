"""What changed between two runs (or two sets of runs), cell by cell, for each iteration of the training loop.

The unit is an iteration of the steady state. With several runs the 95 % interval comes from what whole runs differ by. With one
run on each side it is that of a bootstrap over iterations, widened by what the machine may have done: the noise between runs, what
others computed meanwhile, the time spent waiting for a core. A change that the interval does not separate from zero is not
called one. Where threads waited for cores, CPU time is compared instead of wall time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.noise import DISTURBED, Noise, doubts, noise_of, several_runs
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
    runs: tuple[int, int]
    queued: tuple[float, float]
    """Share of the time the leading thread waited for a core, on each side."""
    cpu: Interval | None
    """Change of the CPU time of the leading process; None where it was not sampled."""
    cpu_ns: tuple[float, float]
    floor: float
    """The change that one run on each side cannot tell from the machine's noise; 0 with several runs."""
    warnings: tuple[str, ...]

    @property
    def disturbed(self) -> bool:
        """Whether wall time says little, because threads waited for cores."""
        return max(self.queued) >= DISTURBED

    @property
    def judged(self) -> Interval:
        """The change that counts: of CPU time where wall time is disturbed and it is known."""
        return self.cpu if self.disturbed and self.cpu else self.change

    def regressed(self, threshold: float) -> bool:
        """Whether B is slower by more than `threshold`, and the interval excludes that it is not."""
        return self.judged.low > threshold


@dataclass(frozen=True)
class _Side:
    """One run: the time of every unit, and of every cell in it."""

    total: Floats
    keys: list[Key]
    cells: Floats  # (units, cells)
    noise: Noise


def compare(a: list[Run], b: list[Run], seed: int = 0) -> Diff:
    """Compares run(s) `b` with run(s) `a`."""
    iterates = all(len(_units(run)) for run in (*a, *b))
    sides = [[_measure(run) if iterates else _whole(run) for run in runs] for runs in (a, b)]
    keys = sorted({key for side in sides for one in side for key in one.keys})
    columns = [[_spread(one, keys) for one in side] for side in sides]
    means = [np.stack([c.mean(axis=0) for c in side]) for side in columns]  # (runs, columns)
    noise = [_worst([one.noise for one in side]) for side in sides]
    bounds = several_runs(*means)
    single = bounds is None
    if single:
        rng = np.random.default_rng(seed)
        drawn = [_draw_units(side[0], rng) if len(side[0]) >= FEWEST_UNITS else None for side in columns]
        bounds = _bounds(means, drawn, noise)
    middle = [side.mean(axis=0) for side in means]
    spent = [[one.noise.cpu_ns for one in side if one.noise.cpu_ns] for side in sides]
    base = float(middle[0][0])
    return Diff(
        unit="iteration" if iterates else "run",
        a_ns=base,
        b_ns=float(middle[1][0]),
        change=_relative(base, middle, bounds),
        cells=_cells(keys, middle, bounds),
        units=(sum(len(c) for c in columns[0]), sum(len(c) for c in columns[1])),
        runs=(len(a), len(b)),
        queued=(noise[0].queued, noise[1].queued),
        cpu=_cpu(spent, noise),
        cpu_ns=(float(np.mean(spent[0] or [0])), float(np.mean(spent[1] or [0]))),
        floor=max(n.floor for n in noise) if single else 0.0,
        warnings=doubts(a[0], b[0]),
    )


def _worst(noise: list[Noise]) -> Noise:
    return Noise(max(n.queued for n in noise), max(n.foreign for n in noise), noise[0].cpu_ns)


def _bounds(means: list[Floats], drawn: list[Floats | None], noise: list[Noise]) -> tuple[Any, Any] | None:
    """Of B - A with one run each: what a bootstrap finds, and what the machine may have added to either side."""
    if drawn[0] is None or drawn[1] is None:
        return None
    low, high = np.percentile(drawn[1] - drawn[0], [2.5, 97.5], axis=0)
    a, b = means[0][0], means[1][0]
    floor = max(n.floor for n in noise) * np.maximum(a, b)
    return low - floor - noise[1].queued * b, high + floor + noise[0].queued * a


def _relative(base: float, middle: list[Any], bounds: tuple[Any, Any] | None) -> Interval:
    value = float(middle[1][0]) / base - 1 if base else np.nan
    if bounds is None or not base:
        return Interval(value, np.nan, np.nan)
    return Interval(value, float(bounds[0][0]) / base, float(bounds[1][0]) / base)


def _cpu(spent: list[list[float]], noise: list[Noise]) -> Interval | None:
    """CPU time does not count waiting for a core, but neighbours still slow it down."""
    if not spent[0] or not spent[1]:
        return None
    a, b = (np.array(side) for side in spent)
    value = float(b.mean() / a.mean() - 1)
    found = several_runs(a, b)
    if found is not None:
        return Interval(value, float(found[0] / a.mean()), float(found[1] / a.mean()))
    floor = max(n.floor for n in noise)
    return Interval(value, (1 + value) / (1 + floor) - 1, (1 + value) * (1 + floor) - 1)


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
    starts = run.steady().iterations().where(process=lead)["start_ns"]
    return _side(total, found, noise_of(run, lead, starts))


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
    return _side(np.array([span]), found, noise_of(run, 0, starts[:0]) if len(processes) else Noise())


def _labels(run: Run) -> list[str]:
    """Role or name of each process, without the number that tells siblings apart."""
    processes = run.processes()
    pairs = zip(processes["role"].tolist(), processes["name"].tolist(), strict=True)
    return [re.sub(r"[-_ #]*\d+$", "", str(role or name)) or str(name) for role, name in pairs]


def _side(total: Floats, found: dict[Key, Floats], noise: Noise) -> _Side:
    keys = sorted(found)
    cells = np.stack([found[key] for key in keys], axis=1) if keys else np.zeros((len(total), 0))
    return _Side(total, keys, cells, noise)


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


def _draw_units(units: Floats, rng: np.random.Generator) -> Floats:
    n = len(units)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    return np.asarray(weights @ units)


def _cells(keys: list[Key], middle: list[Any], bounds: tuple[Any, Any] | None) -> Table:
    rows = []
    whole = middle[1][0] - middle[0][0]
    for i, key in enumerate(keys, start=1):
        a, b = float(middle[0][i]), float(middle[1][i])
        low, high = (float(bounds[0][i]), float(bounds[1][i])) if bounds else (np.nan, np.nan)
        interval = Interval(b - a, low, high)
        share = (b - a) / whole if whole else np.nan
        rows.append((*key, a, b, b - a, low, high, interval.certain, share))
    rows.sort(key=lambda row: -abs(row[6]))
    names = ("process", "operation", "layer", "resource", "a_ns", "b_ns", "change_ns", "low_ns", "high_ns")
    return Table.from_rows((*names, "certain", "share"), rows)
