"""Which picture proves a verdict, and which section its sentence leads to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cutaway.reports.digest import Verdict
from cutaway.reports.rules import BY_NAME

CAPTIONS = {
    "bars": "The longest bar is what the verdict is about.",
    "lanes": "Colours are work, grey is waiting.",
    "waits": "The waits of the main process come first, the longest on top.",
    "flame": "Wide boxes take long. Follow the widest one down to a line.",
    "tree": "Dark is busy.",
    "tail": "Where sequences are decoded, the white above the area is room that nobody used.",
}
LOOKS = {
    "wait": "waits",
    "callsite": "callsites",
    "line": "lines",
    "function": "lines",
    "kernel": "flame",
    "transition": "transitions",
    "process": "tree",
    "operation": "bars",
    "rollout": "tail",
    "layer": "bars",
}
"""The section that says what a view of `cutaway show --by` says."""


def proof(verdict: Verdict, there: Collection[str]) -> dict[str, Any]:
    """The picture at the top with its caption, and where the sentence leads. If the run does not have the picture: the bars."""
    wanted = BY_NAME[verdict.rule].picture
    picture = wanted if wanted in there else "bars"
    look = LOOKS.get(verdict.look, "bars")
    return {
        "picture": picture,
        "caption": CAPTIONS.get(picture, ""),
        "look": look if look in there else picture,
    }
