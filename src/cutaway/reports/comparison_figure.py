"""Runs side by side as a figure: bars by operation, stacked by layer and resource, with intervals; below them the transitions.

The figure is SVG made of plain shapes, alone in a file or inside an offline page in the style of the report.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from cutaway.analysis.compare import Cell, Group
from cutaway.errors import CutawayError
from cutaway.trace.files import write_private
from cutaway.vocabulary import LAYERS, RESOURCES, THREAD_LAYERS

from .comparison import layers_used, many, order
from .page import assemble
from .printer import colour
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
PATTERNS = (
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


class _Canvas:
    """Shapes of one figure about these operations."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, text: str, anchor: str = "start", soft: bool = False
    ) -> None:
        mark = ' class="soft"' if soft else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{mark}>{escape(text)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str,
        strength: float,
        title: str,
    ) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.2f}" width="{w:.1f}" height="{h:.2f}" fill="{fill}" fill-opacity="{strength}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = "#d3d7dd"
    ) -> None:
        at = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.parts.append(f'<line {at} stroke="{colour}"/>')

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
            self.box(
                x,
                y,
                width,
                tall,
                colour(part.operation, self.names),
                strength,
                part.title,
            )
            if part.resource in HATCH:
                self.box(
                    x,
                    y,
                    width,
                    tall,
                    f"url(#{HATCH[part.resource][0]})",
                    1.0,
                    part.title,
                )


