"""Who has the memory of devices, as a framework's allocator counted it."""

from __future__ import annotations

from typing import Any

from cutaway.drawing.markup import Markup, joined, paragraphs, tag
from cutaway.drawing.tables import Column, cell, meter, table
from cutaway.reports import text
from cutaway.reports.device_memory import sentences
from cutaway.reports.rows import device_memory_rows

from .cells import BAR, number, operation, who
from .section import Palette, Section, Source, short

MOST_LINES = 20
HEADS = (
    Column("allocated at"),
    Column("during"),
    Column("on"),
    BAR,
    Column("at peak", "n"),
    Column("peak", "n"),
    Column("reserved", "n"),
    Column("kept", "n"),
)


def device_memory(of: Source) -> dict[str, Any] | None:
    """Who has the memory of devices; nothing if no framework told."""
    rows = []
    for row in device_memory_rows(of.run, of.found)[:MOST_LINES]:
        place = text.place(row["file"], row["line"]) or row["function"] or "–"
        figures = {
            "place": short(f"({place})" if row["library"] else place),
            "on": row["on"],
            "operation": short(row["operation"]),
            "bytes": row["held"],
            "held": text.size(row["held"]),
            "peak": text.size(row["peak"]),
            "reserved": text.size(row["reserved"]),
            "kept": text.size(row["kept"]),
        }
        rows.append(figures)
    title = "Who has the memory of devices"
    notes = sentences(of.run)
    return {"title": title, "rows": rows, "notes": notes} if rows or notes else None


def draw_device_memory(data: dict[str, Any], colours: Palette) -> Markup:
    """A row for each line of code, then what else is known."""
    most = max([row["bytes"] for row in data["rows"]], default=0) or 1
    rows = []
    for row in data["rows"]:
        cells = [
            cell(tag("code", row["place"])),
            operation(row["operation"]),
            who(row["on"]),
            meter(row["bytes"] / most, colours.fill(row["operation"])),
        ]
        figures = (row[name] for name in ("held", "peak", "reserved", "kept"))
        rows.append([*cells, *map(number, figures)])
    notes = paragraphs(*data["notes"])
    return joined(table(HEADS, rows) if rows else None, notes)


SECTION = Section("device_memory", device_memory, draw_device_memory)
