"""What changed between two runs (or two sets of runs), cell by cell, for each iteration
of the training loop.

The unit is an iteration of the steady state. With several runs the 95 % interval comes
from how much whole runs differ. With one run on each side it comes from how much blocks
of iterations differ, widened by what the machine may have done: the noise between runs,
what others computed meanwhile, the time spent waiting for a core. A change that the
interval does not separate from zero is not called one. Where threads waited for cores,
CPU time is compared instead of wall time.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutaway.analysis.estimates import Estimate, difference
from cutaway.analysis.measure import CELL, Floats, Key, blocks
from cutaway.analysis.noise import DISTURBED, Noise, doubts, noise_of
from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

PLACE = ("process", *CELL)
Bounds = tuple[Floats, Floats]


@dataclass(frozen=True)
class Diff:
    """The answer: the whole, and the cells that explain it, the largest change first."""

    unit: str
    a_ns: float
    b_ns: float
    change: Estimate
    """Of the time of an iteration, relative to A: 0.05 means 5 % slower."""
    cells: Table
    units: tuple[int, int]
    runs: tuple[int, int]
    queued: tuple[float, float]
    """Share of the time the leading thread waited for a core, on each side."""
    cpu: Estimate | None
    """Change of the CPU time of the leading process; None where it was not sampled."""
    cpu_ns: tuple[float, float]
    floor: float
    """The change that one run on each side cannot tell from the machine's noise: 0 with
    several runs, infinite if the machine was busy and the program computes with thread
    pools."""
    warnings: tuple[str, ...]

    @property
    def disturbed(self) -> bool:
        """Whether wall time says little, because threads waited for cores."""
        return max(self.queued) >= DISTURBED

    @property
    def judged(self) -> Estimate:
        """The change that counts: of CPU time where wall time is disturbed and it is known."""
        if self.disturbed and self.cpu:
            return self.cpu
        return self.change

    def regressed(self, threshold: float) -> bool:
        """Whether B is slower by more than `threshold`, and the interval excludes that it is not."""
        return self.judged.low > threshold


@dataclass(frozen=True)
class _Units:
    """One run: the time of every unit by cell, and what disturbed it."""

    cells: dict[Key, Floats]
    noise: Noise

    def matrix(self, keys: list[Key]) -> Floats:
        """Units (rows) by cell (columns); the whole comes first."""
        nothing = np.zeros(len(self.cells[()]))
        return np.stack([self.cells.get(key, nothing) for key in keys], axis=1)


@dataclass(frozen=True)
class _Side:
    """All runs before the change, or all runs after it."""

    units: list[Floats]
    """A matrix for each run."""
    noise: list[Noise]

    @property
    def means(self) -> Floats:
        """Runs (rows) by cell (columns)."""
        return np.stack([matrix.mean(axis=0) for matrix in self.units])

    @property
    def middle(self) -> Floats:
        return np.asarray(self.means.mean(axis=0))

    @property
    def worst(self) -> Noise:
        """The most that disturbed any of the runs."""
        others = [noise.others for noise in self.noise]
        known = [share for share in others if share is not None]
        return Noise(
            queued=max(noise.queued for noise in self.noise),
            others=max(known) if len(known) == len(others) else None,
            pooled=max(noise.pooled for noise in self.noise),
        )

    @property
    def cpu_ns(self) -> Floats:
        """CPU time of an iteration in each run where it was sampled."""
        return np.array([noise.cpu_ns for noise in self.noise if noise.cpu_ns])


def diff(a: list[Run], b: list[Run]) -> Diff:
    """Compares run(s) `b` with run(s) `a`."""
    iterate = all(len(run.by_iteration) for run in (*a, *b))
    if iterate:
        measure = _iterations
    else:
        measure = _whole
    found = [measure(run) for run in a], [measure(run) for run in b]
    keys = sorted(set().union(*(units.cells for units in (*found[0], *found[1]))))
    before, after = (_side(units, keys) for units in found)
    single = len(a) == len(b) == 1
    if single:
        floor = max(before.worst.floor, after.worst.floor)
        bounds = _of_one_run(before, after, floor)
    else:
        floor = 0.0
        bounds = _of_runs(before, after)
    base = float(before.middle[0])
    return Diff(
        unit="iteration" if iterate else "run",
        a_ns=base,
        b_ns=float(after.middle[0]),
        change=_relative(before, after, bounds),
        cells=_cells(keys, before.middle, after.middle, bounds),
        units=(_count(before), _count(after)),
        runs=(len(a), len(b)),
        queued=(before.worst.queued, after.worst.queued),
        cpu=_cpu(before, after),
        cpu_ns=(_mean(before.cpu_ns), _mean(after.cpu_ns)),
        floor=floor,
        warnings=doubts(a[0], b[0]),
    )


def _side(runs: list[_Units], keys: list[Key]) -> _Side:
    return _Side([run.matrix(keys) for run in runs], [run.noise for run in runs])


def _count(side: _Side) -> int:
    return sum(len(matrix) for matrix in side.units)


def _mean(values: Floats) -> float:
    if len(values):
        return float(values.mean())
    return 0.0


def _iterations(run: Run) -> _Units:
    """A run whose units are iterations of the leading process."""
    measured = run.by_iteration
    leading = labels(run)[run.main_process]
    found: defaultdict[Key, Floats] = defaultdict(lambda: np.zeros(len(measured)))
    found[()] = measured.lasted
    # Calibration pauses for moments: what was recorded of an iteration stands for all of it.
    for cell, ns in measured.cells.items():
        place = (leading, *cell)
        found[place] += ns / measured.recorded
    # Workers count no iterations, or others than the leader: their time is spread evenly over the leader's.
    steady = run.steady()
    others = steady.breakdown(by=PLACE)
    _add(
        found,
        run,
        others.where(others["process"] != run.main_process),
        1 / len(measured),
    )
    starts = steady.iterations().where(process=run.main_process)["start_ns"]
    return _Units(found, noise_of(run, starts))


def _whole(run: Run) -> _Units:
    """A run without iterations is one unit."""
    found: defaultdict[Key, Floats] = defaultdict(lambda: np.zeros(1))
    found[()] = np.array([run.span[1] - run.span[0]], float)
    _add(found, run, run.breakdown(by=PLACE), 1.0)
    return _Units(found, noise_of(run, np.zeros(0, np.int64)))


def _add(found: defaultdict[Key, Floats], run: Run, table: Table, share: float) -> None:
    """Adds the time of every row to each unit."""
    names = labels(run)
    for row in table:
        place = names[row["process"]]
        key = (place, row["operation"], row["layer"], row["resource"])
        found[key] += row["ns"] * share


def labels(run: Run) -> list[str]:
    """Role or name of each process, without the number that tells siblings apart."""
    named = [str(row["role"] or row["name"]) for row in run.processes()]
    return [re.sub(r"[-_ #]*\d+$", "", name) or name or "process" for name in named]


def _of_runs(before: _Side, after: _Side) -> Bounds | None:
    """Bounds of the change by how much repeated runs differ."""
    return difference(before.means, after.means)


def _of_one_run(before: _Side, after: _Side, floor: float) -> Bounds | None:
    """Bounds of the change with one run each: by how much blocks of iterations differ,
    and by what the machine may have added to either side."""
    a = blocks(before.units[0])
    b = blocks(after.units[0])
    if a is None or b is None or math.isinf(floor):
        return None
    bounds = difference(a, b)
    if bounds is None:
        return None
    low, high = bounds
    noise = floor * np.maximum(before.middle, after.middle)
    low = low - noise - after.worst.queued * after.middle
    high = high + noise + before.worst.queued * before.middle
    return np.maximum(low, -before.middle), high  # nothing saves more than all of A


def _relative(before: _Side, after: _Side, bounds: Bounds | None) -> Estimate:
    """The change of the whole, relative to A."""
    base = float(before.middle[0])
    if not base:
        return Estimate(math.nan)
    value = float(after.middle[0]) / base - 1
    if bounds is None:
        return Estimate(value)
    return Estimate(value, float(bounds[0][0]) / base, float(bounds[1][0]) / base)


def _cpu(before: _Side, after: _Side) -> Estimate | None:
    """CPU time does not count waiting for a core, but neighbours still slow it down."""
    a = before.cpu_ns
    b = after.cpu_ns
    if not len(a) or not len(b):
        return None
    base = _mean(a)
    value = _mean(b) / base - 1
    bounds = difference(a, b)
    if bounds is not None:
        return Estimate(value, float(bounds[0] / base), float(bounds[1] / base))
    floor = max(before.worst.floor, after.worst.floor)
    if math.isinf(floor):
        return Estimate(value)
    return Estimate(value, (1 + value) / (1 + floor) - 1, (1 + value) * (1 + floor) - 1)


def _cells(
    keys: list[Key], before: Floats, after: Floats, bounds: Bounds | None
) -> Table:
    """The change of every cell, the largest first."""
    rows: list[tuple[Any, ...]] = []
    whole = float(after[0] - before[0])
    for at, key in enumerate(keys):
        if not key:
            continue
        a = float(before[at])
        b = float(after[at])
        change = Estimate(b - a)
        if bounds is not None:
            change = Estimate(b - a, float(bounds[0][at]), float(bounds[1][at]))
        if whole:
            share = (b - a) / whole
        else:
            share = math.nan
        rows.append((*key, a, b, b - a, change.low, change.high, change.certain, share))
    rows.sort(key=lambda row: -abs(row[6]))
    figures = ("a_ns", "b_ns", "change_ns", "low_ns", "high_ns", "certain", "share")
    return Table.from_rows((*PLACE, *figures), rows)
