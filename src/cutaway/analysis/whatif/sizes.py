"""Sizes: what a batch of another size costs, from two recordings with different ones.

A batch of n costs a + b·n. Two recordings give a and b for every operation and layer, by the time of an iteration in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.build import build
from cutaway.analysis.whatif.graph import Graph
from cutaway.analysis.whatif.items import DELAY
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_LEAST_SHARE = 0.01  # of an iteration; of less, two recordings do not tell how it grows


@dataclass(frozen=True)
class Size:
    """A setting has another value."""

    name: str
    value: int


@dataclass(frozen=True)
class Second:
    """Another recording of the program, and what the setting was in the first and in this one."""

    run: Run
    first: int
    other: int


@dataclass(frozen=True)
class Law:
    """In what the time of an iteration is a straight line, in words too."""

    grows: Callable[[float], float]
    assumes: str


def _itself(size: float) -> float:
    return size


def _inverse(size: float) -> float:
    return 1 / size


LAWS = {
    "batch": Law(_itself, "a batch of n costs a + b·n"),
    "minibatch": Law(
        _inverse, "a minibatch of n costs a + b·n, and an iteration has as many samples"
    ),
    "threads": Law(
        _inverse, "n threads share a part of the work, and leave the rest as it is"
    ),
}


def size_factors(
    run: Run, graph: Graph, change: Size, second: Second | None
) -> NDArray[np.float64]:
    """The factor of each key's time: that of its operation and layer, over all processes."""
    if second is None:
        raise CutawayError(
            f"One recording does not tell what {change.name} costs; record a short run with another {change.name}, and add "
            "--second RUN --sizes FIRST,SECOND."
        )
    if second.first == second.other:
        raise CutawayError(
            "The two sizes are the same; record the second run with another one."
        )
    grows = LAWS[change.name].grows
    here, there = (seconds_of(build(one, alone=True)) for one in (run, second.run))
    slope = (grows(change.value) - grows(second.first)) / (
        grows(second.other) - grows(second.first)
    )
    least = _LEAST_SHARE * sum(here.values())
    factors = []
    for key in graph.keys:
        before = here.get((key.operation, key.layer), 0.0)
        after = before + slope * (there.get((key.operation, key.layer), 0.0) - before)
        factors.append(max(0.0, after / before) if before > least else 1.0)
    return np.array(factors)


def seconds_of(graph: Graph) -> dict[tuple[str, str], float]:
    """CPU seconds of an iteration by operation and layer, over all threads: other programs change them less than they change how long
    it takes."""
    totals = np.zeros(len(graph.keys))
    iterations = 0
    for segment in graph.segments:
        iterations += len(segment.seconds)
        for items in segment.items:
            work = items.kinds < DELAY
            totals += np.bincount(items.whats[work], items.amounts[work], len(totals))
    totals *= graph.unrecorded
    found: dict[tuple[str, str], float] = {}
    for key, seconds in zip(graph.keys, totals.tolist(), strict=True):
        place = (key.operation, key.layer)
        found[place] = found.get(place, 0.0) + seconds / iterations
    return found
