"""The page of `cutaway diff`: how much B differs, and the cells that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutaway.analysis.diff import Diff
from cutaway.drawing.markup import Markup, joined, paragraphs, tag
from cutaway.drawing.tables import Column, cell, table
from cutaway.vocabulary import LAYERS

from . import text
from .page.cells import number, operation


def drawn(diff: Diff, said: Sequence[str], rows: int) -> Markup:
    """What is said of the whole, the first sentence largest; below it a row for each cell that changed beyond chance."""
    first, *more = said
    kind = "verdict uncertain"
    if diff.judged.certain:
        kind = "verdict"
    largest = tag("p", first, class_="said")
    head = tag("section", largest, paragraphs(*more), class_=kind)
    in_noise = (diff.cells["low_ns"] <= 0) & (diff.cells["high_ns"] >= 0)
    beyond = diff.cells.where(~in_noise)
    if not len(beyond):
        return joined(head, tag("p", "No single cell stands out.", class_="soft"))
    processes = set(diff.cells["process"].tolist())
    shown = list(beyond.head(rows))
    return joined(head, _table(shown, len(processes) > 1))


def _table(rows: Sequence[dict[str, Any]], several: bool) -> Markup:
    heads = [
        Column("operation"),
        Column("layer"),
        Column("on"),
        Column("A", "n"),
        Column("B", "n"),
        Column("change", "n"),
        Column("95 % interval", "n"),
    ]
    if several:
        heads.insert(0, Column("process"))
    return table(heads, [_row(row, several) for row in rows])


def _row(row: dict[str, Any], several: bool) -> list[Markup]:
    bounds = "–"
    if row["low_ns"] == row["low_ns"]:
        low = _signed(row["low_ns"])
        high = _signed(row["high_ns"])
        bounds = f"{low} to {high}"
    named = []
    if several:
        process = text.clean(str(row["process"]))
        named = [cell(process, "op")]
    return [
        *named,
        operation(row["operation"]),
        cell(LAYERS[row["layer"]].title),
        cell(str(row["resource"])),
        number(_length(row["a_ns"]), row["a_ns"]),
        number(_length(row["b_ns"]), row["b_ns"]),
        number(_signed(row["change_ns"]), row["change_ns"]),
        number(bounds),
    ]


def _length(ns: float) -> str:
    return text.duration(ns) if ns else "0 s"


def _signed(ns: float) -> str:
    """With its sign: a minus is a gain."""
    length = _length(abs(ns))
    if ns < 0:
        return f"−{length}"
    return f"+{length}"
