"""Why one run takes longer than another: the difference divided into operations and layers, and these into native functions.

Every division adds up: the parts to the difference of the totals, the functions and resources of a part to that part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
        found = totals(
            (f.package, f.change_ns)
            for part in self.parts
            for f in part.functions
            if f.package
        )
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))


def explain(a: Group, b: Group) -> Explanation:
    """What the difference of B to A is made of."""
    whole = b.total.value - a.total.value
    layers = {
        (cell.operation, cell.layer): None for group in (a, b) for cell in group.cells
    }
    parts = [_part(a, b, *layer, whole) for layer in layers]
    parts.sort(key=lambda part: -abs(part.change_ns))
    return Explanation(a, b, ratio(a.total, b.total), whole, tuple(parts))


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """B / A with its interval."""
    if not a.value or not b.value:
        return Estimate(math.nan)
    value = b.value / a.value
    half = value * math.hypot(
        (a.high - a.value) / a.value, (b.high - b.value) / b.value
    )
    return Estimate.around(value, half)


def _part(a: Group, b: Group, operation: str, layer: str, whole: float) -> Part:
    cells = [Cell(operation, layer, resource) for resource in RESOURCES]

    def both(of: Callable[[Group], float]) -> tuple[float, float]:
        return of(a), of(b)

    def function(call: Call) -> Function:
        a_ns, b_ns = both(lambda group: group.functions.get(call, 0.0))
        calls = both(lambda group: group.function_calls.get(call, 0.0))
        return Function(call.function, call.package, a_ns, b_ns, b_ns - a_ns, calls)

    before, after = (
        [g.cells[c].value if c in g.cells else 0.0 for c in cells] for g in (a, b)
    )
    a_ns, b_ns = sum(before), sum(after)
    spent = zip(RESOURCES, before, after, strict=True)
    called = {
        c: None
        for g in (a, b)
        for c in g.functions
        if (c.operation, c.layer) == (operation, layer)
    }
    return Part(
        operation=operation,
        layer=layer,
        a_ns=a_ns,
        b_ns=b_ns,
        change_ns=b_ns - a_ns,
        share=(b_ns - a_ns) / whole if whole else math.nan,
        calls=both(lambda group: sum(group.calls.get(cell, 0.0) for cell in cells)),
        transitions=both(
            lambda g: sum(
                n for c, n in g.transitions.items() if c[:2] == (operation, layer)
            )
        ),
        resources={resource: b - a for resource, a, b in spent if a or b},
        functions=tuple(sorted(map(function, called), key=lambda f: -abs(f.change_ns))),
    )
