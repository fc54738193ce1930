"""How often the main process crosses from one layer into another."""

from __future__ import annotations

from typing import Any

from cutaway.drawing.markup import Markup
from cutaway.drawing.tables import Column, cell, meter, table
from cutaway.reports import text
from cutaway.vocabulary import LAYERS

from .cells import BAR, number, operation
from .section import Palette, Section, Source, short

MOST_TRANSITIONS = 30


def transitions(of: Source) -> dict[str, Any] | None:
    """How often the main process crosses from one layer into another; nothing if it never does."""
    rows = [
        {
            "operation": short(t["operation"]),
            "from": t["from"],
            "to": t["to"],
            "per": t["per_unit"],
        }
        for t in of.found.code.transitions[:MOST_TRANSITIONS]
    ]
    if not rows:
        return None
    return {
        "title": f"Transitions between layers for each {of.found.pace.unit}",
        "rows": rows,
    }


def draw_transitions(data: dict[str, Any], colours: Palette) -> Markup:
    """A row for each crossing."""
    most = max(row["per"] for row in data["rows"]) or 1
    rows = []
    for row in data["rows"]:
        ends = [LAYERS[row[end]].title for end in ("from", "to")]
        bar = meter(row["per"] / most, colours.fill(row["operation"]))
        count = number(text.number(row["per"]), row["per"])
        rows.append([operation(row["operation"]), cell(" → ".join(ends)), bar, count])
    heads = Column("operation"), Column("from → to"), BAR, Column("count", "n")
    return table(heads, rows)


SECTION = Section("transitions", transitions, draw_transitions)
