"""What changed between two runs (or two sets of runs), cell by cell, for each iteration of the training loop.

The unit is an iteration of the steady state. With several runs the 95 % interval comes from what whole runs differ by. With one
run on each side it is that of a bootstrap over iterations, widened by what the machine may have done: the noise between runs, what
others computed meanwhile, the time spent waiting for a core. A change that the interval does not separate from zero is not
called one. Where threads waited for cores, CPU time is compared instead of wall time.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.estimates import Estimate, several_runs
from cutaway.analysis.noise import DISTURBED, Noise, doubts, noise_of
from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Floats = NDArray[np.float64]
Key = tuple[str, ...]
"""A cell; () is the whole."""
CELL = ("process", "operation", "layer", "resource")

RESAMPLES = 2000
FEWEST_UNITS = 5
"""Fewer iterations than this say nothing about how much they vary."""
MOST_PART = 0.5
"""What must have been recorded of an iteration that counts."""
_MOST_BLOCKS = 400
_BLOCKS_DRAWN = 20


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
    """The change that one run on each side cannot tell from the machine's noise: 0 with several runs, infinite if the machine was busy and
    the program computes with thread pools."""
    warnings: tuple[str, ...]

    @property
    def disturbed(self) -> bool:
        """Whether wall time says little, because threads waited for cores."""
        return max(self.queued) >= DISTURBED

    @property
    def judged(self) -> Estimate:
        """The change that counts: of CPU time where wall time is disturbed and it is known."""
        return self.cpu if self.disturbed and self.cpu else self.change

    def regressed(self, threshold: float) -> bool:
        """Whether B is slower by more than `threshold`, and the interval excludes that it is not."""
        return self.judged.low > threshold


_Measured = tuple[dict[Key, Floats], Noise]
"""One run: the time of every unit, by cell."""


def compare(a: list[Run], b: list[Run], seed: int = 0) -> Diff:
    """Compares run(s) `b` with run(s) `a`."""
    iterates = all(len(_units(run)) for run in (*a, *b))
    sides = [
        [_measure(run) if iterates else _whole(run) for run in runs] for runs in (a, b)
    ]
    keys = sorted(
        {key for side in sides for cells, _ in side for key in cells}
    )  # the whole comes first
    columns = [[_blocks(cells, keys) for cells, _ in side] for side in sides]
    means = [
        np.stack([c.mean(axis=0) for c in side]) for side in columns
    ]  # (runs, columns)
    noise = [_worst([noise for _, noise in side]) for side in sides]
    bounds = several_runs(*means)
    single = bounds is None
    if single:
        rng = np.random.default_rng(seed)
        drawn = [
            _draw_units(side[0], rng) if len(side[0]) >= FEWEST_UNITS else None
            for side in columns
        ]
        bounds = _bounds(means, drawn, noise)
    middle = [side.mean(axis=0) for side in means]
    spent = [[noise.cpu_ns for _, noise in side if noise.cpu_ns] for side in sides]
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
    queued, pooled = max(n.queued for n in noise), max(n.pooled for n in noise)
    known = [n.foreign for n in noise if n.foreign is not None]
    return Noise(
        queued,
        max(known) if len(known) == len(noise) else None,
        pooled,
        noise[0].cpu_ns,
    )


def _bounds(
    means: list[Floats], drawn: list[Floats | None], noise: list[Noise]
) -> tuple[Any, Any] | None:
    """Of B - A with one run each: what a bootstrap finds, and what the machine may have added to either side."""
    widest = max(n.floor for n in noise)
    if drawn[0] is None or drawn[1] is None or math.isinf(widest):
        return None
    low, high = np.percentile(drawn[1] - drawn[0], [2.5, 97.5], axis=0)
    a, b = means[0][0], means[1][0]
    floor = widest * np.maximum(a, b)
    lowest = np.maximum(
        low - floor - noise[1].queued * b, -a
    )  # nothing saves more than all of A
    return lowest, high + floor + noise[0].queued * a


def _relative(
    base: float, middle: list[Any], bounds: tuple[Any, Any] | None
) -> Estimate:
    value = float(middle[1][0]) / base - 1 if base else np.nan
    if bounds is None or not base:
        return Estimate(value)
    return Estimate(value, float(bounds[0][0]) / base, float(bounds[1][0]) / base)


def _cpu(spent: list[list[float]], noise: list[Noise]) -> Estimate | None:
    """CPU time does not count waiting for a core, but neighbours still slow it down."""
    if not spent[0] or not spent[1]:
        return None
    a, b = (np.array(side) for side in spent)
    value = float(b.mean() / a.mean() - 1)
    found = several_runs(a, b)
    if found is not None:
        return Estimate(value, float(found[0] / a.mean()), float(found[1] / a.mean()))
    floor = max(n.floor for n in noise)
    if math.isinf(floor):
        return Estimate(value)
    return Estimate(value, (1 + value) / (1 + floor) - 1, (1 + value) * (1 + floor) - 1)


def _units(run: Run) -> Table:
    """The iterations that count: of the leading process, in the steady state, recorded for the most part. The last one is
    left out: nothing marks its end, so it holds the end of the program too."""
    own = run.steady().iterations().where(process=run.leader)
    own = own.head(max(len(own) - 1, 0))
    return own.where(
        (own["recorded"] >= MOST_PART) & (own["start_ns"] >= run.full_since)
    )


def _measure(run: Run) -> _Measured:
    own, steady = _units(run), run.steady()
    numbers = {number: i for i, number in enumerate(own["iteration"].tolist())}
    found: defaultdict[Key, Floats] = defaultdict(lambda: np.zeros(len(own)))
    found[()] = (own["end_ns"] - own["start_ns"]).astype(np.float64)
    # Calibration pauses for moments: what was recorded of an iteration stands for all of it.
    whole = 1 / own["recorded"]
    for key, row in _rows(
        run, run.breakdown(by=(*CELL, "iteration")).where(process=run.leader)
    ):
        unit = numbers.get(row["iteration"])
        if unit is not None:
            found[key][unit] += row["ns"] * whole[unit]
    # Workers count no iterations, or others than the leader: their time is spread evenly over the leader's.
    others = steady.breakdown(by=CELL)
    for key, row in _rows(run, others.where(others["process"] != run.leader)):
        found[key] += row["ns"] / len(own)
    return found, noise_of(
        run, steady.iterations().where(process=run.leader)["start_ns"]
    )


def _whole(run: Run) -> _Measured:
    """A run without iterations is one unit."""
    found: defaultdict[Key, Floats] = defaultdict(lambda: np.zeros(1))
    found[()] = np.array([run.span[1] - run.span[0]], float)
    for key, row in _rows(run, run.breakdown(by=CELL)):
        found[key] += row["ns"]
    return found, noise_of(run, np.zeros(0, np.int64))


def _rows(run: Run, table: Table) -> Iterator[tuple[Key, dict[str, Any]]]:
    names = labels(run)
    for row in table:
        yield (
            (names[row["process"]], row["operation"], row["layer"], row["resource"]),
            row,
        )


def labels(run: Run) -> list[str]:
    """Role or name of each process, without the number that tells siblings apart."""
    named = [str(row["role"] or row["name"]) for row in run.processes()]
    return [re.sub(r"[-_ #]*\d+$", "", name) or name or "process" for name in named]


def _blocks(cells: dict[Key, Floats], keys: list[Key]) -> Floats:
    """Units by cell, in the order of `keys`; neighbours merged into at most 400 blocks."""
    out = np.stack([cells.get(key, np.zeros(len(cells[()]))) for key in keys], axis=1)
    if len(out) <= _MOST_BLOCKS:
        return out
    return np.stack([block.mean(axis=0) for block in np.array_split(out, _MOST_BLOCKS)])


def _draw_units(units: Floats, rng: np.random.Generator) -> Floats:
    """Means of resampled runs. Neighbouring iterations are alike, so they are drawn together, in blocks."""
    if len(units) > _BLOCKS_DRAWN:
        blocks = np.array_split(units, _BLOCKS_DRAWN)
        units = np.stack([block.mean(axis=0) for block in blocks])
    n = len(units)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    return np.asarray(weights @ units)


def _cells(keys: list[Key], middle: list[Any], bounds: tuple[Any, Any] | None) -> Table:
    rows: list[tuple[Any, ...]] = []
    whole = middle[1][0] - middle[0][0]
    for i, key in enumerate(keys[1:], start=1):
        a, b = float(middle[0][i]), float(middle[1][i])
        change = Estimate(b - a, *(float(bound[i]) for bound in bounds or ()))
        share = (b - a) / whole if whole else np.nan
        rows.append((*key, a, b, b - a, change.low, change.high, change.certain, share))
    rows.sort(key=lambda row: -abs(row[6]))
    names = (
        *CELL,
        "a_ns",
        "b_ns",
        "change_ns",
        "low_ns",
        "high_ns",
        "certain",
        "share",
    )
    return Table.from_rows(names, rows)
