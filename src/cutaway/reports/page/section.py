"""What a section of the page is made from, and how text gets there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutaway.analysis import Run
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
class Section:
    """One section of the page.

    `data` returns what the section shows, as plain JSON with a `title`, or None if there is nothing to show. Every number
    is final in it. The file `NAME.js` beside this one draws it: `SECTIONS.NAME = (data) => node`.
    """

    name: str
    data: Callable[[Source], dict[str, Any] | None]


def short(name: str, most: int = MOST_NAME) -> str:
    """Bounded text without control characters; markup stays text on the page and needs no care here."""
    return text.clip(_CONTROL.sub("?", name), most)
