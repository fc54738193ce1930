"""Runs side by side as a figure: bars by operation, stacked by layer and resource, with intervals; below them the transitions.

The figure is SVG made of plain shapes, alone in a file or inside an offline page in the style of the report.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from cutaway.analysis.compare import Cell, Group
from cutaway.errors import CutawayError
from cutaway.vocabulary import LAYERS, RESOURCES, THREAD_LAYERS

from .comparison import many, order
from .page import assemble
from .printer import colour
from .text import clip, duration, operation

HATCH = {"cpu+gpu": "both", "gpu": "device"}
BAR, GAP, LEFT, TALL, LOW = 26, 30, 64, 300, 110
"""Widths of a bar and of the gap between runs, the left margin, heights of the first panel and of the two below."""
SHARES, CROSSINGS = 24 + TALL + 46, 24 + TALL + 46 + LOW + 50
"""Where these two begin."""
SMALL = 0.005
"""An operation with less of its run's time gets no bar of its own."""
Part = tuple[float, str, str, str]
"""A part of a stack: height, operation, layer, what it is."""
PATTERNS = (
    '<defs><pattern id="both" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="2" height="6" fill="#10141a" fill-opacity=".45"/></pattern>'
    '<pattern id="device" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<circle cx="2" cy="2" r="1.3" fill="#10141a" fill-opacity=".6"/></pattern></defs>'
)


