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

from cutaway.analysis.estimates import Estimate, half_width
from cutaway.analysis.measure import CELL, Floats, Key, blocks, matrix
from cutaway.analysis.noise import noise_of
from cutaway.analysis.stacks import package_of
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

CALL = ("operation", "to", "function")
K = TypeVar("K")
DEVICE = ("gpu", "cpu+gpu")
"""Resources of time in which a device works."""
LEVELS = (CELL, CELL[:2], CELL[:1], ())
"""What times are added up by: cells, layers of operations, operations, everything."""


class Layer(NamedTuple):
    """A layer of an operation."""

    operation: str
    layer: str


class Cell(NamedTuple):
    """Where time goes."""

    operation: str
    layer: str
    resource: str


class Crossing(NamedTuple):
    """A kind of transition."""

    operation: str
    from_layer: str
    to_layer: str


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
    layers: dict[Layer, Estimate]
    """Of one operation each."""
    cells: dict[Cell, Estimate]
    calls: dict[Cell, float]
    transitions: dict[Crossing, float]
    functions: dict[Call, float]
    function_calls: dict[Call, float]
    overhead: float
    """Share of the recorded time that the recorder took; it has been removed."""
    floor: float
    """How much the next run may differ without any change, relative: 0 if several runs
    show it, infinite if the machine was too busy."""

    def by_layer(self, operation: str | None = None) -> dict[str, float]:
        """Time by layer, of one operation or of all."""
        found: defaultdict[str, float] = defaultdict(float)
        for cell, spent in self.cells.items():
            if operation in (None, cell.operation):
                found[cell.layer] += spent.value
        return dict(found)

    def device(self, operation: str | None = None) -> float:
        """Time in which the device worked."""
        found = 0.0
        for cell, spent in self.cells.items():
            if operation in (None, cell.operation) and cell.resource in DEVICE:
                found += spent.value
        return found


def unit_of(runs: Sequence[Run]) -> str:
    """The unit that all runs have: environment steps rather than iterations, since
    an iteration is not the same in every program."""
    for unit in ("step", "iteration"):
        if all(_units(run, unit) > 0 for run in runs):
            return unit
    return "run"


@dataclass(frozen=True)
class _Figures:
    """One run, everything for each unit."""

    units: float
    ns: dict[Key, float]
    unsure: dict[Key, float]
    """Half the interval of each time, from the correction."""
    calls: dict[Cell, float]
    transitions: dict[Crossing, float]
    functions: dict[Call, float]
    function_calls: dict[Call, float]
    overhead: float


def group(name: str, runs: Sequence[Run], unit: str) -> Group:
    """Measures one run, or several repeats of it."""
    each = [_figures(run, unit) for run in runs]
    spent = _mean([one.ns for one in each])
    unsure = _mean([one.unsure for one in each])
    keys = sorted(spent)
    if len(runs) == 1:
        rows = _blocks(runs[0], unit, keys)
    else:
        rows = np.array([_in_order(one.ns, keys) for one in each])
    if rows is None:
        half = np.full(len(keys), np.nan)
    else:
        half = half_width(rows)
    halves = np.hypot(half, _in_order(unsure, keys))
    found = {}
    for key, width in zip(keys, halves.tolist(), strict=True):
        found[key] = Estimate.around(spent[key], width)
    return Group(
        name=name,
        unit=unit,
        runs=len(each),
        units=sum(one.units for one in each),
        total=found[()],
        operations={key[0]: e for key, e in found.items() if len(key) == 1},
        layers={Layer(*key): e for key, e in found.items() if len(key) == 2},
        cells={Cell(*key): e for key, e in found.items() if len(key) == 3},
        calls=_mean([one.calls for one in each]),
        transitions=_mean([one.transitions for one in each]),
        functions=_mean([one.functions for one in each]),
        function_calls=_mean([one.function_calls for one in each]),
        overhead=sum(one.overhead for one in each) / len(each),
        floor=_floor(runs),
    )


def _mean(tables: Sequence[dict[K, float]]) -> dict[K, float]:
    """The mean of every figure; what a run does not have counts as 0."""
    sums: defaultdict[K, float] = defaultdict(float)
    for table in tables:
        for key, value in table.items():
            sums[key] += value
    return {key: value / len(tables) for key, value in sums.items()}


def _in_order(figures: dict[Key, float], keys: Sequence[Key]) -> list[float]:
    return [figures.get(key, 0.0) for key in keys]


def _floor(runs: Sequence[Run]) -> float:
    if len(runs) > 1:
        return 0.0
    starts = (
        runs[0].steady().iterations().where(process=runs[0].main_process)["start_ns"]
    )
    return noise_of(runs[0], starts).floor


