"""How far predictions were off when the change was really made, by kind of change: the error of the model itself.

The numbers come from the pairs in docs/what-if.md that were not held out. `python -m benchmarks.whatif.errors --write` fits them again;
a test fails if they no longer belong to that page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cutaway.analysis.whatif.changes import (
    Change,
    Cores,
    Elsewhere,
    Faster,
    Overlap,
)
from cutaway.analysis.whatif.items import GIVE, TAKE
from cutaway.analysis.whatif.sizes import Size

if TYPE_CHECKING:
    from cutaway.analysis.whatif.graph import Graph

# fitted
HALF_WIDTHS: dict[str, float] = {
    "alone": 0.058,
    "together": 0.077,
    "structure": 0.102,
    "cores": 0.115,
    "overlap": 0.077,
    "sizes": 0.061,
}
# end

TITLES = {
    "alone": "work of a program with one thread",
    "together": "work of threads that wait for each other",
    "structure": "other numbers of environments, workers or actors",
    "cores": "another number of cores",
    "overlap": "work that overlaps",
    "sizes": "another size",
    "machine": "another machine",
    "device": "the work of a device",
}
"""What each kind of change is about, as people are told."""


def kind_of(change: Change, graph: Graph) -> str:
    """The pairs with which a change is compared."""
    if isinstance(change, Elsewhere):
        return "machine"
    if graph.on_devices:
        return "device"
    match change:
        case Faster():
            return "together" if _waits(graph) else "alone"
        case Cores():
            return "cores"
        case Overlap():
            return "overlap"
        case Size():
            return "sizes"
        case _:
            return "structure"


def kinds_of(changes: Sequence[Change], graph: Graph) -> list[str]:
    """Cores of another machine belong to that machine."""
    kinds = [kind_of(change, graph) for change in changes]
    if "machine" in kinds:
        kinds = [kind for kind in kinds if kind != "cores"]
    return kinds


def half_width(kinds: Iterable[str]) -> float:
    """Nine of ten logarithms of measured ÷ predicted lie within this. A kind that was never measured gets the widest of all; kinds that are
    combined add up as independent errors do."""
    widest = max(HALF_WIDTHS.values())
    return math.hypot(*(HALF_WIDTHS.get(kind, widest) for kind in {*kinds}))


def unchecked(kinds: Sequence[str]) -> tuple[str, ...]:
    """What is said of kinds that were never measured."""
    return tuple(
        f"no prediction for {TITLES[kind]} was ever compared with a measurement"
        for kind in dict.fromkeys(kinds)
        if kind not in HALF_WIDTHS
    )


def _waits(graph: Graph) -> bool:
    """Whether the leading thread takes what another thread gives."""
    for segment in graph.segments:
        own = segment.items[graph.leader]
        taken = own.whats[own.kinds == TAKE]
        for number, items in enumerate(segment.items):
            given = items.whats[items.kinds == GIVE]
            if number != graph.leader and np.isin(taken, given).any():
                return True
    return False
