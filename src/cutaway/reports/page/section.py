"""What a section of the page is made from, and how text gets there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutaway.analysis import Run
from cutaway.drawing.colours import colour
from cutaway.drawing.markup import Markup
from cutaway.reports import text
from cutaway.reports.digest import Digest

MOST_NAME = 120
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Source:
    """What a section may look at."""

    run: Run  # the whole run; `run.steady()` is what the figures are about
    found: Digest
    few: Digest  # the same with the smallest operations made one
    quote: bool = False  # source lines may be shown


@dataclass(frozen=True)
class Palette:
    """The colours of one page, the same in all its sections."""

    colours: dict[str, str]
    unit: str

    def fill(self, operation: str) -> str:
        """The colour of an operation, or the class of one that differs in the dark."""
        if operation == "(waiting)":
            return "waits"
        return self.colours.get(operation) or "none"


def palette(of: Source, more: set[str]) -> Palette:
    """Colours for the operations of a run, and for `more` of them that only the lanes know."""
    names = list(of.few.operations())
    names += sorted(more - set(names))
    found = {short(name): colour(name, names) for name in names}
    return Palette(found, of.found.pace.unit)


@dataclass(frozen=True)
class Section:
    """One section of the page.

    `data` returns what the section shows, as plain values with a `title`, or None if there is nothing to show. `draw` makes
    markup of it, with `cutaway.drawing`. Without `draw` the file `NAME.js` beside this one draws it in the browser:
    `SECTIONS.NAME = (data) => node`. Only what people zoom or search needs that.
    """

    name: str
    data: Callable[[Source], dict[str, Any] | None]
    draw: Callable[[dict[str, Any], Palette], Markup] | None = None


def short(name: str, most: int = MOST_NAME) -> str:
    """Bounded text without control characters; it is escaped where it is drawn."""
    return text.clip(_CONTROL.sub("?", name), most)


def milliseconds(ms: float) -> str:
    """A time that sections hold in milliseconds."""
    return text.duration(ms * 1e6) if ms else "0 s"
