"""Why one run takes longer than another: the difference divided into operations and layers, and these into native functions.

Every division adds up: the parts to the difference of the totals, the functions and resources of a part to that part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cutaway.analysis.compare import Call, Cell, Group
from cutaway.analysis.estimates import Estimate
from cutaway.analysis.table import totals
from cutaway.vocabulary import RESOURCES


@dataclass(frozen=True)
class Function:
    """A native function, or a Python function of a package, in A and in B; nanoseconds and calls a unit."""

    function: str
    package: str
    a_ns: float
    b_ns: float
    change_ns: float
    calls: tuple[float, float]


@dataclass(frozen=True)
class Part:
    """One layer of one operation in A and in B; times a unit."""

    operation: str
    layer: str
    a_ns: float
    b_ns: float
    change_ns: float
    share: float
    """Of the whole difference; negative where B is the faster although it is slower on the whole, or the other way round."""
    calls: tuple[float, float]
    """Native calls."""
    transitions: tuple[float, float]
    """Out of this layer."""
    resources: dict[str, float]
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class Explanation:
    """The answer; parts with the largest change first."""

    a: Group
    b: Group
    ratio: Estimate
    change_ns: float
    parts: tuple[Part, ...]

    @property
    def packages(self) -> dict[str, float]:
        """By how much the Python time of each package changes; the largest first. Empty where no stacks were sampled."""
        found = totals((f.package, f.change_ns) for part in self.parts for f in part.functions if f.package)
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))


def explain(a: Group, b: Group) -> Explanation:
    """What the difference of B to A is made of."""
    layers = {(cell.operation, cell.layer): None for group in (a, b) for cell in group.cells}
    whole = b.total.value - a.total.value
    parts = [_part(a, b, operation, layer, whole) for operation, layer in layers]
    parts.sort(key=lambda part: -abs(part.change_ns))
    return Explanation(a, b, ratio(a.total, b.total), whole, tuple(parts))


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """B / A with its interval."""
    if not a.value or not b.value:
        return Estimate(math.nan)
    value = b.value / a.value
    return Estimate.around(
        value, value * math.hypot((a.high - a.value) / a.value, (b.high - b.value) / b.value)
    )


def _part(a: Group, b: Group, operation: str, layer: str, whole: float) -> Part:
    def both(of: Group) -> tuple[dict[str, float], float, float]:
        cells = [cell for resource in RESOURCES if (cell := Cell(operation, layer, resource)) in of.cells]
        crossed = [n for c, n in of.transitions.items() if (c.operation, c.origin) == (operation, layer)]
        ns = {cell.resource: of.cells[cell].value for cell in cells}
        return ns, sum(of.calls.get(cell, 0.0) for cell in cells), sum(crossed)

    (before, a_calls, a_crossed), (after, b_calls, b_crossed) = both(a), both(b)
    a_ns, b_ns = sum(before.values()), sum(after.values())
    changes = {r: after.get(r, 0.0) - before.get(r, 0.0) for r in RESOURCES if before.get(r) or after.get(r)}
    return Part(
        operation, layer, a_ns, b_ns, b_ns - a_ns, (b_ns - a_ns) / whole if whole else math.nan,
        (a_calls, b_calls), (a_crossed, b_crossed), changes, _functions(a, b, operation, layer),
    )  # fmt: skip


def _functions(a: Group, b: Group, operation: str, layer: str) -> tuple[Function, ...]:
    def of(call: Call) -> Function:
        a_ns, b_ns = (group.functions.get(call, 0.0) for group in (a, b))
        calls = a.function_calls.get(call, 0.0), b.function_calls.get(call, 0.0)
        return Function(call.function, call.package, a_ns, b_ns, b_ns - a_ns, calls)

    calls = {c: None for g in (a, b) for c in g.functions if (c.operation, c.layer) == (operation, layer)}
    return tuple(sorted(map(of, calls), key=lambda f: -abs(f.change_ns)))
