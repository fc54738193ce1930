"""Why one run takes longer than another: the difference divided into operations and layers, and these into native functions.

Every division adds up: the parts to the difference of the totals, the functions and resources of a part to that part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cutaway.analysis.compare import Cell, Estimate, Group, Spent

NOTHING = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Function:
    """A native function, or a Python function of a package, on both sides; `change` in nanoseconds a unit."""

    name: str
    package: str
    a: Spent
    b: Spent

    @property
    def change(self) -> float:
        return self.b.ns - self.a.ns


@dataclass(frozen=True)
class Part:
    """One layer of one operation on both sides; times a unit."""

    operation: str
    layer: str
    a_ns: float
    b_ns: float
    share: float
    """Of the whole difference; negative where B is the faster although it is slower on the whole, or the other way round."""
    calls: tuple[float, float]
    """Native calls of A and of B."""
    crossings: tuple[float, float]
    """Transitions out of this layer, of A and of B."""
    resources: dict[str, float]
    functions: tuple[Function, ...]

    @property
    def change(self) -> float:
        return self.b_ns - self.a_ns


@dataclass(frozen=True)
class Explanation:
    """The answer; parts with the largest change first."""

    a: Group
    b: Group
    ratio: Estimate
    parts: tuple[Part, ...]

    @property
    def change(self) -> float:
        return self.b.total.value - self.a.total.value

    @property
    def packages(self) -> dict[str, float]:
        """By how much the Python time of each package changes; the largest first. Empty where no stacks were sampled."""
        found: dict[str, float] = {}
        for function in (f for part in self.parts for f in part.functions if f.package):
            found[function.package] = found.get(function.package, 0.0) + function.change
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))


def explain(a: Group, b: Group) -> Explanation:
    """What the difference of B to A is made of."""
    layers = {(cell.operation, cell.layer): None for group in (a, b) for cell in group.cells}
    whole = b.total.value - a.total.value
    parts = [_part(a, b, operation, layer, whole) for operation, layer in layers]
    parts.sort(key=lambda part: -abs(part.change))
    return Explanation(a, b, ratio(a.total, b.total), tuple(parts))


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """B / A with its interval."""
    if not a.value or not b.value:
        return Estimate(math.nan, math.nan, math.nan)
    value = b.value / a.value
    half = value * math.hypot((a.high - a.value) / a.value, (b.high - b.value) / b.value)
    return Estimate.around(value, half)


def _part(a: Group, b: Group, operation: str, layer: str, whole: float) -> Part:
    cells = [Cell(operation, layer, resource) for resource in ("cpu", "cpu+gpu", "gpu", "idle")]
    values = [[group.cells.get(cell, NOTHING).value for cell in cells] for group in (a, b)]
    a_ns, b_ns = map(sum, values)
    resources = {
        cell.resource: after - before
        for cell, before, after in zip(cells, *values, strict=True)
        if before or after
    }

    def calls(group: Group) -> float:
        return sum(group.calls.get(cell, 0.0) for cell in cells)

    def crossings(group: Group) -> float:
        return sum(n for c, n in group.transitions.items() if (c.operation, c.origin) == (operation, layer))

    share = (b_ns - a_ns) / whole if whole else math.nan
    return Part(
        operation, layer, a_ns, b_ns, share, (calls(a), calls(b)), (crossings(a), crossings(b)),
        resources, _functions(a, b, operation, layer),
    )  # fmt: skip


def _functions(a: Group, b: Group, operation: str, layer: str) -> tuple[Function, ...]:
    none = Spent(0.0, 0.0)
    calls = {c: None for g in (a, b) for c in g.functions if (c.operation, c.layer) == (operation, layer)}
    found = [
        Function(c.function, c.package, a.functions.get(c, none), b.functions.get(c, none)) for c in calls
    ]
    return tuple(sorted(found, key=lambda f: -abs(f.change)))
