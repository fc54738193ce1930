"""The body of a run's page: the verdict, the picture that proves it, what to change; everything else folded below."""

from __future__ import annotations

import re
from typing import Any

from cutaway.drawing.markup import Markup, joined, tag

from . import place
from .section import Palette
from .sections import ALL

DRAWN = {section.name: section.draw for section in ALL}


def body(data: dict[str, Any], colours: Palette) -> Markup:
    """Everything in the order in which it is read."""
    proof = data["verdict"]["picture"]
    others = [name for name in data["sections"] if name != proof]
    return joined(
        _head(data),
        _verdict(data),
        _proof(data, proof, colours),
        _change(data["verdict"]),
        _tiles(data["tiles"]),
        _navigation(),
        *(_folded(name, data["sections"][name], colours) for name in others),
        _footer(data),
    )


def _head(data: dict[str, Any]) -> Markup:
    about = tag("span", data["meta"], class_="soft")
    return tag("header", tag("h1", data["title"]), about)


def _verdict(data: dict[str, Any]) -> Markup:
    verdict = data["verdict"]
    warnings = [tag("p", said, class_="warning") for said in verdict["warnings"]]
    label = tag("span", verdict["label"], class_="label")
    link = _link(verdict["look"], data)
    kind = "verdict" if verdict["certain"] else "verdict uncertain"
    return tag(
        "section",
        *warnings,
        tag("p", label, verdict["because"], class_="said"),
        tag("p", "Evidence: ", link, class_="links"),
        class_=kind,
        id="verdict",
        aria_label="verdict",
    )


def _link(name: str, data: dict[str, Any]) -> Markup:
    """To a section, by its title without what stands in brackets, which says how to use the picture."""
    title = re.sub(r" \([^)]*\)$", "", data["sections"][name]["title"])
    return tag("a", title, href=f"#{name}")


def _proof(data: dict[str, Any], name: str, colours: Palette) -> Markup:
    """The picture of the verdict stands open at the top."""
    section = data["sections"][name]
    caption = data["verdict"]["caption"]
    return tag(
        "section",
        tag("h2", section["title"]),
        tag("p", caption, class_="soft") if caption else None,
        _drawing(name, section, colours),
        class_="proof",
        id=name,
    )


def _change(verdict: dict[str, Any]) -> Markup:
    """What to change, with what it could gain: the largest words of the page after the verdict."""
    sure = (
        "What to change"
        if verdict["certain"]
        else "What to change, if the verdict is right"
    )
    advice = verdict["advice"]
    gain, then = verdict["expected"], verdict["then"]
    return tag(
        "section",
        tag("h2", sure),
        tag("p", f"{advice[:1].upper()}{advice[1:]}.", class_="said"),
        tag("p", gain, class_="gain") if gain else None,
        tag("p", "Then: ", then, class_="soft") if then else None,
        class_="change",
        id="change",
        aria_label="what to change",
    )


def _tiles(figures: list[list[str]]) -> Markup:
    tiles = []
    for value, label in figures:
        tiles.append(tag("div", tag("b", value), tag("span", label), class_="tile"))
    return tag("section", *tiles, class_="tiles", id="tiles", aria_label="key figures")


def _navigation() -> Markup:
    button = tag("button", "open all", type="button", id="open-all", hidden=True)
    heading = tag("h2", "Everything else")
    return tag("nav", heading, button, class_="tools", aria_label="sections")


def _folded(name: str, section: dict[str, Any], colours: Palette) -> Markup:
    summary = tag("summary", tag("h2", section["title"]))
    drawn = tag("div", _drawing(name, section, colours), class_="body")
    return tag("details", summary, drawn, class_="section", id=name)


def _drawing(name: str, section: dict[str, Any], colours: Palette) -> Markup:
    """A section's picture or table, or where its script draws."""
    draw = DRAWN[name]
    if draw is None:
        return place(name, section["title"])
    return draw(section, colours)


def _footer(data: dict[str, Any]) -> Markup:
    notes = [tag("p", line, class_="warn") for line in data["notes"]]
    return tag("footer", *notes, *(tag("p", line) for line in data["footer"]))
