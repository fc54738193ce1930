"""Native functions by time, wherever they are called from."""

from __future__ import annotations

from typing import Any

from cutaway.analysis.table import totals
from cutaway.drawing.markup import Markup, tag
from cutaway.drawing.tables import Column, cell, meter, table
from cutaway.reports.digest import largest
from cutaway.vocabulary import LAYERS

from .cells import BAR, number, operation
from .section import Palette, Section, Source, milliseconds, short

MOST_FUNCTIONS = 25
FEW = 2
"""Fewer functions are not worth a table beside that of the call sites."""


def operators(of: Source) -> dict[str, Any] | None:
    """Native functions by time; nothing if hardly any was recorded."""
    sites = of.run.steady().callsites()
    sites = sites.where(sites["layer"] != "wait")
    by = ("function", "layer")
    sums = sites.group(by, ["ns", "count"]).sort("ns", descending=True)
    if len(sums) < FEW:
        return None
    rows = []
    for row in sums.head(MOST_FUNCTIONS):
        own = sites.where(function=row["function"], layer=row["layer"])
        spent = totals((one["operation"], one["ns"]) for one in own)
        places = own.group(("file", "line"), ["ns"])
        shown = {
            "function": short(row["function"]),
            "layer": LAYERS[row["layer"]].title,
            "operation": short(largest(spent)),
            "ms": row["ns"] / 1e6,
            "count": row["count"],
            "places": len(places),
        }
        rows.append(shown)
    return {"title": "Native functions by time", "rows": rows}


def draw_operators(data: dict[str, Any], colours: Palette) -> Markup:
    """A row for each function."""
    most = max(row["ms"] for row in data["rows"]) or 1
    rows = []
    for row in data["rows"]:
        each = row["ms"] / max(1, row["count"])
        figures = [
            number(milliseconds(row["ms"]), row["ms"]),
            number(f"{row['count']:,}", row["count"]),
            number(milliseconds(each), each),
            number(f"{row['places']:,}", row["places"]),
        ]
        cells = [
            cell(tag("code", row["function"])),
            cell(row["layer"]),
            operation(row["operation"]),
            meter(row["ms"] / most, colours.fill(row["operation"])),
        ]
        rows.append([*cells, *figures])
    heads = [
        Column("function"),
        Column("layer"),
        Column("mostly in"),
        BAR,
        Column("time", "n"),
        Column("calls", "n"),
        Column("each", "n"),
        Column("places", "n"),
    ]
    return table(heads, rows)


SECTION = Section("operators", operators, draw_operators)
