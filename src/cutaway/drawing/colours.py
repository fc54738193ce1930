"""Every colour of ours: operations have the same one in every report, in the terminal too."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.vocabulary import OPERATIONS

COLOURS = {name: colour for name, (colour, *_) in OPERATIONS.items()} | {"": "#8a8a8a"}
MORE_COLOURS = (
    "#e15759", "#ff9da7", "#86bcb6", "#d4a6c8", "#a0cbe8", "#bab0ac", "#8cd17d", "#d37295", "#499894", "#b6992d", "#fabfd2",
    "#79706e", "#d7b5a6", "#2f6690",
)  # fmt: skip
SERIES = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#e15759")
"""Lines of one chart, in this order."""
USED, UNSEEN = "#9aa5b1", "#59616e"
"""Time well spent, beside coloured losses; a layer without an operation, in a legend."""


def colour(name: str, names: Sequence[str]) -> str:
    """The colour of an operation, which may be one of `names` that we do not know."""
    if name in COLOURS:
        return COLOURS[name]
    others = [n for n in names if n not in COLOURS]
    return MORE_COLOURS[others.index(name) % len(MORE_COLOURS)]
