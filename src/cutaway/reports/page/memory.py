"""Which lines keep memory."""

from __future__ import annotations

from typing import Any

from cutaway.drawing.markup import Markup, tag
from cutaway.drawing.tables import Column, cell, meter, table
from cutaway.reports import text
from cutaway.reports.columns import growth_per_hour
from cutaway.reports.rows import memory_rows

from .cells import BAR, number, operation, who
from .section import Palette, Section, Source, short

MOST_LINES = 20


def memory(of: Source) -> dict[str, Any] | None:
    """Which lines keep memory; nothing if allocations were not sampled."""
    rows = []
    for row in memory_rows(of.run, of.found)[:MOST_LINES]:
        place = text.place(row["file"], row["line"]) or row["function"]
        figures = {
            "place": short(f"({place})" if row["library"] else place),
            "process": text.middle(short(row["name"]), 40),
            "operation": short(row["operation"]),
            "bytes": row["bytes"],
            "keeps": text.size(row["bytes"]),
            "error": text.size(row["error_bytes"]),
            "grows": growth_per_hour(row),
        }
        rows.append(figures)
    return {"title": "Which lines keep memory", "rows": rows} if rows else None


def draw_memory(data: dict[str, Any], colours: Palette) -> Markup:
    """A row for each line of code."""
    most = max(1, *(row["bytes"] for row in data["rows"]))
    rows = []
    for row in data["rows"]:
        figures = f"± {row['error']}", row["grows"]
        cells = [
            cell(tag("code", row["place"])),
            operation(row["operation"]),
            who(row["process"]),
            meter(row["bytes"] / most, colours.fill(row["operation"])),
        ]
        keeps = number(row["keeps"], row["bytes"])
        rows.append([*cells, keeps, *map(number, figures)])
    named = Column("allocated at"), Column("in"), Column("process"), BAR
    sizes = Column("keeps", "n"), Column("error", "n"), Column("per hour", "n")
    return table([*named, *sizes], rows)


SECTION = Section("memory", memory, draw_memory)
