"""Where a unit goes: operation by layer of the main process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cutaway.analysis.table import totals
from cutaway.drawing.markup import Markup, joined, tag
from cutaway.drawing.svg import Fluid, legend, swatch
from cutaway.reports import text
from cutaway.reports.digest import Digest
from cutaway.reports.text import percent
from cutaway.vocabulary import DEVICE_LAYERS, LAYERS, RESOURCES, THREAD_LAYERS

from .section import Palette, Section, Source, milliseconds, short

TALL, THIN = 24, 4
ROOM_FOR_A_LETTER = 0.009
"""Of the width of the bars on a screen; a name that does not fit its part is not written."""
VIEWS = {"layers": "by layer", "resources": "CPU / GPU / both"}


def bars(of: Source) -> dict[str, Any]:
    """Operation × layer of the main process."""
    found = of.found
    unit = of.found.pace.unit
    what = {"run": "the whole run", "iteration": "an iteration"}.get(unit, f"a {unit}")
    whose = (
        f" of {found.main.name} (pid {found.main.pid})"
        if len(found.processes) > 1
        else ""
    )
    per = f"(per {unit}, {'corrected' if found.trust.correction else 'not corrected'})"
    title = short(
        f"Where {what}{whose} goes: operation × layer of the stack {per}", 200
    )
    total = found.total_ns / found.pace.units / 1e6
    return {"title": title, "rows": _rows(of.few), "total": total}


def draw_bars(data: dict[str, Any], colours: Palette) -> Markup:
    """Both views of the same bars; the page has a switch for them."""
    views = []
    for view, title in VIEWS.items():
        drawn = joined(_keys(data["rows"], view), _bars(data, view, colours))
        views.append(tag("div", drawn, data_view=view, data_title=title))
    return tag("div", *views, class_="views", data_label="bars")


def _keys(rows: list[dict[str, Any]], view: str) -> Markup:
    """What the shades and the thin lines stand for."""
    used: set[str] = set()
    on_device: set[str] = set()
    for row in rows:
        used.update(name for name, _ in row[view])
        on_device.update(name for name, ms in row["device"] if ms > 0)
    keys = []
    for name, (title, strength) in _shades(view).items():
        if name in used:
            keys.append(swatch("ink", title, strength))
    for name in DEVICE_LAYERS.values():
        if name in on_device:
            title = f"{LAYERS[name].title} (thin line)"
            keys.append(swatch(LAYERS[name].colour, title))
    return legend(keys)


def _shades(view: str) -> dict[str, tuple[str, float]]:
    """Title and strength of the parts of a bar."""
    if view == "resources":
        return dict(RESOURCES)
    return {name: (LAYERS[name].title, LAYERS[name].strength) for name in THREAD_LAYERS}


def _bars(data: dict[str, Any], view: str, colours: Palette) -> Markup:
    """A row for each operation: its name, its bar, its time."""
    most = 1e-9
    for row in data["rows"]:
        most = max(most, row["total"], sum(ms for _, ms in row["device"]))
    cells = []
    for row in data["rows"]:
        name = text.operation(row["operation"])
        error = f" ± {milliseconds(row['error'])}" if row["error"] else ""
        cells += [
            tag("span", name, class_="name", title=name),
            _bar(row, view, most, data["total"], colours),
            tag("span", milliseconds(row["total"]) + error, class_="n"),
        ]
    return tag("div", *cells, class_="bars")


def _bar(
    row: dict[str, Any], view: str, most: float, total: float, colours: Palette
) -> Markup:
    name = text.operation(row["operation"])
    bar = Fluid(TALL + THIN + 2, f"{name}: {milliseconds(row['total'])}")
    at = 0.0
    for part, ms in row[view]:
        title, strength = _shades(view)[part]
        wide = ms / most
        fits = wide > ROOM_FOR_A_LETTER * len(title)
        of_all = percent(ms / total) if total else ""
        said = (
            f"{name} · {title}\n{milliseconds(ms)} for each {colours.unit} ({of_all})"
        )
        fill = colours.fill(row["operation"])
        words = title if fits else ""
        bar.box(at, 0, max(0.0, wide - 0.001), TALL, fill, said, strength, words)
        at += wide
    at = 0.0
    for layer, ms in row["device"]:
        if ms > 0:
            about = f"{name} · {LAYERS[layer].title}, launched here\n{milliseconds(ms)} for each {colours.unit}"
            bar.box(at, TALL + 1, ms / most, THIN, LAYERS[layer].colour, about)
        at += ms / most
    return bar.markup()


def _rows(found: Digest) -> list[dict[str, Any]]:
    unit = found.pace.units * 1e6
    cells = [c for c in found.spent.cells if c.layer in THREAD_LAYERS]
    layers = totals(((c.operation, c.layer), c.ns) for c in cells)
    resources = totals(((c.operation, c.resource), c.ns) for c in cells)
    device = totals(
        ((d["operation"], d["layer"]), d["ns"]) for d in found.spent.device_time
    )
    error = totals((c.operation, c.high_ns - c.low_ns) for c in cells)

    def divided(
        times: dict[tuple[str, str], int], name: str, parts: Iterable[str]
    ) -> list[list[Any]]:
        spent = [(part, times.get((name, part), 0)) for part in parts]
        return [[part, ns / unit] for part, ns in spent if ns]

    def on_device(name: str) -> list[list[Any]]:
        layers = DEVICE_LAYERS.values()
        return [[layer, device.get((name, layer), 0) / unit] for layer in layers]

    return [
        {
            "operation": short(name),
            "total": total / unit,
            "error": error.get(name, 0) / 2 / unit if found.trust.correction else 0,
            "layers": divided(layers, name, THREAD_LAYERS),
            "device": on_device(name),
            "resources": divided(resources, name, RESOURCES),
        }
        for name, total in found.operations().items()
    ]


SECTION = Section("bars", bars, draw_bars)
