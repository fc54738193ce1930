"""Any number of runs side by side: time and transitions for each step (or iteration), corrected, with intervals.

A group is one run or several repeats of it. The figures are those of the steady state of the leading process, in the threads
that carry its operations. Their cells add up to the total of the group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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
CELL = ("operation", "layer", "resource")
CALL = ("operation", "to", "function")
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
        own = (
            (c.layer, spent.value)
            for c, spent in self.cells.items()
            if operation in (None, c.operation)
        )
        return totals(own)

    def device(self, operation: str | None = None) -> float:
        """Time in which the device worked."""
        own = [
            (c, spent)
            for c, spent in self.cells.items()
            if operation in (None, c.operation)
        ]
        return sum(
            spent.value for cell, spent in own if cell.resource in ("gpu", "cpu+gpu")
        )


def unit_of(runs: Sequence[Run]) -> str:
    """The unit that all runs count: environment steps before iterations, since an iteration is not the same everywhere."""
    return next(
        u
        for u in ("step", "iteration", "run")
        if all(_units(run, u) > 0 for run in runs)
    )


def group(name: str, runs: Sequence[Run], unit: str) -> Group:
    """Measures one run, or several repeats of it."""
    each = [_measure(run, unit) for run in runs]
    mean: dict[str, dict[Any, float]] = {}
    for figure in each[0]:
        keys = {key: None for one in each for key in one[figure]}
        mean[figure] = {
            key: sum(one[figure].get(key, 0.0) for one in each) / len(each)
            for key in keys
        }
    spent, unsure = mean.pop("ns"), mean.pop("unsure")
    places = sorted(spent)
    drawn = np.array([[one["ns"].get(key, 0.0) for key in places] for one in each])
    if len(each) == 1:
        drawn = _blocks(runs[0], unit, places)
    half = np.full(len(places), np.nan)
    if len(drawn):  # by what repeats, or blocks of iterations, differ
        half = t95(len(drawn) - 1) * drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    halves = np.hypot(half, [unsure.get(key, 0.0) for key in places]).tolist()
    found = {
        key: Estimate.around(spent[key], width)
        for key, width in zip(places, halves, strict=True)
    }
    return Group(
        name=name,
        unit=unit,
        runs=len(each),
        units=sum(one["units"][()] for one in each),
        total=found[()],
        operations={key[0]: e for key, e in found.items() if len(key) == 1},
        cells={Cell(*key): e for key, e in found.items() if len(key) == 3},
        overhead=mean["overhead"][()],
        **{
            figure: mean[figure]
            for figure in ("calls", "transitions", "functions", "function_calls")
        },
    )


def _units(run: Run, unit: str) -> float:
    """How many units the recorded steady time of the leading process holds."""
    if unit == "run":
        return 1.0
    kept = run.steady().iterations().where(process=run.leader)
    if unit == "iteration":
        return float((kept["recorded"] * kept["count"]).sum())
    # A pause may hide a whole iteration, whose steps then stand in the one before: only all of them together are right.
    lasted = (kept["end_ns"] - kept["start_ns"]).astype(np.float64)
    own = float(
        kept["steps"].sum() * (lasted * kept["recorded"]).sum() / max(lasted.sum(), 1.0)
    )
    if own or not int(run.swept.steps.sum()):
        return own
    # Workers step, or nobody counts iterations: as many as fell into the recorded time, at an even pace.
    tables = (
        one.breakdown(by="process").where(process=run.leader)
        for one in (run, run.steady())
    )
    whole, steady = (table["ns"].sum() for table in tables)
    return float(run.swept.steps.sum()) * (steady / whole if whole else 0.0)


def _measure(run: Run, unit: str) -> dict[str, dict[Any, float]]:
    """Figures of one run by what they are about, everything for each unit: those of a `Group`, times, and how unsure the
    correction makes these."""
    steady, units = run.steady(), _units(run, unit)
    if units <= 0:
        raise CutawayError(
            f"{run.trace.path} has no {unit}s; choose another unit with --per."
        )
    ns: defaultdict[Key, float] = defaultdict(float)
    unsure, calls, raw = dict[Key, float](), dict[Cell, float](), 0.0
    for by in (CELL, CELL[:1], ()):
        for row in steady.breakdown(by=("process", *by)).where(process=run.leader):
            key = tuple(str(row[name]) for name in by)
            unsure[key] = (row["high_ns"] - row["low_ns"]) / 2 / units
            if by == CELL:
                calls[Cell(*key)] = row["calls"] / units
                raw += row["raw_ns"]
                for part in (
                    (),
                    key[:1],
                    key,
                ):  # so that cells add up, to the last digit
                    ns[part] += row["ns"] / units
    if not ns:
        raise CutawayError(
            f"{run.trace.path} has no time after its start-up; record more than one iteration."
        )
    made = steady.transitions().where(process=run.leader)
    crossed = totals(
        (Crossing(r["operation"], r["from"], r["to"]), r["count"] / units) for r in made
    )
    sites = steady._sites.where(steady._sites["to"] != "python").where(
        process=run.leader
    )
    native = {
        Call(r["operation"], r["to"], r["function"]): r
        for r in sites.group(CALL, ["ns", "count"])
    }
    functions = _functions(
        steady, ns, {call: row["ns"] for call, row in native.items()}
    )
    return {
        "units": {(): units},
        "ns": ns,
        "unsure": unsure,
        "calls": calls,
        "transitions": crossed,
        "functions": functions,
        "function_calls": {
            call: row["count"] / units
            for call, row in native.items()
            if call in functions
        },
        "overhead": {(): 1 - ns[()] * units / raw if raw else 0.0},
    }


def _functions(
    steady: Run, cells: dict[Key, float], native: dict[Call, float]
) -> dict[Call, float]:
    """Time of native functions, and of Python's where stacks were sampled; those of an operation and layer add up to its cells."""
    found = defaultdict(float, native)
    if len(steady.swept.samples["count"]):
        for row in steady.lines(by="function").where(
            process=steady.leader, layer="python"
        ):
            package, place = package_of(row["file"])
            function = f"{row['function']} ({place})" if place else "(not sampled)"
            found[Call(row["operation"], "python", function, package)] += row["ns"]
    seen = totals((call[:2], ns) for call, ns in found.items())
    corrected = totals((key[:2], ns) for key, ns in cells.items() if len(key) == 3)
    return {
        c: ns / seen[c[:2]] * corrected.get(c[:2], 0.0)
        for c, ns in found.items()
        if seen[c[:2]]
    }


