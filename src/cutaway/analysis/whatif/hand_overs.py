"""What it costs that threads on different cores hand work to each other, and what of that one recording does not tell.

Who wakes a thread on another core interrupts that core, and who is woken there finds cold caches. Between two cores this took 33
and 37 µs of CPU time for a message and its answer in two programs, which were recorded on one core and on two. A recording on
several cores has it in its work; on one core there is none of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.graph import Graph
from cutaway.analysis.whatif.items import DELAY, GIVE, TAKE
from cutaway.calibration import messages

EACH = 17e-6
"""Seconds of CPU time of one hand-over between cores: half of them who gives, half who takes."""
_LEAST = 0.2  # of its work a thread keeps


def elsewhere(
    graph: Graph, cores: int
) -> tuple[Graph, NDArray[np.float64], NDArray[np.float64]]:
    """The graph on so many cores; and the factors of its keys' time for what hand-overs cost there, as far as known and if they cost
    twice as much."""
    ones = np.ones(len(graph.keys))
    if graph.cores == cores or 1 not in (graph.cores, cores):
        return replace(graph, cores=cores), ones, ones
    sign = 1.0 if cores > 1 else -1.0
    extra = _shares(graph) * EACH / 2
    made = replace(graph, cores=cores)
    if cores > 1 and extra.any():
        made = replace(made, wake=max(graph.wake, messages.cost().wake))
    likely, most = (
        np.maximum(_LEAST, 1 + sign * times * extra)
        for times in (1.0, 2.0 if cores > 1 else 0.0)
    )
    return made, likely, most


def joined(graph: Graph, processes: Collection[int]) -> NDArray[np.float64]:
    """The factors of what some processes do, if one does it that nobody has to wake."""
    theirs = np.array([key.process in processes for key in graph.keys])
    if graph.cores == 1:
        return np.ones(len(graph.keys))
    return np.where(theirs, np.maximum(_LEAST, 1 - _shares(graph) * EACH / 2), 1.0)


def _shares(graph: Graph) -> NDArray[np.float64]:
    """For each key: hand-overs of its thread for each second of what it does."""
    work, count = np.zeros(len(graph.threads)), np.zeros(len(graph.threads))
    for segment in graph.segments:
        given = np.zeros(len(graph.channels))
        takers = np.zeros(
            (len(graph.channels), 2), np.int64
        )  # one of them, and how many
        for number, items in enumerate(segment.items):
            work[number] += items.amounts[items.kinds <= DELAY].sum()
            gives = items.whats[items.kinds == GIVE]
            given += np.bincount(gives, minlength=len(given))
            count[number] += len(gives)
            taken = np.unique(items.whats[items.kinds == TAKE])
            takers[taken] += np.array([number, 1])
        single = takers[:, 1] == 1
        np.add.at(count, takers[single, 0], given[single])
    rate = np.divide(count, work, out=np.zeros(len(work)), where=work > 0)
    return np.array([rate[key.thread] for key in graph.keys])