def _units(run: Run, unit: str) -> float:
    """How many units the recorded steady time of the leading process holds."""
    if unit == "run":
        return 1.0
    kept = run.steady().iterations().where(process=run.main_process)
    if unit == "iteration":
        return float((kept["recorded"] * kept["count"]).sum())
    # A pause may hide a whole iteration, whose steps then stand in the one before: only all of them together are right.
    lasted = (kept["end_ns"] - kept["start_ns"]).astype(np.float64)
    own = float(
        kept["steps"].sum() * (lasted * kept["recorded"]).sum() / max(lasted.sum(), 1.0)
    )
    if own or not int(run.swept.pace.steps.sum()):
        return own
    # Workers step, or nobody counts iterations: as many as fell into the recorded time, at an even pace.
    whole = _leader_ns(run)
    steady = _leader_ns(run.steady())
    return float(run.swept.pace.steps.sum()) * (steady / whole if whole else 0.0)


def _leader_ns(run: Run) -> float:
    return float(
        run.breakdown(by="process").where(process=run.main_process)["ns"].sum()
    )


def _figures(run: Run, unit: str) -> _Figures:
    """Measures one run."""
    steady = run.steady()
    units = _units(run, unit)
    if units <= 0:
        raise CutawayError(
            f"{run.trace.path} has no {unit}s; choose another unit with --per."
        )
    cells = steady.breakdown(by=("process", *CELL)).where(process=run.main_process)
    if not len(cells):
        raise CutawayError(
            f"{run.trace.path} has no time after its start-up; record more than one iteration."
        )
    calls: dict[Cell, float] = {}
    ns: defaultdict[Key, float] = defaultdict(float)
    for row in cells:
        cell = Cell(row["operation"], row["layer"], row["resource"])
        calls[cell] = row["calls"] / units
        for level in LEVELS:  # added up here, so that cells add up to the last digit
            ns[cell[: len(level)]] += row["ns"] / units
    corrected = ns[()] * units
    raw = float(cells["raw_ns"].sum())
    native = _native(steady)
    functions = _functions(steady, ns, {call: row[0] for call, row in native.items()})
    return _Figures(
        units=units,
        ns=ns,
        unsure=_unsure(steady, units),
        calls=calls,
        transitions=_transitions(steady, units),
        functions=functions,
        function_calls={
            call: native[call][1] / units for call in functions if call in native
        },
        overhead=1 - corrected / raw if raw else 0.0,
    )


def _unsure(steady: Run, units: float) -> dict[Key, float]:
    """How unsure the correction makes the time of each cell, layer and operation."""
    found: dict[Key, float] = {}
    for level in LEVELS:
        table = steady.breakdown(by=("process", *level)).where(
            process=steady.main_process
        )
        for row in table:
            key = tuple(str(row[name]) for name in level)
            found[key] = (row["high_ns"] - row["low_ns"]) / 2 / units
    return found


def _transitions(steady: Run, units: float) -> dict[Crossing, float]:
    found: defaultdict[Crossing, float] = defaultdict(float)
    for row in steady.transitions().where(process=steady.main_process):
        crossing = Crossing(row["operation"], row["from"], row["to"])
        found[crossing] += row["count"] / units
    return dict(found)


def _native(steady: Run) -> dict[Call, tuple[float, float]]:
    """Nanoseconds and calls of every native function."""
    sites = steady._sites.where(process=steady.main_process)
    sites = sites.where(sites["to"] != "python")
    found = {}
    for row in sites.group(CALL, ["ns", "count"]):
        call = Call(row["operation"], row["to"], row["function"])
        found[call] = (row["ns"], row["count"])
    return found


def _functions(
    steady: Run, cells: dict[Key, float], native: dict[Call, float]
) -> dict[Call, float]:
    """Time of native functions, and of Python's where stacks were sampled; those of an operation and layer add up to its cells."""
    found = defaultdict(float, native)
    if len(steady.swept.samples["count"]):
        for row in steady.lines(by="function").where(
            process=steady.main_process, layer="python"
        ):
            package, place = package_of(row["file"])
            if place:
                function = f"{row['function']} ({place})"
            else:
                function = "(not sampled)"
            found[Call(row["operation"], "python", function, package)] += row["ns"]
    seen: defaultdict[Key, float] = defaultdict(float)
    for call, ns in found.items():
        seen[call[:2]] += ns
    return {
        call: ns / seen[call[:2]] * cells.get(call[:2], 0.0)
        for call, ns in found.items()
        if seen[call[:2]]
    }


def _blocks(run: Run, unit: str, keys: Sequence[Key]) -> Floats | None:
    """Time per unit in blocks of neighbouring iterations of one run."""
    measured = run.by_iteration
    if unit == "run" or not len(measured):
        return None
    weight = measured.recorded
    if unit == "step":
        weight = weight * measured.iterations["steps"]
    if not weight.sum():  # workers step
        weight = measured.recorded * (_units(run, unit) / _units(run, "iteration"))
    return blocks(matrix(measured.cells, keys, len(measured)), weight)
