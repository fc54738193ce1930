"""Which lines of the main process take the time."""

from __future__ import annotations

from typing import Any

from cutaway.drawing.markup import Markup, joined, tag
from cutaway.drawing.tables import Column, cell, meter, table
from cutaway.reports import text
from cutaway.reports.rows import place_rows

from .cells import BAR, number, operation
from .section import Palette, Section, Source, milliseconds, short

MOST_LINES = 25
LEAST_SHARE = 0.005


def lines(of: Source) -> dict[str, Any] | None:
    """Lines by time, with what each mostly calls; nothing if no stack was sampled."""
    rows = []
    for row in place_rows("line", of.run.steady(), of.found):
        if not row["file"] or row["share"] < LEAST_SHARE:
            continue
        place = text.shorten(text.place(row["file"], row["line"]), 60)
        shown = {
            "place": short(f"({place})" if row["library"] else place),
            "function": short(row["function"]),
            "mostly": short(row["inside"]),
            "operation": short(row["operation"]),
            "ms": row["ns"] / of.found.pace.units / 1e6,
            "share": row["share"],
            "error": row["error"] if row["samples"] else None,
        }
        rows.append(shown)
    if not rows:
        return None
    whose = f" of {of.found.main.name}" if len(of.found.processes) > 1 else ""
    title = short(f"Which lines{whose} take the time (a library's in brackets)", 200)
    return {"title": title, "rows": rows[:MOST_LINES]}


def draw_lines(data: dict[str, Any], colours: Palette) -> Markup:
    """A row for each line."""
    most = data["rows"][0]["share"]
    rows = []
    for row in data["rows"]:
        mostly = f"in {row['function']}"
        mostly += f", mostly {row['mostly']}" if row["mostly"] else ""
        about = joined(
            tag("code", row["place"]),
            tag("br"),
            tag("span", mostly, class_="soft code"),
        )
        share = text.percent(row["share"])
        if row["error"] is not None:
            share += f" ± {100 * row['error']:.0f}"
        bar = meter(row["share"] / most, colours.fill(row["operation"]))
        figures = [
            number(share, row["share"]),
            number(milliseconds(row["ms"]), row["ms"]),
        ]
        rows.append([cell(about), operation(row["operation"]), bar, *figures])
    each = "time" if colours.unit == "run" else f"per {colours.unit}"
    named = Column("line"), Column("in"), BAR
    return table([*named, Column("share", "n"), Column(each, "n")], rows)


SECTION = Section("lines", lines, draw_lines)
