"""Why one run takes longer than another: the difference divided into operations and
layers, and these into functions.

Every division adds up: the parts to the difference of the totals, the functions and
resources of a part to that part.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from cutaway.analysis.compare import Call, Cell, Group, Layer
from cutaway.analysis.estimates import Estimate
from cutaway.vocabulary import RESOURCES


@dataclass(frozen=True)
class Function:
    """A native function, or a Python function of a package, in A and in B; nanoseconds
    and calls a unit."""

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
    low_ns: float
    high_ns: float
    """The 95 % interval of the change; NaN where too little is known."""
    share: float
    """Of the whole difference; negative where B is the faster although it is slower on
    the whole, or the other way round."""
    calls: tuple[float, float]
    """Native calls."""
    transitions: tuple[float, float]
    """Out of this layer."""
    resources: dict[str, float]
    functions: tuple[Function, ...]

    @property
    def in_noise(self) -> bool:
        """Whether chance alone can explain the change."""
        return self.low_ns <= 0 <= self.high_ns


@dataclass(frozen=True)
class Explanation:
    """The answer; parts with the largest change first."""

    a: Group
    b: Group
    ratio: Estimate
    change_ns: float
    parts: tuple[Part, ...]

    @property
    def floor(self) -> float:
        """The change that one run on each side cannot tell from noise, relative."""
        return _floor(self.a, self.b)

    @property
    def packages(self) -> dict[str, float]:
        """By how much the Python time of each package changes; the largest first.
        Empty where no stacks were sampled."""
        found: defaultdict[str, float] = defaultdict(float)
        for part in self.parts:
            for function in part.functions:
                if function.package:
                    found[function.package] += function.change_ns
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))


def explain(a: Group, b: Group) -> Explanation:
    """What the difference of B to A is made of."""
    whole = b.total.value - a.total.value
    layers = dict.fromkeys([*a.layers, *b.layers])
    parts = [_part(a, b, layer, whole) for layer in layers]
    parts.sort(key=lambda part: -abs(part.change_ns))
    times = ratio(a.total, b.total, _floor(a, b))
    return Explanation(a, b, times, whole, tuple(parts))


def ratio(a: Estimate, b: Estimate, floor: float = 0.0) -> Estimate:
    """B / A with its interval, widened by `floor`, relative."""
    if not a.value or not b.value:
        return Estimate(math.nan)
    value = b.value / a.value
    if math.isinf(floor):
        return Estimate(value)
    before = (a.high - a.value) / a.value
    after = (b.high - b.value) / b.value
    return Estimate.around(value, value * (math.hypot(before, after) + floor))


def _floor(a: Group, b: Group) -> float:
    """One run of each: what the machine alone may change. Several runs show it themselves."""
    if a.runs > 1 or b.runs > 1:
        return 0.0
    return max(a.floor, b.floor)


def _part(a: Group, b: Group, layer: Layer, whole: float) -> Part:
    nothing = Estimate(0.0, 0.0, 0.0)
    before = a.layers.get(layer, nothing)
    after = b.layers.get(layer, nothing)
    change = _change(before, after, _floor(a, b))
    functions = [_function(a, b, call) for call in _calls_in(layer, a, b)]
    functions.sort(key=lambda function: -abs(function.change_ns))
    return Part(
        operation=layer.operation,
        layer=layer.layer,
        a_ns=before.value,
        b_ns=after.value,
        change_ns=change.value,
        low_ns=change.low,
        high_ns=change.high,
        share=change.value / whole if whole else math.nan,
        calls=(_native_calls(a, layer), _native_calls(b, layer)),
        transitions=(_transitions(a, layer), _transitions(b, layer)),
        resources=_resources(a, b, layer),
        functions=tuple(functions),
    )


def _change(before: Estimate, after: Estimate, floor: float) -> Estimate:
    """B - A with its interval, widened by what runs differ by."""
    value = after.value - before.value
    if math.isinf(floor):
        return Estimate(value)
    half = math.hypot(before.high - before.value, after.high - after.value)
    half += floor * max(before.value, after.value)
    return Estimate(value, max(value - half, -before.value), value + half)


def _resources(a: Group, b: Group, layer: Layer) -> dict[str, float]:
    """By how much the time on each resource changed."""
    found = {}
    for resource in RESOURCES:
        cell = Cell(*layer, resource)
        before = a.cells.get(cell)
        after = b.cells.get(cell)
        spent = after.value if after else 0.0
        if before or after:
            found[resource] = spent - (before.value if before else 0.0)
    return found


def _native_calls(group: Group, layer: Layer) -> float:
    cells = [Cell(*layer, resource) for resource in RESOURCES]
    return sum(group.calls.get(cell, 0.0) for cell in cells)


def _transitions(group: Group, layer: Layer) -> float:
    """How often threads leave the layer."""
    found = 0.0
    for crossing, count in group.transitions.items():
        if (crossing.operation, crossing.from_layer) == layer:
            found += count
    return found


def _calls_in(layer: Layer, a: Group, b: Group) -> list[Call]:
    """The functions that either side calls in a layer."""
    called = dict.fromkeys([*a.functions, *b.functions])
    return [call for call in called if (call.operation, call.layer) == layer]


def _function(a: Group, b: Group, call: Call) -> Function:
    before = a.functions.get(call, 0.0)
    after = b.functions.get(call, 0.0)
    calls = a.function_calls.get(call, 0.0), b.function_calls.get(call, 0.0)
    return Function(call.function, call.package, before, after, after - before, calls)
