"""Any number of runs side by side: time and transitions for each step (or iteration), corrected, with intervals.

A group is one run or several repeats of it. The figures are those of the steady state of the leading process, the one that
counts most iterations, in the threads that carry its operations. Their cells add up to the total of the group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.hotspots import sites
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Floats = NDArray[np.float64]
BLOCKS = 20
"""The iterations of a single run are averaged in so many blocks: neighbours are not independent."""
FEWEST_BLOCKS = 5
T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.1, 2.09)  # fmt: skip
UNITS = ("step", "iteration", "run")
K = TypeVar("K")


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


class Spent(NamedTuple):
    """Of a native function, for each unit."""

    ns: float
    calls: float


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % interval; the bounds are NaN where too little is known."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, half: float) -> Estimate:
        return cls(value, max(value - half, 0.0), value + half)  # in this order: NaN stays NaN


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
    functions: dict[Call, Spent]
    overhead: float
    """Share of the recorded time that the recorder took; it has been removed."""

    def layers(self, operation: str | None = None) -> dict[str, float]:
        """Time by layer, of one operation or of all."""
        found: dict[str, float] = {}
        for cell, spent in self.cells.items():
            if operation in (None, cell.operation):
                found[cell.layer] = found.get(cell.layer, 0.0) + spent.value
        return found

    def device(self, operation: str | None = None) -> float:
        """Time in which the device worked."""
        return sum(
            spent.value
            for cell, spent in self.cells.items()
            if operation in (None, cell.operation) and cell.resource in ("gpu", "cpu+gpu")
        )


@dataclass(frozen=True)
class _One:
    """One run. Keys of `ns` and `half` are () for the total, (operation,), or a whole cell."""

    units: float
    ns: dict[tuple[str, ...], float]
    half: dict[tuple[str, ...], float]
    calls: dict[Cell, float]
    transitions: dict[Crossing, float]
    functions: dict[Call, Spent]
    overhead: float


def unit_of(runs: Sequence[Run]) -> str:
    """The unit that all runs count: environment steps before iterations, since an iteration is not the same everywhere."""
    return next(unit for unit in UNITS if all(_units(run, _lead(run), unit) > 0 for run in runs))


def group(name: str, runs: Sequence[Run], unit: str) -> Group:
    """Measures one run, or several repeats of it."""
    each = [_measure(run, unit) for run in runs]
    keys = sorted({key for one in each for key in one.ns})
    spread = _blocks(runs[0], unit, keys) if len(each) == 1 else np.array(
        [[one.ns.get(key, 0.0) for key in keys] for one in each]
    )  # fmt: skip
    found = {
        key: Estimate.around(float(np.mean([one.ns.get(key, 0.0) for one in each])), half)
        for key, half in zip(keys, _half(each, keys, spread), strict=True)
    }
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
        functions={
            call: _average([one.functions.get(call, Spent(0.0, 0.0)) for one in each])
            for call in {call: None for one in each for call in one.functions}
        },
        overhead=float(np.mean([one.overhead for one in each])),
    )


def _mean(dicts: Sequence[dict[K, float]]) -> dict[K, float]:
    keys = {key: None for d in dicts for key in d}
    return {key: sum(d.get(key, 0.0) for d in dicts) / len(dicts) for key in keys}


def _average(spent: Sequence[Spent]) -> Spent:
    return Spent(sum(s.ns for s in spent) / len(spent), sum(s.calls for s in spent) / len(spent))


def _half(each: Sequence[_One], keys: Sequence[tuple[str, ...]], spread: Floats | None) -> list[float]:
    """Half the width of the intervals: what repeats (or blocks of iterations) differ by, and what the correction is unsure of."""
    unsure = np.mean([[one.half.get(key, 0.0) for key in keys] for one in each], axis=0)
    if spread is None:
        return [float("nan")] * len(keys)
    n = len(spread)
    t = T95[n - 2] if n - 2 < len(T95) else 1.98
    drawn = t * spread.std(axis=0, ddof=1) / np.sqrt(n)
    return [float(v) for v in np.hypot(drawn, unsure)]


def _lead(run: Run) -> int:
    """The process whose time is shown: the one with the most iterations, else the busiest with operations, else the first."""
    counted: list[int] = run.steady().iterations()["process"].tolist()
    if counted:
        return max(sorted(set(counted)), key=counted.count)
    if not len(run.processes()):
        raise CutawayError(
            f"{run.trace.path} is empty: no process of it recorded anything; see `cutaway doctor`."
        )
    table = run.breakdown(by=("process", "operation"))
    own: dict[int, int] = {}
    for row in table:
        own[row["process"]] = own.get(row["process"], 0) + (row["ns"] if row["operation"] else 0)
    return max(own, key=lambda p: (own[p], -p)) if own else 0


def _units(run: Run, lead: int, unit: str) -> float:
    """How many units the recorded steady time of the leading process holds."""
    if unit == "run":
        return 1.0
    kept = run.steady().iterations()
    kept = kept.where(process=lead)
    recorded = float(kept["recorded"].sum())
    if unit == "iteration":
        return recorded
    # A pause may hide a whole iteration, whose steps then stand in the one before: only all of them together are right.
    lasted = (kept["end_ns"] - kept["start_ns"]).astype(np.float64)
    own = float(kept["steps"].sum() * (lasted * kept["recorded"]).sum() / max(lasted.sum(), 1.0))
    if own or not int(run.swept.steps.sum()):
        return own
    # Workers step, or nobody counts iterations: as many as fell into the recorded time, at an even pace.
    whole = sum(r["ns"] for r in run.breakdown(by="process").where(process=lead))
    steady = sum(r["ns"] for r in run.steady().breakdown(by="process").where(process=lead))
    return float(run.swept.steps.sum()) * (steady / whole if whole else 0.0)


def _measure(run: Run, unit: str) -> _One:
    lead, steady = _lead(run), run.steady()
    units = _units(run, lead, unit)
    if units <= 0:
        raise CutawayError(f"{run.trace.path} counts no {unit}s: choose another unit with --per.")
    ns: dict[tuple[str, ...], float] = {}
    half: dict[tuple[str, ...], float] = {}
    calls: dict[Cell, float] = {}
    raw = 0.0
    for by in (("operation", "layer", "resource"), ("operation",), ()):
        for row in steady.breakdown(by=("process", *by)).where(process=lead):
            key = tuple(str(row[name]) for name in by)
            half[key] = (row["high_ns"] - row["low_ns"]) / 2 / units
            if by[1:]:
                calls[Cell(*key)] = row["calls"] / units
                raw += row["raw_ns"]
                for part in ((), key[:1], key):  # so that cells add up, to the last digit
                    ns[part] = ns.get(part, 0.0) + row["ns"] / units
    if not ns:
        raise CutawayError(
            f"{run.trace.path} holds no time after its start-up: record more than one iteration."
        )
    crossed: dict[Crossing, float] = {}
    for row in steady.transitions().where(process=lead):
        crossing = Crossing(row["operation"], row["from"], row["to"])
        crossed[crossing] = crossed.get(crossing, 0.0) + row["count"] / units
    overhead = 1 - ns[()] * units / raw if raw else 0.0
    return _One(units, ns, half, calls, crossed, _functions(steady, lead, units, ns), overhead)


def _functions(
    steady: Run, lead: int, units: float, cells: dict[tuple[str, ...], float]
) -> dict[Call, Spent]:
    """Native functions, and Python's where stacks were sampled; those of an operation and layer add up to its cells."""
    rows = sites(steady).where(process=lead)
    table = rows.group(("operation", "to", "function"), ["ns", "count"])
    found = {Call(r["operation"], r["to"], r["function"]): Spent(r["ns"], r["count"] / units) for r in table}
    found = {call: spent for call, spent in found.items() if call.layer != "python"}
    if len(steady.swept.samples["count"]):
        for row in steady.lines(by="function").where(process=lead, layer="python"):
            package, place = _origin(row["file"])
            function = f"{row['function']} ({place})" if place else "(not sampled)"
            call = Call(row["operation"], "python", function, package)
            found[call] = Spent(row["ns"] + found.get(call, Spent(0.0, 0.0)).ns, 0.0)
    seen: dict[tuple[str, ...], float] = {}
    corrected: dict[tuple[str, ...], float] = {}
    for call, spent in found.items():
        seen[call[:2]] = seen.get(call[:2], 0.0) + spent.ns
    for key, ns in cells.items():
        if len(key) == 3:
            corrected[key[:2]] = corrected.get(key[:2], 0.0) + ns
    return {
        call: Spent(spent.ns / seen[call[:2]] * corrected.get(call[:2], 0.0), spent.calls)
        for call, spent in found.items()
        if seen[call[:2]]
    }