def _blocks(run: Run, unit: str, keys: Sequence[Key]) -> NDArray[np.float64]:
    """Times a unit in blocks of neighbouring iterations of one run; empty where there are too few."""
    nothing = np.zeros((0, len(keys)))
    own = run.steady().iterations().where(process=run.leader)
    own = own.where((own["recorded"] > 0) & (own["start_ns"] >= run.full_since))
    if unit == "run" or len(own) < FEWEST_BLOCKS:
        return nothing
    weight = own["recorded"] * (own["steps"] if unit == "step" else 1)
    if not weight.sum():  # workers step
        weight = own["recorded"] * (_units(run, unit) / _units(run, "iteration"))
    count = min(BLOCKS, len(own))
    block = np.arange(len(own)) * count // len(own)
    number = dict(zip(own["iteration"].tolist(), block.tolist(), strict=True))
    place = {key: i for i, key in enumerate(keys)}
    out = np.zeros((count, len(keys)))
    for row in run.breakdown(by=("process", *CELL, "iteration")).where(
        process=run.leader
    ):
        cell = tuple(str(row[name]) for name in CELL)
        if row["iteration"] in number:
            for key in (key for key in ((), cell[:1], cell) if key in place):
                out[number[row["iteration"]], place[key]] += row["ns"]
    units = np.bincount(block, weight, count)
    used = units > 0
    return out[used] / units[used][:, None] if used.sum() >= FEWEST_BLOCKS else nothing
