"""Cells that several tables of the page have."""

from __future__ import annotations

from cutaway.drawing.markup import Markup
from cutaway.drawing.tables import Column, cell
from cutaway.reports import text

BAR = Column("")


def operation(name: str) -> Markup:
    """A cell with the name of an operation."""
    shown = text.operation(name)
    return cell(shown, "op", shown)


def who(name: str, before: str = "") -> Markup:
    """A cell with the name of a process: both its ends, since workers differ in their number."""
    return cell(before + text.middle(name, 24), "op", name)


def number(shown: str, value: float | None = None) -> Markup:
    """A cell with a figure, and the value by which its column is sorted."""
    return cell(shown, "n", value=value)
