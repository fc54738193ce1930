"""Runs a graph again on a number of cores."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutaway import _simulate
from cutaway.analysis.whatif.graph import Graph, Segment

_PARITY = 0.2e-3
"""Seconds that a thread runs before one that wakes may take its core. Chosen by how well six recordings of
workers and queues were replayed on Linux 6.18; 0.7 ms, as older kernels have it, was up to 6 points worse. One of
the six, workers on one core, is 21 % off whatever this is."""


_POLL = 0.05e-3
"""Seconds after which it costs time to wake a core. With 0.2 ms an actor whose server answers it alone was 23 % too fast, with this
12 %; the other pairs of benchmarks/whatif change by less than 3 points."""


@dataclass(frozen=True)
class Replayed:
    """Seconds of each iteration that counts, the share of waits that nobody in the recording would have ended, and how many
    questions a server answered in an iteration (0: nobody asks), on average and in each of them (`answers`). `busy`: the share of
    the time in which each thread works, `cpu`: how many CPU threads are busy."""

    seconds: NDArray[np.float64]
    forced: float
    asked: float = 0.0
    busy: tuple[float, ...] = ()
    cpu: float = 0.0
    answers: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def mean(self) -> float:
        """Seconds of an iteration."""
        return float(self.seconds.mean())


def replay(graph: Graph, factors: NDArray[np.float64] | None = None) -> Replayed:
    """All segments, one after the other, with the work of each key times its factor."""
    scale = (
        np.ones(len(graph.keys))
        if factors is None
        else np.ascontiguousarray(factors, np.float64)
    )
    seconds: list[NDArray[np.float64]] = []
    asked: list[NDArray[np.float64]] = []
    forced, items = 0, 1
    busy, cpu, length = np.zeros(len(graph.threads)), 0.0, 1e-12
    for segment in graph.segments:
        found = _replay_segment(graph, segment, scale)
        seconds.append(np.diff(np.array([0.0, *found.passes])))
        asked.append(np.diff(np.array([0.0, *found.asked])))
        forced += found.forced
        busy += found.busy
        cpu += found.cpu
        length += found.end
        items += sum(len(thread) for thread in segment.items)
    counted = graph.settled(asked)
    mean = float(counted.mean()) if len(counted) else 0.0
    shares = tuple((busy / length).tolist())
    return Replayed(
        graph.settled(seconds),
        forced / items,
        mean,
        shares,
        cpu / length,
        counted,
    )


def _replay_segment(
    graph: Graph, segment: Segment, factors: NDArray[np.float64]
) -> _simulate.Replayed:
    first = np.concatenate(
        [[0], np.cumsum([len(items) for items in segment.items])]
    ).astype(np.int64)
    return _simulate.replay(
        np.concatenate([items.kinds for items in segment.items]),
        np.concatenate([items.whats for items in segment.items]),
        np.concatenate([items.amounts for items in segment.items]),
        first,
        np.array([thread.process for thread in graph.threads], np.int32),
        factors,
        segment.channels + [0.0] * (len(graph.channels) - len(segment.channels)),
        graph.leader,
        _cpu(graph),
    )


def _cpu(graph: Graph) -> _simulate.Cpu:
    """The cores it was recorded on, which are alike, or another machine."""
    if graph.machine is None:
        return _simulate.Cpu(
            graph.cores,
            graph.cores,
            granularity=_PARITY,
            wake=graph.wake,
            poll=_POLL,
        )
    other = graph.machine
    return _simulate.Cpu(
        other.threads,
        other.cores,
        other.smt_yield,
        granularity=_PARITY,
        wake=other.wake or graph.wake,
        turbo=other.turbo,
        foreign=other.foreign,
    )
