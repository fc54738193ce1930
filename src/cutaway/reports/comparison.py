"""Runs side by side, as text within 80 columns, as sentences, and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from cutaway.analysis.compare import DEVICE, Group
from cutaway.analysis.estimates import Estimate
from cutaway.analysis.explain import Explanation, Function, Part, ratio
from cutaway.analysis.noise import RUN_TO_RUN
from cutaway.vocabulary import LAYERS, THREAD_LAYERS

from .text import clip, duration, number, operation, plural
from .text import layer as short

WIDTH = 78  # of a table; signs outside ASCII may need more than one place
MOST_PARTS = 8
SMALL = 0.02  # a part of the difference below this is added to the rest


def order(groups: Sequence[Group]) -> list[str]:
    """All operations, the largest first; time outside any last."""
    total: defaultdict[str, float] = defaultdict(float)
    for group in groups:
        for name, spent in group.operations.items():
            total[name] += spent.value
    return sorted(total, key=lambda name: (name == "", -total[name]))


def layers_used(groups: Sequence[Group]) -> list[str]:
    """The layers that any of the groups spends time in, in their usual order."""
    used: set[str] = set()
    for group in groups:
        used.update(layer for layer, ns in group.by_layer().items() if ns)
    return [layer for layer in THREAD_LAYERS if layer in used]


def table(groups: Sequence[Group], base: Group) -> list[str]:
    """Time for each unit by run and operation, with its layers as columns."""
    scale, unit = _scale(max(group.total.value for group in groups))
    columns = {layer: max(6, len(short(layer)) + 1) for layer in layers_used(groups)}
    if any(group.device() for group in groups):
        columns["GPU"] = 6
    width = WIDTH - 22 - sum(columns.values())
    titles = "".join(f"{short(layer):>{w}}" for layer, w in columns.items())
    first = f"{unit} per {groups[0].unit}"
    lines = [f"{first:<{width}}{'total':>8}{'95 %':>7}{'ratio':>7}{titles}"]
    for group in groups:
        for name in (None, *order(groups)):
            spent = _spent(group, name)
            if spent is None or spent.value < 0.005 * group.total.value:
                continue
            if name is None:
                label = group.name
            else:
                label = f"  {operation(name)}"
            half = "?"
            if spent.known:
                half = f"±{number((spent.high - spent.value) * scale)}"
            total = number(spent.value * scale)
            factor = _factor(_spent(base, name), spent)
            values = {**group.by_layer(name), "GPU": group.device(name)}
            lines.append(
                f"{label[: width - 1]:<{width}}{total:>8}{half:>7}{factor:>7}"
                + _figures(values, columns, scale)
            )
    return lines


def _scale(longest_ns: float) -> tuple[float, str]:
    """The unit in which the longest time is easy to read."""
    if longest_ns < 1e6:
        return 1e-3, "µs"
    if longest_ns < 1e10:
        return 1e-6, "ms"
    return 1e-9, "s"


def _spent(group: Group, name: str | None) -> Estimate | None:
    """The time of an operation; of everything without a name."""
    if name is None:
        return group.total
    return group.operations.get(name)


def _factor(before: Estimate | None, spent: Estimate) -> str:
    if before:
        times = ratio(before, spent).value
    else:
        times = math.nan
    if math.isnan(times):
        return "–"
    if times < 99.5:
        return f"{times:.2f}×"
    return f"{times:.0f}×"


def _figures(values: dict[str, float], columns: dict[str, int], scale: float) -> str:
    cells = []
    for layer, width in columns.items():
        cells.append(f"{number(values.get(layer, 0.0) * scale):>{width}}")
    return "".join(cells)


def transitions(groups: Sequence[Group]) -> list[str]:
    """Crossings between layers for each unit, the most frequent kinds as columns."""
    crossed = [_kinds(group) for group in groups]
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for kinds in crossed:
        for pair, count in kinds.items():
            found[pair] += count
    shown = sorted(found, key=lambda pair: -found[pair])[:4]
    if not shown:
        return []
    width = WIDTH - 15 * len(shown)
    heads = [f"{short(from_layer)}→{short(to_layer)}" for from_layer, to_layer in shown]
    titles = "".join(f"{head:>15}" for head in heads)
    lines = [f"{'transitions per ' + groups[0].unit:<{width}}{titles}"]
    for group, kinds in zip(groups, crossed, strict=True):
        counts = "".join(f"{many(kinds.get(pair, 0.0)):>15}" for pair in shown)
        lines.append(f"{group.name[: width - 1]:<{width}}{counts}")
    return lines


def _kinds(group: Group) -> dict[tuple[str, str], float]:
    """Transitions of all operations, by the two layers."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for crossing, count in group.transitions.items():
        found[crossing.from_layer, crossing.to_layer] += count
    return found


def many(value: float) -> str:
    """A count, which may be a mean."""
    if value >= 100 or value == round(value):
        return f"{value:,.0f}"
    return number(value)