class _Canvas:
    """Shapes of one figure."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def text(self, x: float, y: float, text: str, anchor: str = "start", soft: bool = False) -> None:
        mark = ' class="soft"' if soft else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{mark}>{escape(text)}</text>')

    def box(self, x: float, y: float, w: float, h: float, fill: str, strength: float, title: str) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.2f}" width="{w:.1f}" height="{h:.2f}" fill="{fill}" fill-opacity="{strength}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = "#8a8a8a") -> None:
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'
        )


def svg(groups: Sequence[Group], alone: bool = True) -> str:
    """The figure; `alone` gives it a white ground and a font of its own."""
    names = order(groups)
    canvas = _Canvas()
    places: list[float] = []
    x = float(LEFT)
    for group in groups:
        places.append(x)
        x += max(len(_shown(group, names)), 3) * BAR + GAP
    legend = x + 10
    width, height = legend + 190, CROSSINGS + LOW + 50
    _bars(canvas, groups, names, places, legend)
    for top, title, parts in (
        (SHARES, "share of the time, by operation and layer", [_share(g, names) for g in groups]),
        (
            CROSSINGS,
            f"transitions between layers per {groups[0].unit}, by operation",
            [_crossed(g) for g in groups],
        ),
    ):
        _stacks(canvas, names, places, legend, top, title, parts)
    _legend(canvas, groups, names, legend)
    ground = f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>' if alone else ""
    font = (
        ' font-family="system-ui, DejaVu Sans, sans-serif" font-size="11.5" fill="#1a1d21"' if alone else ""
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img"'
        f' aria-label="Time and transitions per {groups[0].unit}"{font}>{PATTERNS}{ground}{"".join(canvas.parts)}</svg>'
    )  # fmt: skip


def _shown(group: Group, names: Sequence[str]) -> list[str]:
    return [
        n for n in names if n in group.operations and group.operations[n].value >= SMALL * group.total.value
    ]


def _bars(
    canvas: _Canvas, groups: Sequence[Group], names: list[str], places: list[float], right: float
) -> None:
    highest = max(
        max(e.value, e.high if e.high == e.high else 0) for g in groups for e in g.operations.values()
    )
    tick = _tick(highest / 4)
    most = tick * math.ceil(highest / tick)
    foot = 24 + TALL
    canvas.text(0, 12, f"time per {groups[0].unit}, by operation", soft=True)
    for i in range(round(most / tick) + 1):
        y = foot - TALL * tick * i / most
        canvas.line(LEFT - 4, y, right - 20, y, "#d3d7dd")
        canvas.text(LEFT - 8, y + 4, duration(tick * i) if i else "0", "end", soft=True)
    for group, left in zip(groups, places, strict=True):
        x = left
        for name in _shown(group, names):
            y = float(foot)
            for cell in (Cell(name, layer, resource) for layer in THREAD_LAYERS for resource in RESOURCES):
                spent = group.cells.get(cell)
                if spent is None or spent.value <= 0:
                    continue
                tall = TALL * spent.value / most
                y -= tall
                told = (
                    f"{group.name}: {operation(name)}, {cell.layer}, {cell.resource}: {duration(spent.value)}"
                )
                canvas.box(x, y, BAR - 4, tall, colour(name, names), LAYERS[cell.layer].strength, told)
                if cell.resource in HATCH:
                    canvas.box(x, y, BAR - 4, tall, f"url(#{HATCH[cell.resource]})", 1.0, told)
            whole = group.operations[name]
            if whole.high == whole.high:
                top, bottom = (foot - TALL * v / most for v in (whole.high, whole.low))
                canvas.line(x + BAR / 2 - 2, top, x + BAR / 2 - 2, bottom, "#8a1c1c")
            x += BAR
        canvas.text(left, foot + 16, clip(group.name, (max(len(_shown(group, names)), 3) * BAR + GAP) // 7))
        canvas.text(left, foot + 31, duration(group.total.value), soft=True)


def _tick(least: float) -> float:
    """The next round number: 1, 2 or 5 and zeros.

    >>> _tick(62.7), _tick(0.11)
    (100.0, 0.2)
    """
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return float(next(n * power for n in (1, 2, 5, 10) if n * power >= least))


def _share(group: Group, names: Sequence[str]) -> tuple[str, list[Part]]:
    cells = (
        Cell(n, layer, resource) for n in reversed(names) for layer in THREAD_LAYERS for resource in RESOURCES
    )
    spent = (
        (cell, group.cells[cell].value / max(group.total.value, 1e-9))
        for cell in cells
        if cell in group.cells
    )
    return "", [(part, c.operation, c.layer, f"{operation(c.operation)}, {c.layer}: {part:.1%}") for c, part in spent]  # fmt: skip


def _crossed(group: Group) -> tuple[str, list[Part]]:
    parts = [
        (n, c.operation, c.target, f"{operation(c.operation)}, {c.origin} → {c.target}: {n:,.1f}")
        for c, n in sorted(group.transitions.items())
    ]
    return many(sum(group.transitions.values())), parts


def _stacks(
    canvas: _Canvas, names: list[str], places: list[float], right: float, top: float, title: str,
    stacks: Sequence[tuple[str, list[Part]]],
) -> None:  # fmt: skip
    """One column a run, made of parts; below it its label."""
    most = max(sum(part[0] for part in parts) for _, parts in stacks) or 1.0
    foot = top + 20 + LOW
    canvas.text(0, top + 12, title, soft=True)
    canvas.line(LEFT - 4, foot, right - 20, foot, "#d3d7dd")
    for (label, parts), left in zip(stacks, places, strict=True):
        y = foot
        for value, name, layer, text in parts:
            tall = LOW * value / most
            y -= tall
            canvas.box(left, y, 2 * BAR - 4, tall, colour(name, names), LAYERS[layer].strength, text)
        canvas.text(left, foot + 15, label, soft=True)


def _legend(canvas: _Canvas, groups: Sequence[Group], names: list[str], x: float) -> None:
    y = 24.0
    for name in names:
        canvas.box(x, y, 11, 11, colour(name, names), 1.0, name)
        canvas.text(x + 17, y + 10, operation(name))
        y += 17
    y += 8
    for layer in THREAD_LAYERS:
        if any(group.layers().get(layer) for group in groups):
            canvas.box(x, y, 11, 11, "#59616e", LAYERS[layer].strength, layer)
            canvas.text(x + 17, y + 10, LAYERS[layer].title)
            y += 17
    for resource, words in (("cpu+gpu", "CPU and device work"), ("gpu", "device works, CPU waits")):
        if any(cell.resource == resource for group in groups for cell in group.cells):
            canvas.box(x, y, 11, 11, f"url(#{HATCH[resource]})", 1.0, resource)
            canvas.text(x + 17, y + 10, words)
            y += 17
    canvas.text(x, y + 16, "lines: 95 % intervals", soft=True)


def page(title: str, parts: Sequence[tuple[str, str]], unit: str, flame: dict[str, Any] | None) -> str:
    """One offline HTML file: sections of markup below their titles, and the change as a flame graph where there is one."""
    sections = "".join(
        f"<section>{f'<h2>{escape(name)}</h2>' if name else ''}{markup}</section>" for name, markup in parts
    )
    header = f"<header><h1>{escape(title)}</h1></header>"
    return assemble(title, {"unit": unit, "flame": flame, "colours": {}}, header + sections)


def preformatted(lines: Sequence[str]) -> str:
    """Lines of a terminal as markup."""
    return f'<pre class="code">{escape(chr(10).join(lines))}</pre>'


def paragraphs(lines: Sequence[str]) -> str:
    """Sentences as markup."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def write(path: Path, groups: Sequence[Group]) -> None:
    """Writes the figure as SVG, PNG or PDF, by the ending of its name."""
    kind = path.suffix.lower()
    if kind not in (".svg", ".png", ".pdf"):
        raise CutawayError(
            f"{path} is no figure Cutaway can write; use a name that ends in .svg, .png or .pdf."
        )
    drawn = svg(groups)
    try:
        if kind == ".svg":
            path.write_text(drawn, encoding="utf-8")
            return
        cairosvg = importlib.import_module("cairosvg")
    except ImportError:
        raise CutawayError(
            f"{kind[1:].upper()} needs CairoSVG: pip install cairosvg, or write an .svg."
        ) from None
    except OSError as error:
        raise CutawayError(
            f"{path} cannot be written: {error}; write an .svg, or choose another place."
        ) from None
    convert = cairosvg.svg2png if kind == ".png" else cairosvg.svg2pdf
    convert(bytestring=drawn.encode(), write_to=str(path))
