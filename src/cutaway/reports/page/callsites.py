"""Call sites by time."""

from __future__ import annotations

import linecache
from typing import Any

from cutaway.drawing.markup import Markup, joined, tag
from cutaway.drawing.tables import Column, cell, meter, table
from cutaway.reports import text
from cutaway.reports.digest import Digest
from cutaway.reports.rows import callsite_rows

from .cells import BAR, number, operation
from .section import Palette, Section, Source, milliseconds, short

MOST_CALLSITES = 25


def callsites(of: Source) -> dict[str, Any] | None:
    """Call sites by time; nothing if none were recorded."""
    if not of.found.code.callsites:
        return None
    rows = _callsites(of.found, of.quote)
    sites = text.plural(len(of.found.code.callsites), "call site")
    empty = f"All {sites} recorded are waits: see who waits for whom."
    return {"title": "Call sites by time", "rows": rows, "empty": empty}


def draw_callsites(data: dict[str, Any], colours: Palette) -> Markup:
    """A row for each call site, with its source line if that was asked for."""
    if not data["rows"]:
        return tag("p", data["empty"], class_="soft")
    most = max(row["ms"] for row in data["rows"]) or 1
    rows = []
    for row in data["rows"]:
        source = row.get("source")
        spot = joined(
            tag("code", row["function"]),
            tag("br"),
            tag("span", row["place"], class_="soft code"),
            tag("code", source, class_="source") if source else None,
        )
        bar = meter(row["ms"] / most, colours.fill(row["operation"]))
        figures = [
            number(milliseconds(row["ms"]), row["ms"]),
            number(f"{row['count']:,}", row["count"]),
        ]
        rows.append([cell(spot), operation(row["operation"]), bar, *figures])
    named = Column("function, called from"), Column("in"), BAR
    return table([*named, Column("time", "n"), Column("calls", "n")], rows)


def _callsites(found: Digest, source: bool) -> list[dict[str, Any]]:
    rows = []
    for spot in [row for row in callsite_rows(found) if row["layer"] != "wait"][
        :MOST_CALLSITES
    ]:
        place = text.shorten(
            text.place(spot["file"], spot["line"]) or "unknown place", 70
        )
        place = f"{place} in {spot['caller']}" if spot["caller"] else place
        near = spot["near_file"], spot["near_line"]
        if near != (spot["file"], spot["line"]):
            place = f"your {text.shorten(text.place(*near), 50)}, through {place}"
        row = {"function": short(spot["function"]), "place": short(place, 200)}
        row |= {
            "operation": short(spot["operation"]),
            "ms": spot["ns"] / 1e6,
            "count": spot["count"],
        }
        if source:
            row["source"] = short(
                linecache.getline(spot["file"], spot["line"]).strip(), 160
            )
        rows.append(row)
    return rows


SECTION = Section("callsites", callsites, draw_callsites)