def sentences(why: Explanation) -> list[str]:
    """What the difference is made of, in words, the largest part first.

    Only what chance cannot explain is listed; the shares add up to 100 %.
    """
    lines = _whole(why)
    large = [part for part in why.parts[:MOST_PARTS] if abs(part.share) >= SMALL]
    named = [part for part in large if not part.in_noise]
    lines += [_part(part, why.a.unit) for part in named]
    rest = why.change_ns - sum(part.change_ns for part in named)
    if len(named) < len(why.parts) and why.change_ns:
        noisy = len(large) - len(named)
        if noisy:
            chance = f"; {plural(noisy, 'part')} of it may be chance"
        else:
            chance = ""
        share = rest / why.change_ns
        lines.append(f"{share:.0%} is everything else ({_signed(rest)}){chance}.")
    return lines + _packages(why)


def _whole(why: Explanation) -> list[str]:
    """By how much B differs from A, and how sure that is."""
    a = why.a
    b = why.b
    times = why.ratio
    bounds = f" (95 % interval {times.low:.2f} to {times.high:.2f})"
    spent = f"{duration(a.total.value)} → {duration(b.total.value)}"
    lines = [
        f"{b.name} takes {times.value:.2f}× as long as {a.name} per {a.unit}"
        f"{bounds if times.known else ''}: {spent}."
    ]
    if math.isinf(why.floor):
        lines.append(
            "The machine was busy, so one run of each cannot tell whether this is a change."
        )
    elif times.low <= 1 <= times.high:
        lines.append("The interval includes 1, so the difference may be chance.")
    return lines


def _packages(why: Explanation) -> list[str]:
    """The abstractions to blame, if stacks were sampled."""
    listed = []
    for name, ns in why.packages.items():
        if why.change_ns and abs(ns) >= SMALL * abs(why.change_ns):
            listed.append(f"{name} {ns / why.change_ns:.0%} ({_signed(ns)})")
    if not listed:
        return []
    told = ", ".join(listed[:4])
    return [f"Python time by package, as a share of the difference: {told}."]


def _part(part: Part, unit: str) -> str:
    """One sentence: how much of the difference, where, and which calls changed."""
    where = f"{LAYERS[part.layer].calls} in {operation(part.operation)}"
    spent = f"{duration(part.a_ns)} → {duration(part.b_ns)}"
    text = f"{part.share:.0%} of the difference is {where}: {spent}"
    if part.low_ns == part.low_ns:
        text += f" (95 % interval {_signed(part.low_ns)} to {_signed(part.high_ns)})"
    if part.layer == "python" and max(part.transitions) >= 0.5:
        text += f", with {_counts(part.transitions)} calls out of Python per {unit}"
    elif max(part.calls) >= 0.5:
        text += f", {_counts(part.calls)} calls per {unit}"
    busy = sum(part.resources.get(resource, 0.0) for resource in DEVICE)
    if part.change_ns and abs(busy / part.change_ns) >= 0.1:
        text += f"; {busy / part.change_ns:.0%} of that while the device works"
    told = [_function(function) for function in _to_blame(part)]
    if told:
        text += f"; most in {', '.join(told)}"
    return text + "."


def _to_blame(part: Part) -> list[Function]:
    """The functions that changed most, by more than runs differ."""
    beyond = []
    for function in part.functions:
        noise = RUN_TO_RUN * max(function.a_ns, function.b_ns)
        if abs(function.change_ns) > noise:
            beyond.append(function)
    least = 0.1 * abs(part.change_ns)
    return [function for function in beyond[:3] if abs(function.change_ns) >= least]


def _function(function: Function) -> str:
    text = f"{clip(function.function, 60)}: {_signed(function.change_ns)}"
    if max(function.calls) > 0:
        text += f", {_counts(function.calls)} calls"
    return text


def _counts(pair: tuple[float, float]) -> str:
    a, b = map(many, pair)
    if a == b:
        return a
    return f"{a} → {b}"


def _signed(ns: float) -> str:
    return ("+" if ns >= 0 else "-") + duration(abs(ns))


def compared(
    groups: Sequence[Group], base: Group, why: Explanation | None
) -> dict[str, Any]:
    """Everything, for machines; None stands for what is not known."""
    out: dict[str, Any] = {
        "schema": "cutaway.compare/1",
        "unit": groups[0].unit if groups else None,
        "relative_to": base.name,
        "groups": [_group(group, base) for group in groups],
    }
    if why is not None:
        out["explanation"] = {
            "a": why.a.name,
            "b": why.b.name,
            "ratio": why.ratio,
            "change_ns": why.change_ns,
            "parts": why.parts,
            "packages": why.packages,
            "sentences": sentences(why),
        }
    return dict(plain(out))


def _group(group: Group, base: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "runs": group.runs,
        "units": group.units,
        "overhead": group.overhead,
        "total_ns": group.total,
        "ratio": ratio(base.total, group.total),
        "operations": [
            {"operation": name, "ns": spent} for name, spent in group.operations.items()
        ],
        "cells": [
            {**cell._asdict(), "ns": spent, "calls": group.calls.get(cell, 0.0)}
            for cell, spent in group.cells.items()
        ],
        "transitions": [
            {
                "operation": crossing.operation,
                "from": crossing.from_layer,
                "to": crossing.to_layer,
                "count": count,
            }
            for crossing, count in group.transitions.items()
        ],
    }


def plain(value: Any) -> Any:
    """Values as JSON can hold them: dataclasses become objects, NaN and infinity become None.

    >>> plain([1, float("nan"), (2,)])
    [1, None, [2]]
    """
    if dataclasses.is_dataclass(value):
        return {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
