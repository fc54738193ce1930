"""The pages of `report`, `diff` and `compare`: the frame of all our pages, and the scripts for what people zoom or search."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from cutaway.drawing import shell
from cutaway.drawing.markup import Markup, joined, tag
from cutaway.vocabulary import drawn

FIRST, LAST = "base.js", "main.js"  # every other script draws a section


def assemble(title: str, body: Markup, data: dict[str, Any]) -> str:
    """The whole file. Scripts draw `data["sections"]` where the body has a place for them."""
    return shell.document(title, body, scripts(), data)


def scripts() -> str:
    """All scripts as one, in a scope of their own."""
    files = resources.files(__package__)
    names = sorted(file.name for file in files.iterdir() if file.name.endswith(".js"))
    between = [name for name in names if name not in (FIRST, LAST)]
    texts = []
    for name in (FIRST, *between, LAST):
        texts.append(files.joinpath(name).read_text(encoding="utf-8"))
    shared = f"const VOCABULARY = {json.dumps(drawn())};\n"
    return '"use strict";\n(() => {\n' + shared + "\n".join(texts) + "})();\n"


def place(name: str, title: str) -> Markup:
    """Where a script draws a section."""
    hint = f"{title}: this picture needs JavaScript, which is switched off."
    return tag("div", tag("noscript", tag("p", hint)), data_draw=name)


def several(
    title: str, parts: list[tuple[str, Markup]], unit: str, flame: dict[str, Any] | None
) -> str:
    """A page about several runs: parts below their titles, and the change as a flame graph where there is one."""
    body = [tag("header", tag("h1", title))]
    for name, markup in parts:
        head = tag("h2", name) if name else None
        body.append(tag("section", head, markup))
    sections = {}
    if flame:
        change = f"Which code takes longer or less, per {unit}"
        how = "wide: takes long; strong colour: changed much; click to zoom"
        sections["flame"] = {"title": f"{change} ({how})", **flame}
        picture = place("flame", change)
        heading = tag("h2", sections["flame"]["title"])
        body.append(tag("section", heading, picture, id="flame"))
    data = {"unit": unit, "colours": {}, "sections": sections}
    return assemble(title, joined(*body), data)
