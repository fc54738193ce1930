"""Runs side by side as a figure: bars by operation, stacked by layer and resource, with intervals; below them the transitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cutaway.analysis.compare import Cell, Group
from cutaway.drawing.charts import tick
from cutaway.drawing.colours import UNSEEN, colour
from cutaway.drawing.markup import Markup
from cutaway.drawing.svg import Picture
from cutaway.vocabulary import LAYERS, RESOURCES, THREAD_LAYERS

from .comparison import layers_used, many, order
from .text import clip, duration, operation

HATCH = {
    "cpu+gpu": ("both", "CPU and device work"),
    "gpu": ("device", "device works, CPU waits"),
}
BAR, GAP, LEFT = (
    26,
    30,
    64,
)  # widths of a bar, of the gap between runs, and of the left margin
TALL, LOW = 300, 110  # heights of the first panel and of the two below
SHARES, CROSSINGS = 24 + TALL + 46, 24 + TALL + 46 + LOW + 50  # where these two begin
SMALL = 0.005  # an operation with less of its run's time gets no bar of its own
FAR = 4  # a run whose longest operation takes so many times as long as that of the run in the middle is cut
CELLS = list(itertools.product(THREAD_LAYERS, RESOURCES))  # as a bar is stacked
PATTERNS = Markup(
    '<defs><pattern id="both" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="2" height="6" fill="#10141a" fill-opacity=".45"/></pattern>'
    '<pattern id="device" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<circle cx="2" cy="2" r="1.3" fill="#10141a" fill-opacity=".6"/></pattern></defs>'
)


class _Part(NamedTuple):
    """A part of a stack."""

    value: float
    operation: str
    layer: str
    resource: str  # hatched where the device works
    title: str


class _Canvas(Picture):
    """One figure about these operations."""

    def __init__(
        self, names: list[str], width: float, height: float, label: str
    ) -> None:
        super().__init__(width, height, label)
        self.names = names
        self.add(PATTERNS)

    def stack(
        self,
        x: float,
        y: float,
        width: float,
        scale: float,
        parts: Iterable[_Part],
        most: float = math.inf,
    ) -> None:
        """Parts on top of each other, from `y` upwards; a stack is at most so high."""
        for part in parts:
            tall = scale * min(part.value, most)
            y = y - tall
            most = max(0.0, most - part.value)
            strength = LAYERS[part.layer].strength
            fill = colour(part.operation, self.names)
            self.box(x, y, width, tall, fill, part.title, strength)
            if part.resource in HATCH:
                pattern = f"url(#{HATCH[part.resource][0]})"
                self.box(x, y, width, tall, pattern, part.title)


def drawn(groups: Sequence[Group]) -> Picture:
    """The figure."""
    names = order(groups)
    unit = groups[0].unit
    widths = [max(len(_shown(group, names)), 3) * BAR + GAP for group in groups]
    places = [float(LEFT + sum(widths[:i])) for i in range(len(groups))]
    legend = LEFT + sum(widths) + 10
    about = f"Time and transitions per {unit}"
    canvas = _Canvas(names, legend + 190, CROSSINGS + LOW + 50, about)
    _bars(canvas, groups, places, widths, legend)
    shares = [_share(group, names) for group in groups]
    _panel(canvas, SHARES, "share of the time, by operation and layer", shares, places)
    title = f"transitions between layers per {unit}, by operation"
    crossed = [_crossed(group) for group in groups]
    _panel(canvas, CROSSINGS, title, crossed, places)
    for group, x in zip(groups, places, strict=True):
        count = many(sum(group.transitions.values()))
        canvas.text(x, CROSSINGS + LOW + 35, count, kind="soft")
    _legend(canvas, groups, legend)
    return canvas


def _panel(
    canvas: _Canvas,
    top: float,
    title: str,
    stacks: Sequence[list[_Part]],
    places: Sequence[float],
) -> None:
    """One column a run."""
    most = max(map(_height, stacks)) or 1.0
    foot = top + 20 + LOW
    canvas.text(0, top + 12, title, kind="soft")
    canvas.line(LEFT - 4, foot, canvas.width - 210, foot)
    for parts, left in zip(stacks, places, strict=True):
        canvas.stack(left, foot, 2 * BAR - 4, LOW / most, parts)


def _shown(group: Group, names: Sequence[str]) -> list[str]:
    least = SMALL * group.total.value
    return [
        name
        for name in names
        if name in group.operations and group.operations[name].value >= least
    ]


def _bars(
    canvas: _Canvas,
    groups: Sequence[Group],
    places: list[float],
    widths: list[int],
    right: float,
) -> None:
    """A bar for each operation of each run, with its interval. Bars far longer than the others are cut off and labelled."""
    highest = _highest([_top(group) for group in groups])
    step = tick(highest / 4)
    most = step * math.ceil(highest / step)
    foot = 24 + TALL
    scale = TALL / most
    canvas.text(0, 12, f"time per {groups[0].unit}, by operation", kind="soft")
    for i in range(round(most / step) + 1):
        y = foot - scale * step * i
        canvas.line(LEFT - 4, y, right - 20, y)
        canvas.text(LEFT - 8, y + 4, duration(step * i) if i else "0", "end", "soft")
    for group, left, width in zip(groups, places, widths, strict=True):
        for x, name in zip(
            itertools.count(left, BAR), _shown(group, canvas.names), strict=False
        ):
            about = f"{group.name}: {operation(name)}"
            parts = [
                _Part(
                    spent.value,
                    name,
                    *cell,
                    f"{about}, {', '.join(cell)}: {duration(spent.value)}",
                )
                for cell in CELLS
                if (spent := group.cells.get(Cell(name, *cell))) and spent.value > 0
            ]
            whole = group.operations[name]
            middle = x + BAR / 2 - 2
            canvas.stack(x, foot, BAR - 4, scale, parts, most)
            if whole.value > most:
                cut = x - 3, foot - TALL + 9, x + BAR - 1, foot - TALL + 3
                canvas.line(*cut, stroke="#ffffff")
                canvas.text(middle, foot - TALL - 3, duration(whole.value), "middle")
            elif whole.known:
                ends = foot - scale * whole.high, foot - scale * whole.low
                canvas.line(middle, ends[0], middle, ends[1], "mark")
        canvas.text(left, foot + 16, clip(group.name, width // 7))
        canvas.text(left, foot + 31, duration(group.total.value), kind="soft")


def _highest(of_groups: Sequence[float]) -> float:
    """The top of the axis: one run that takes ten times as long as most must not flatten the others.

    >>> _highest([4.0, 5.0, 6.0]), _highest([1.0, 2.0, 1.5, 60.0])
    (6.0, 2.0)
    """
    usual = FAR * sorted(of_groups)[len(of_groups) // 2]
    return max(highest for highest in of_groups if highest <= usual)


def _top(group: Group) -> float:
    """Where the highest bar of a run ends, with its interval."""
    spent = group.operations.values()
    return max(one.high if one.known else one.value for one in spent)


def _height(parts: Sequence[_Part]) -> float:
    return sum(part.value for part in parts)


def _share(group: Group, names: Sequence[str]) -> list[_Part]:
    whole = max(group.total.value, 1e-9)
    parts = []
    for name, (layer, resource) in itertools.product(reversed(names), CELLS):
        spent = group.cells.get(Cell(name, layer, resource))
        if spent is not None:
            share = spent.value / whole
            text = f"{operation(name)}, {layer}: {share:.1%}"
            parts.append(_Part(share, name, layer, "", text))
    return parts


def _crossed(group: Group) -> list[_Part]:
    return [
        _Part(
            n,
            name,
            to_layer,
            "",
            f"{operation(name)}, {from_layer} → {to_layer}: {n:,.1f}",
        )
        for (name, from_layer, to_layer), n in sorted(group.transitions.items())
    ]


def _legend(canvas: _Canvas, groups: Sequence[Group], x: float) -> None:
    used: set[str] = set()
    for group in groups:
        used.update(cell.resource for cell in group.cells)
    rows = [(colour(name, canvas.names), 1.0, operation(name)) for name in canvas.names]
    rows += [
        (UNSEEN, LAYERS[layer].strength, LAYERS[layer].title)
        for layer in layers_used(groups)
    ]
    rows += [
        (f"url(#{hatch})", 1.0, title)
        for name, (hatch, title) in HATCH.items()
        if name in used
    ]
    for i, (fill, strength, title) in enumerate(rows):
        y = 24.0 + 17 * i + (8 if i >= len(canvas.names) else 0)
        canvas.box(x, y, 11, 11, fill, title, strength)
        canvas.text(x + 17, y + 10, title)
    canvas.text(x, 24 + 17 * len(rows) + 24, "lines: 95 % intervals", kind="soft")
