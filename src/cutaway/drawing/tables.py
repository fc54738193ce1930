"""Tables of a page: a head with scopes, numbers to the right, bars that show a share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .markup import Child, Markup, tag
from .svg import share

MANY = 12
"""More rows scroll, and can then be reached with the keyboard."""


class Column(NamedTuple):
    """A title, and what stands below it: text, n (a number), op (a name that may be cut off), bar (no title)."""

    title: str
    kind: str | None = None


def cell(
    content: Child,
    kind: str | None = None,
    title: str | None = None,
    value: float | None = None,
) -> Markup:
    """A cell of a table; `value` is what a page with a script sorts by."""
    exact = None if value is None else f"{value:.6g}"
    return tag("td", content, class_=kind, title=title, data_value=exact)


def meter(of_largest: float, fill: str) -> Markup:
    """A cell with a bar."""
    width = share(max(0.005, of_largest))
    own = {"fill": fill} if fill.startswith("#") else {"class_": fill}
    bar = tag("rect", width=width, height="100%", rx=2, **own)
    drawn = tag("svg", bar, class_="meter", width="100%", height=12, aria_hidden="true")
    return cell(drawn, "bar")


def table(columns: Sequence[Column], rows: Sequence[Sequence[Markup]]) -> Markup:
    """A table; long ones scroll."""
    heads = [_head(column) for column in columns]
    body = [tag("tr", *cells) for cells in rows]
    whole = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body))
    long = len(rows) > MANY
    return tag("div", whole, class_="scroll", tabindex="0" if long else None)


def _head(column: Column) -> Markup:
    if column.title:
        return tag("th", column.title, class_=column.kind, scope="col")
    unseen = tag("span", "bar", class_="unseen")
    return tag("th", unseen, class_="bar", scope="col")