def _origin(file: str) -> tuple[str, str]:
    """The package that a Python file belongs to, and the file by a short name.

    >>> _origin("/usr/lib/python3.11/site-packages/torch/optim/adam.py")
    ('torch', 'torch/optim/adam.py')
    >>> _origin("/home/me/agents/train.py")
    ("the program's own code", 'agents/train.py')
    """
    _, installed, inside = file.rpartition("-packages/")
    if installed:
        return inside.split("/")[0].removesuffix(".py"), inside
    if not file.startswith("/"):
        return ("the program's own code" if file else "not sampled"), file
    short = "/".join(file.split("/")[-2:])
    standard = re.search(r"/lib/python3[^/]*/", file)
    return "Python's own library" if standard else "the program's own code", short


def _blocks(run: Run, unit: str, keys: Sequence[tuple[str, ...]]) -> Floats | None:
    """Times a unit in blocks of neighbouring iterations of one run; None where there are too few."""
    lead = _lead(run)
    own = run.steady().iterations().where(process=lead)
    own = own.where(own["recorded"] > 0)
    if unit == "run" or len(own) < FEWEST_BLOCKS:
        return None
    weight = own["recorded"] * (own["steps"] if unit == "step" else 1)
    if not weight.sum():  # workers step
        weight = own["recorded"] * (_units(run, lead, unit) / own["recorded"].sum())
    count = min(BLOCKS, len(own))
    block = np.arange(len(own)) * count // len(own)
    number = dict(zip(own["iteration"].tolist(), block.tolist(), strict=True))
    place = {key: i for i, key in enumerate(keys)}
    out = np.zeros((count, len(keys)))
    for row in run.breakdown(by=("process", "operation", "layer", "resource", "iteration")).where(
        process=lead
    ):
        at = number.get(row["iteration"])
        cell = (str(row["operation"]), str(row["layer"]), str(row["resource"]))
        for key in ((), cell[:1], cell):
            if at is not None and key in place:
                out[at, place[key]] += row["ns"]
    units = np.bincount(block, weight, count)
    return out[units > 0] / units[units > 0][:, None] if (units > 0).sum() >= FEWEST_BLOCKS else None
