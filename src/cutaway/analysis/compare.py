"""Any number of runs side by side: time and transitions for each step (or iteration), corrected, with intervals.

A group is one run or several repeats of it. The figures are those of the steady state of the leading process, in the threads
that carry its operations. Their cells add up to the total of the group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.estimates import Estimate, t95
from cutaway.analysis.stacks import package_of
from cutaway.analysis.table import totals
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

BLOCKS = 20
"""The iterations of a single run are averaged in so many blocks: neighbours are not independent."""
FEWEST_BLOCKS = 5
UNITS = ("step", "iteration", "run")
K = TypeVar("K")
Key = tuple[str, ...]
"""() for the total, (operation,), or a whole cell."""


class Cell(NamedTuple):
    """Where time goes."""

    operation: str
    layer: str
    resource: str


class Crossing(NamedTuple):
    """A kind of transition."""

    operation: str
    origin: str
    target: str


class Call(NamedTuple):
    """A native function, by the operation and the layer it works in; or a Python function of a package, in the layer `python`."""

    operation: str
    layer: str
    function: str
    package: str = ""


@dataclass(frozen=True)
class _One:
    """One run, everything for each unit."""

    units: float
    ns: dict[Key, float]
    unsure: dict[Key, float]
    calls: dict[Cell, float]
    transitions: dict[Crossing, float]
    functions: dict[Call, float]
    function_calls: dict[Call, float]
    overhead: float


@dataclass(frozen=True)
class Group:
    """One bar: a run, or repeats of it; everything for each unit (`unit`), times in nanoseconds."""

    name: str
    unit: str
    runs: int
    units: float
    total: Estimate
    operations: dict[str, Estimate]
    cells: dict[Cell, Estimate]
    calls: dict[Cell, float]
    transitions: dict[Crossing, float]
    functions: dict[Call, float]
    function_calls: dict[Call, float]
    overhead: float
    """Share of the recorded time that the recorder took; it has been removed."""

    def layers(self, operation: str | None = None) -> dict[str, float]:
        """Time by layer, of one operation or of all."""
        own = ((c.layer, spent.value) for c, spent in self.cells.items() if operation in (None, c.operation))
        return totals(own)

    def device(self, operation: str | None = None) -> float:
        """Time in which the device worked."""
        own = [(c, spent) for c, spent in self.cells.items() if operation in (None, c.operation)]
        return sum(spent.value for cell, spent in own if cell.resource in ("gpu", "cpu+gpu"))


def unit_of(runs: Sequence[Run]) -> str:
    """The unit that all runs count: environment steps before iterations, since an iteration is not the same everywhere."""
    return next(unit for unit in UNITS if all(_units(run, unit) > 0 for run in runs))


def group(name: str, runs: Sequence[Run], unit: str) -> Group:
    """Measures one run, or several repeats of it."""
    each = [_measure(run, unit) for run in runs]
    ns, unsure = _mean([one.ns for one in each]), _mean([one.unsure for one in each])
    keys = sorted(ns)
    spread = np.array([[one.ns.get(key, 0.0) for key in keys] for one in each])
    drawn = _half(spread if len(each) > 1 else _blocks(runs[0], unit, keys), len(keys))
    halves = np.hypot(drawn, [unsure.get(key, 0.0) for key in keys])
    found = {key: Estimate.around(ns[key], float(half)) for key, half in zip(keys, halves, strict=True)}
    return Group(
        name=name,
        unit=unit,
        runs=len(each),
        units=sum(one.units for one in each),
        total=found[()],
        operations={key[0]: e for key, e in found.items() if len(key) == 1},
        cells={Cell(*key): e for key, e in found.items() if len(key) == 3},
        calls=_mean([one.calls for one in each]),
        transitions=_mean([one.transitions for one in each]),
        functions=_mean([one.functions for one in each]),
        function_calls=_mean([one.function_calls for one in each]),
        overhead=float(np.mean([one.overhead for one in each])),
    )


def _mean(dicts: Sequence[dict[K, float]]) -> dict[K, float]:
    keys = {key: None for d in dicts for key in d}
    return {key: sum(d.get(key, 0.0) for d in dicts) / len(dicts) for key in keys}


def _half(spread: NDArray[np.float64] | None, keys: int) -> NDArray[np.float64]:
    """Half the width of the interval of each key, by what repeats (or blocks of iterations) differ."""
    if spread is None:
        return np.full(keys, np.nan)
    return np.asarray(t95(len(spread) - 1) * spread.std(axis=0, ddof=1) / np.sqrt(len(spread)))


def _units(run: Run, unit: str) -> float:
    """How many units the recorded steady time of the leading process holds."""
    if unit == "run":
        return 1.0
    kept = run.steady().iterations().where(process=run.leader)
    if unit == "iteration":
        return float((kept["recorded"] * kept["count"]).sum())
    # A pause may hide a whole iteration, whose steps then stand in the one before: only all of them together are right.
    lasted = (kept["end_ns"] - kept["start_ns"]).astype(np.float64)
    own = float(kept["steps"].sum() * (lasted * kept["recorded"]).sum() / max(lasted.sum(), 1.0))
    if own or not int(run.swept.steps.sum()):
        return own
    # Workers step, or nobody counts iterations: as many as fell into the recorded time, at an even pace.
    whole, steady = (
        one.breakdown(by="process").where(process=run.leader)["ns"].sum() for one in (run, run.steady())
    )
    return float(run.swept.steps.sum()) * (steady / whole if whole else 0.0)


def _measure(run: Run, unit: str) -> _One:
    steady, units = run.steady(), _units(run, unit)
    if units <= 0:
        raise CutawayError(f"{run.trace.path} has no {unit}s; choose another unit with --per.")
    ns: defaultdict[Key, float] = defaultdict(float)
    unsure: dict[Key, float] = {}
    calls: dict[Cell, float] = {}
    raw = 0.0
    for by in (("operation", "layer", "resource"), ("operation",), ()):
        for row in steady.breakdown(by=("process", *by)).where(process=run.leader):
            key = tuple(str(row[name]) for name in by)
            unsure[key] = (row["high_ns"] - row["low_ns"]) / 2 / units
            if len(by) == 3:
                calls[Cell(*key)] = row["calls"] / units
                raw += row["raw_ns"]
                for part in ((), key[:1], key):  # so that cells add up, to the last digit
                    ns[part] += row["ns"] / units
    if not ns:
        raise CutawayError(
            f"{run.trace.path} has no time after its start-up; record more than one iteration."
        )
    made = steady.transitions().where(process=run.leader)
    crossed = totals((Crossing(r["operation"], r["from"], r["to"]), r["count"] / units) for r in made)
    overhead = 1 - ns[()] * units / raw if raw else 0.0
    return _One(units, ns, unsure, calls, crossed, *_functions(steady, units, ns), overhead)


def _functions(
    steady: Run, units: float, cells: dict[Key, float]
) -> tuple[dict[Call, float], dict[Call, float]]:
    """Time and calls of native functions, and of Python's where stacks were sampled; the times of those of an operation and
    layer add up to its cells."""
    found: defaultdict[Call, float] = defaultdict(float)
    calls: dict[Call, float] = {}
    table = steady._sites.where(process=steady.leader).group(("operation", "to", "function"), ["ns", "count"])
    for row in table.where(table["to"] != "python"):
        call = Call(row["operation"], row["to"], row["function"])
        found[call], calls[call] = row["ns"], row["count"] / units
    if len(steady.swept.samples["count"]):
        for row in steady.lines(by="function").where(process=steady.leader, layer="python"):
            package, place = package_of(row["file"])
            function = f"{row['function']} ({place})" if place else "(not sampled)"
            found[Call(row["operation"], "python", function, package)] += row["ns"]
    seen = totals((call[:2], ns) for call, ns in found.items())
    corrected = totals((key[:2], ns) for key, ns in cells.items() if len(key) == 3)
    times = {c: ns / seen[c[:2]] * corrected.get(c[:2], 0.0) for c, ns in found.items() if seen[c[:2]]}
    return times, {call: n for call, n in calls.items() if call in times}


def _blocks(run: Run, unit: str, keys: Sequence[Key]) -> NDArray[np.float64] | None:
    """Times a unit in blocks of neighbouring iterations of one run; None where there are too few."""
    own = run.steady().iterations().where(process=run.leader)
    own = own.where((own["recorded"] > 0) & (own["start_ns"] >= run.full_since))
    if unit == "run" or len(own) < FEWEST_BLOCKS:
        return None
    weight = own["recorded"] * (own["steps"] if unit == "step" else 1)
    if not weight.sum():  # workers step
        weight = own["recorded"] * (_units(run, unit) / _units(run, "iteration"))
    count = min(BLOCKS, len(own))
    block = np.arange(len(own)) * count // len(own)
    number = dict(zip(own["iteration"].tolist(), block.tolist(), strict=True))
    place = {key: i for i, key in enumerate(keys)}
    out = np.zeros((count, len(keys)))
    by = ("operation", "layer", "resource")
    for row in run.breakdown(by=("process", *by, "iteration")).where(process=run.leader):
        cell = tuple(str(row[name]) for name in by)
        if row["iteration"] in number:
            for key in (key for key in ((), cell[:1], cell) if key in place):
                out[number[row["iteration"]], place[key]] += row["ns"]
    units = np.bincount(block, weight, count)
    return out[units > 0] / units[units > 0][:, None] if (units > 0).sum() >= FEWEST_BLOCKS else None
