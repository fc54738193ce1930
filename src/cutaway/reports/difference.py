"""The page of `cutaway diff`: how much B differs, and the cells that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutaway.analysis.diff import Diff
from cutaway.drawing.markup import Markup, joined, tag
from cutaway.drawing.tables import Column, cell, table
from cutaway.vocabulary import LAYERS

from . import text
from .page.cells import number, operation


def drawn(diff: Diff, said: Sequence[str], rows: int) -> Markup:
    """What is said of the whole, the first sentence largest; below it a row for each cell that changed beyond chance."""
    first, *more = said
    paragraphs = [tag("p", line) for line in more]
    if diff.judged.certain:
        sure = "verdict"
    else:
        sure = "verdict uncertain"
    head = tag("section", tag("p", first, class_="said"), *paragraphs, class_=sure)
    in_noise = (diff.cells["low_ns"] <= 0) & (diff.cells["high_ns"] >= 0)
    beyond = diff.cells.where(~in_noise)
    if not len(beyond):
        return joined(head, tag("p", "No single cell stands out.", class_="soft"))
    several = len(set(diff.cells["process"].tolist())) > 1
    return joined(head, _table(list(beyond.head(rows)), several))


def _table(rows: Sequence[dict[str, Any]], several: bool) -> Markup:
    heads = [Column("process")] if several else []
    heads += [Column(title) for title in ("operation", "layer", "on")]
    heads += [Column(title, "n") for title in ("A", "B", "change", "95 % interval")]
    return table(heads, [_row(row, several) for row in rows])


def _row(row: dict[str, Any], several: bool) -> list[Markup]:
    known = row["low_ns"] == row["low_ns"]
    if known:
        bounds = f"{_signed(row['low_ns'])} to {_signed(row['high_ns'])}"
    else:
        bounds = "–"
    if several:
        named = [cell(text.clean(str(row["process"])), "op")]
    else:
        named = []
    named += [operation(row["operation"]), cell(LAYERS[row["layer"]].title)]
    return [
        *named,
        cell(str(row["resource"])),
        number(_length(row["a_ns"]), row["a_ns"]),
        number(_length(row["b_ns"]), row["b_ns"]),
        number(_signed(row["change_ns"]), row["change_ns"]),
        number(bounds),
    ]


def _length(ns: float) -> str:
    if ns:
        return text.duration(ns)
    return "0 s"


def _signed(ns: float) -> str:
    """With its sign: a minus is a gain."""
    return f"{'−' if ns < 0 else '+'}{_length(abs(ns))}"
