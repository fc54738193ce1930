"""Markup from Python. Text is escaped where it enters, so a name in a trace can never become a tag."""

from __future__ import annotations

from html import escape

VOID = {"br", "input", "meta"}
CLOSED = {"circle", "line", "path", "polygon", "polyline", "rect"}
"""Elements of SVG; without children they close themselves."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Markup | None
Value = str | float | bool | None


def joined(*children: Child) -> Markup:
    """Children one after the other; text among them is escaped.

    >>> joined("a < b", Markup("<br>"), None)
    'a &lt; b<br>'
    """
    parts = []
    for child in children:
        if child is not None:
            parts.append(child if isinstance(child, Markup) else escape(child))
    return Markup("".join(parts))


def tag(name: str, *children: Child, **attributes: Value) -> Markup:
    """An element. `class_` is `class`, other underscores are hyphens; attributes that are None or False are left out.

    >>> tag("a", "R&D", href="#x", class_="soft", aria_label=None, hidden=True)
    '<a href="#x" class="soft" hidden>R&amp;D</a>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{_shown(value)}"')
    opened = " ".join(words)
    if name in VOID:
        return Markup(f"<{opened}>")
    if name in CLOSED and not children:
        return Markup(f"<{opened}/>")
    return Markup(f"<{opened}>{joined(*children)}</{name}>")


def _shown(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f}".rstrip("0").rstrip(".")


def paragraphs(*lines: str) -> Markup:
    """A paragraph for each sentence."""
    return joined(*(tag("p", line) for line in lines))


def preformatted(*lines: str) -> Markup:
    """Lines of a terminal."""
    return tag("pre", "\n".join(lines), class_="code", tabindex=0)