def svg(groups: Sequence[Group], alone: bool = True) -> str:
    """The figure; `alone` gives it a white ground and a font of its own."""
    canvas = _Canvas(order(groups))
    unit = groups[0].unit
    widths = [max(len(_shown(group, canvas.names)), 3) * BAR + GAP for group in groups]
    places = [float(LEFT + sum(widths[:i])) for i in range(len(groups))]
    legend = LEFT + sum(widths) + 10
    width = legend + 190
    height = CROSSINGS + LOW + 50
    _bars(canvas, groups, places, widths, legend)
    panels = (
        (
            SHARES,
            "share of the time, by operation and layer",
            [_share(g, canvas.names) for g in groups],
        ),
        (
            CROSSINGS,
            f"transitions between layers per {unit}, by operation",
            [_crossed(g) for g in groups],
        ),
    )
    for top, title, stacks in panels:  # one column a run
        most = max(map(_height, stacks)) or 1.0
        canvas.text(0, top + 12, title, soft=True)
        canvas.line(LEFT - 4, top + 20 + LOW, legend - 20, top + 20 + LOW)
        for parts, left in zip(stacks, places, strict=True):
            canvas.stack(left, top + 20 + LOW, 2 * BAR - 4, LOW / most, parts)
    for group, x in zip(groups, places, strict=True):
        canvas.text(
            x, CROSSINGS + LOW + 35, many(sum(group.transitions.values())), soft=True
        )
    _legend(canvas, groups, legend)
    ground = (
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>' if alone else ""
    )
    own = ' font-family="system-ui, DejaVu Sans, sans-serif" font-size="11.5" fill="#1a1d21"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img"'
        f' aria-label="Time and transitions per {unit}"{own if alone else ""}>{PATTERNS}{ground}{"".join(canvas.parts)}</svg>'
    )  # fmt: skip


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
    """A bar for each operation of each run, with its interval. Bars of a run far beyond the others are cut and carry their number."""
    highest = _highest([_top(group) for group in groups])
    tick = _tick(highest / 4)
    most = tick * math.ceil(highest / tick)
    foot = 24 + TALL
    scale = TALL / most
    canvas.text(0, 12, f"time per {groups[0].unit}, by operation", soft=True)
    for i in range(round(most / tick) + 1):
        y = foot - scale * tick * i
        canvas.line(LEFT - 4, y, right - 20, y)
        canvas.text(LEFT - 8, y + 4, duration(tick * i) if i else "0", "end", soft=True)
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
                canvas.line(
                    x - 3, foot - TALL + 9, x + BAR - 1, foot - TALL + 3, "#ffffff"
                )
                canvas.text(middle, foot - TALL - 3, duration(whole.value), "middle")
            elif whole.known:
                canvas.line(
                    middle,
                    foot - scale * whole.high,
                    middle,
                    foot - scale * whole.low,
                    "#8a1c1c",
                )
        canvas.text(left, foot + 16, clip(group.name, width // 7))
        canvas.text(left, foot + 31, duration(group.total.value), soft=True)


def _highest(of_groups: Sequence[float]) -> float:
    """What the axis must reach: one run that takes ten times as long as most must not flatten the others.

    >>> _highest([4.0, 5.0, 6.0]), _highest([1.0, 2.0, 1.5, 60.0])
    (6.0, 2.0)
    """
    usual = FAR * sorted(of_groups)[len(of_groups) // 2]
    return max(highest for highest in of_groups if highest <= usual)


def _tick(least: float) -> float:
    """The next round number: 1, 2 or 5 and zeros.

    >>> _tick(62.7), _tick(0.11)
    (100.0, 0.2)
    """
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return float(next(n * power for n in (1, 2, 5, 10) if n * power >= least))


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
        ("#59616e", LAYERS[layer].strength, LAYERS[layer].title)
        for layer in layers_used(groups)
    ]
    rows += [
        (f"url(#{hatch})", 1.0, title)
        for name, (hatch, title) in HATCH.items()
        if name in used
    ]
    for i, (fill, strength, title) in enumerate(rows):
        y = 24.0 + 17 * i + (8 if i >= len(canvas.names) else 0)
        canvas.box(x, y, 11, 11, fill, strength, title)
        canvas.text(x + 17, y + 10, title)
    canvas.text(x, 24 + 17 * len(rows) + 24, "lines: 95 % intervals", soft=True)


def page(
    title: str,
    parts: Sequence[tuple[str, str]],
    unit: str,
    flame: dict[str, Any] | None,
) -> str:
    """One offline HTML file: sections of markup below their titles, and the change as a flame graph where there is one."""
    body = f"<header><h1>{escape(title)}</h1></header>"
    for name, markup in parts:
        body += (
            f"<section>{f'<h2>{escape(name)}</h2>' if name else ''}{markup}</section>"
        )
    change = f"Which code takes longer or less, per {unit}"
    how = "wide: takes long; strong colour: changed much; click to zoom"
    sections = {"flame": {"title": f"{change} ({how})", **flame}} if flame else {}
    return assemble(title, {"unit": unit, "colours": {}, "sections": sections}, body)


def preformatted(lines: Sequence[str]) -> str:
    """Lines of a terminal as markup."""
    return f'<pre class="code">{escape(chr(10).join(lines))}</pre>'


def paragraphs(lines: Sequence[str]) -> str:
    """Sentences as markup."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def write(path: Path, drawn: str) -> None:
    """Writes a figure, drawn as SVG, as SVG, PNG or PDF, by the ending of its name."""
    kind = path.suffix.lower()
    if kind not in (".svg", ".png", ".pdf"):
        remedy = "use a name that ends in .svg, .png or .pdf"
        raise CutawayError(f"{path} is not a figure Cutaway can write; {remedy}.")
    try:
        if kind == ".svg":
            write_private(path, drawn)
        else:
            cairosvg = importlib.import_module("cairosvg")
            convert = cairosvg.svg2png if kind == ".png" else cairosvg.svg2pdf
            write_private(path, convert(bytestring=drawn.encode()))
    except ImportError:
        remedy = "pip install cairosvg, or write an .svg"
        raise CutawayError(f"{kind[1:].upper()} needs CairoSVG: {remedy}.") from None
    except OSError as error:
        remedy = "write an .svg, or choose another folder"
        raise CutawayError(f"{path} cannot be written: {error}; {remedy}.") from None
