"""Runs side by side, as text within 80 columns, as sentences, and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cutaway.analysis.compare import Group
from cutaway.analysis.explain import Explanation, Part, ratio
from cutaway.analysis.noise import RUN_TO_RUN
from cutaway.analysis.table import totals
from cutaway.vocabulary import LAYERS, THREAD_LAYERS

from .text import clip, duration, number, operation
from .text import layer as short

if TYPE_CHECKING:
    from cutaway.analysis import Run

WIDTH = 78  # of a table; signs outside ASCII may need more than one place
MOST_PARTS = 8
SMALL = 0.02  # a part of the difference below this is added to the rest


def changed_functions(
    sides: Sequence[Sequence[Run]], units: Sequence[float], floor: float = RUN_TO_RUN
) -> list[dict[str, Any]]:
    """Your functions by how much the time in and below them changed, per unit of all processes, with what changed most inside.
    The 95 % interval is that of the samples, widened by `floor`: what runs differ by, relative."""
    variance: defaultdict[tuple[str, str], float] = defaultdict(float)
    spent: defaultdict[tuple[str, str], dict[str, list[float]]] = defaultdict(dict)
    for side, (runs, count) in enumerate(zip(sides, units, strict=True)):
        for row in (row for run in runs for row in run.steady().lines(by="function")):
            own = f"{row['your_function']} ({row['your_file'].rpartition('/')[2]})"
            where = own if row["your_file"] else row["native"] or "(not sampled)"
            inside = spent[row["operation"], where]
            inside.setdefault(row["native"] or row["function"], [0.0, 0.0])[side] += (
                row["ns"] / count
            )
            if row["samples"]:  # what no sample divides is exact
                variance[row["operation"], where] += (row["ns"] / count) ** 2 / row[
                    "samples"
                ]
    found = []
    for (name, function), inside in spent.items():
        most = max(inside, key=lambda key: abs(inside[key][1] - inside[key][0]))
        a, b = (sum(pair[side] for pair in inside.values()) for side in (0, 1))
        known = most in (function, function.partition(" (")[0])
        about = {
            "operation": name,
            "function": function,
            "inside": "" if known else most,
        }
        half = 1.96 * math.sqrt(variance[name, function]) + max(
            floor, RUN_TO_RUN
        ) * max(a, b)
        bounds = {"low_ns": max(b - a - half, -a), "high_ns": b - a + half}
        found.append({**about, "a_ns": a, "b_ns": b, "change_ns": b - a, **bounds})
    return sorted(found, key=lambda changed: -abs(changed["change_ns"]))


def order(groups: Sequence[Group]) -> list[str]:
    """All operations, the largest first; time outside any last."""
    total = totals(
        (name, spent.value)
        for group in groups
        for name, spent in group.operations.items()
    )
    return sorted(total, key=lambda name: (name == "", -total[name]))


def table(groups: Sequence[Group], base: Group) -> list[str]:
    """Time for each unit by run and operation, with its layers as columns."""
    longest = max(group.total.value for group in groups)
    scale, unit = (
        (1e-3, "µs")
        if longest < 1e6
        else (1e-6, "ms")
        if longest < 1e10
        else (1e-9, "s")
    )
    shown = [
        layer
        for layer in THREAD_LAYERS
        if any(group.layers().get(layer) for group in groups)
    ]
    columns = {layer: max(6, len(short(layer)) + 1) for layer in shown}
    if any(group.device() for group in groups):
        columns["GPU"] = 6
    width = WIDTH - 22 - sum(columns.values())
    titles = "".join(f"{short(layer):>{w}}" for layer, w in columns.items())
    lines = [
        f"{unit + ' per ' + groups[0].unit:<{width}}{'total':>8}{'95 %':>7}{'ratio':>7}{titles}"
    ]
    for group in groups:
        for name in (None, *order(groups)):
            spent = group.total if name is None else group.operations.get(name)
            if spent is None or spent.value < 0.005 * group.total.value:
                continue
            before = base.total if name is None else base.operations.get(name)
            times = ratio(before, spent).value if before else math.nan
            factor = (
                "–"
                if math.isnan(times)
                else f"{times:.2f}×"
                if times < 99.5
                else f"{times:.0f}×"
            )
            half = (
                f"±{number((spent.high - spent.value) * scale)}" if spent.known else "?"
            )
            values = {**group.layers(name), "GPU": group.device(name)}
            cells = "".join(
                f"{number(values.get(layer, 0.0) * scale):>{w}}"
                for layer, w in columns.items()
            )
            label = (group.name if name is None else "  " + operation(name))[
                : width - 1
            ]
            lines.append(
                f"{label:<{width}}{number(spent.value * scale):>8}{half:>7}{factor:>7}{cells}"
            )
    return lines


def transitions(groups: Sequence[Group]) -> list[str]:
    """Crossings between layers for each unit, the most frequent kinds as columns."""
    crossed = [
        totals((c[1:], n) for c, n in group.transitions.items()) for group in groups
    ]
    found = totals(pair for kinds in crossed for pair in kinds.items())
    shown = sorted(found, key=lambda pair: -found[pair])[:4]
    if not shown:
        return []
    heads = [f"{short(a)}→{short(b)}" for a, b in shown]
    width = WIDTH - 15 * len(heads)
    lines = [
        f"{'transitions per ' + groups[0].unit:<{width}}"
        + "".join(f"{head:>15}" for head in heads)
    ]
    for group, kinds in zip(groups, crossed, strict=True):
        counts = "".join(f"{many(kinds.get(pair, 0.0)):>15}" for pair in shown)
        lines.append(f"{group.name[: width - 1]:<{width}}{counts}")
    return lines


def many(value: float) -> str:
    """A count, which may be a mean."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else number(value)


