"""The kinds of columns that the tables have, and how rows become a grid that fits a terminal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from rich.table import Table as Grid
from rich.text import Text

from . import text
from .printer import Printer, grid
from .text import clip

LEAST_NAME = 6  # characters of a name in a narrow terminal
Rows = list[dict[str, Any]]


class Column(NamedTuple):
    """A column: its title, and what stands in a row."""

    title: str
    text: Callable[[dict[str, Any]], str]
    right: bool = False
    cut: Callable[[str, int], str] = (
        clip  # how a name gets shorter in a narrow terminal
    )
    place: tuple[str, str] = ("", "")  # the keys of the file and line it leads to


def figure(key: str, title: str, show: Callable[[Any], str] = str) -> Column:
    """A column of numbers; one that is not known is a dash."""

    def value(row: dict[str, Any]) -> str:
        if row[key] is None:
            return "–"
        return show(row[key])

    return Column(title, value, right=True)


def words(
    key: str,
    title: str,
    most: int,
    otherwise: str = "–",
    cut: Callable[[str, int], str] = text.clip,
) -> Column:
    """A column of names; `cut` keeps the part of a long one that says most."""

    def value(row: dict[str, Any]) -> str:
        return cut(text.clean(str(row[key])) or otherwise, most)

    return Column(title, value, cut=cut)


time = partial(figure, show=text.duration)
share = partial(figure, show=text.percent)
name = partial(words, otherwise=text.NONE)
function = partial(words, cut=text.shorten)
process = partial(words, otherwise=text.NONE, cut=text.middle)


size = partial(figure, show=text.size)


def signed(nbytes: float) -> str:
    """Bytes that came or went.

    >>> signed(8e6), signed(-4e6), signed(0)
    ('+8.0 MB', '-4.0 MB', '0 B')
    """
    if nbytes > 0:
        sign = "+"
    elif nbytes < 0:
        sign = "-"
    else:
        sign = ""
    return sign + text.size(abs(nbytes))


def per_hour(title: str) -> Column:
    """A column of growth."""
    return Column(title, growth_per_hour, right=True)


def growth_per_hour(row: dict[str, Any]) -> str:
    """How fast the memory of a line grows; a dash where that may be chance."""
    if row["low_per_s"] > 0:
        return f"+{text.size(row['per_hour'])}"
    return "–"


def place(file: str, title: str, most: int = 24, line: str = "line") -> Column:
    """A column of lines of code: the end of the path, which says most."""

    def show(row: dict[str, Any]) -> str:
        at = text.place(row[file], row[line]) or row.get("where", "–")
        if row.get("library"):
            return f"({text.shorten(at, most - 2)})"
        return text.shorten(at, most)

    return Column(title, show, cut=text.shorten, place=(file, line))


def function_and_file(title: str, most: int) -> Column:
    """A column of functions, a library's in brackets: two of one name differ in their file."""

    def show(row: dict[str, Any]) -> str:
        name = text.shorten(text.clean(row["function"]) or row["where"], most - 2)
        file = text.clean(row["file"].rpartition("/")[2])
        if len(name) + len(file) < most - 2:
            name = f"{name} {file}"
        if row["library"]:
            return f"({name})"
        return name

    return Column(title, show, cut=text.shorten)


def layer(key: str) -> Column:
    return Column(key, lambda row: text.layer(text.clean(str(row[key]))))


def rate(value: float) -> str:
    """Three digits are enough, from 0.019 to 715."""
    return f"{value:.3g}"


def as_grid(p: Printer, columns: tuple[Column, ...], rows: Rows) -> Grid:
    """Rows for the terminal. Where it is narrow, names become shorter; numbers stay whole."""
    cells = [_texts(row, columns) for row in rows]
    widths = _widths(p, columns, cells)
    _narrow(widths, columns, p.console.width)
    titles = [column.title for column in columns]
    names = [column.title for column in columns if not column.right]
    table = grid(p, titles, left=names, widths=widths)
    for texts, row in zip(cells, rows, strict=True):
        table.add_row(*_fitting_row(p, columns, texts, widths, row))
    return table


def _texts(row: dict[str, Any], columns: tuple[Column, ...]) -> list[str]:
    return [column.text(row) for column in columns]


def _widths(
    p: Printer, columns: tuple[Column, ...], cells: list[list[str]]
) -> list[int]:
    """What each column needs."""
    widths = []
    for at, column in enumerate(columns):
        texts = [column.title, *(row[at] for row in cells)]
        widths.append(max(len(p.text(shown)) for shown in texts))
    return widths


def _fitting_row(
    p: Printer,
    columns: tuple[Column, ...],
    texts: list[str],
    widths: list[int],
    row: dict[str, Any],
) -> list[Text]:
    """The cells of a row; lines of code are links."""
    out = []
    for column, shown, width in zip(columns, texts, widths, strict=True):
        cell = _fitting(p, shown, column, width)
        file, line = column.place
        if file and row[file]:
            p.link(cell, row[file], row[line])
        out.append(cell)
    return out


def _narrow(widths: list[int], columns: tuple[Column, ...], room: int) -> None:
    """Take from the widest column of names until the table fits."""
    while sum(widths) + len(widths) - 1 > room:
        names = [
            i
            for i, c in enumerate(columns)
            if not c.right and widths[i] > max(LEAST_NAME, len(c.title))
        ]
        if not names:
            return
        widths[max(names, key=lambda i: widths[i])] -= 1


def _fitting(p: Printer, cell: str, column: Column, width: int) -> Text:
    """A cell; one that is too long loses what says least. An ellipsis takes three characters in ASCII."""
    shown = p.text(cell)
    most = width
    while len(shown) > width and most > 1:
        shown = p.text(column.cut(cell, most))
        most -= 1
    return shown