def sentences(why: Explanation) -> list[str]:
    """What the difference is made of, in words, the largest part first; shares add up to 100 %."""
    a, b, r, whole = why.a, why.b, why.ratio, why.change_ns
    bounds = f" (95 % interval {r.low:.2f} to {r.high:.2f})" if r.known else ""
    times = f"{duration(a.total.value)} → {duration(b.total.value)}"
    lines = [
        f"{b.name} takes {r.value:.2f}× as long as {a.name} per {a.unit}{bounds}: {times}."
    ]
    if r.low <= 1 <= r.high:
        lines.append("The interval includes 1, so the difference may be chance.")
    named = [part for part in why.parts[:MOST_PARTS] if abs(part.share) >= SMALL]
    lines += [_part(part, a.unit) for part in named]
    rest = whole - sum(part.change_ns for part in named)
    if len(named) < len(why.parts) and whole:
        lines.append(f"{rest / whole:.0%} is everything else ({_signed(rest)}).")
    packages = [
        (name, ns) for name, ns in why.packages.items() if abs(ns) >= SMALL * abs(whole)
    ][:4]
    if packages and whole:  # the abstractions to blame
        listed = ", ".join(
            f"{name} {ns / whole:.0%} ({_signed(ns)})" for name, ns in packages
        )
        lines.append(f"Python time by package, as a share of the difference: {listed}.")
    return lines


def _part(part: Part, unit: str) -> str:
    """One sentence: how much of the difference, where, and which calls changed."""
    where = f"{LAYERS[part.layer].calls} in {operation(part.operation)}"
    text = f"{part.share:.0%} of the difference is {where}: {duration(part.a_ns)} → {duration(part.b_ns)}"
    if part.layer == "python" and max(part.transitions) >= 0.5:
        text += f", with {_counts(part.transitions)} calls out of Python per {unit}"
    elif max(part.calls) >= 0.5:
        text += f", {_counts(part.calls)} calls per {unit}"
    busy = sum(
        ns for resource, ns in part.resources.items() if resource in ("gpu", "cpu+gpu")
    )
    if part.change_ns and abs(busy / part.change_ns) >= 0.1:
        text += f"; {busy / part.change_ns:.0%} of that while the device works"
    beyond = [
        f for f in part.functions if abs(f.change_ns) > RUN_TO_RUN * max(f.a_ns, f.b_ns)
    ]
    most = [f for f in beyond[:3] if abs(f.change_ns) >= 0.1 * abs(part.change_ns)]
    calls = (f", {_counts(f.calls)} calls" if max(f.calls) > 0 else "" for f in most)
    told = (
        f"{clip(f.function, 60)}: {_signed(f.change_ns)}{n}"
        for f, n in zip(most, calls, strict=True)
    )
    return text + (f"; most in {', '.join(told)}." if most else ".")


def _counts(pair: tuple[float, float]) -> str:
    a, b = map(many, pair)
    return a if a == b else f"{a} → {b}"


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
        found = {
            "a": why.a.name,
            "b": why.b.name,
            "ratio": why.ratio,
            "change_ns": why.change_ns,
        }
        more = {
            "parts": why.parts,
            "packages": why.packages,
            "sentences": sentences(why),
        }
        out["explanation"] = {**found, **more}
    return dict(plain(out))


def _group(group: Group, base: Group) -> dict[str, Any]:
    cells = [
        {**c._asdict(), "ns": e, "calls": group.calls.get(c, 0.0)}
        for c, e in group.cells.items()
    ]
    names = ("operation", "from", "to", "count")
    crossed = [
        dict(zip(names, (*crossing, n), strict=True))
        for crossing, n in group.transitions.items()
    ]
    return {
        "name": group.name,
        "runs": group.runs,
        "units": group.units,
        "overhead": group.overhead,
        "total_ns": group.total,
        "ratio": ratio(base.total, group.total),
        "operations": [
            {"operation": name, "ns": e} for name, e in group.operations.items()
        ],
        "cells": cells,
        "transitions": crossed,
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
    return None if isinstance(value, float) and not math.isfinite(value) else value
