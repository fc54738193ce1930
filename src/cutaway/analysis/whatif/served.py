"""Actors that a server answers in batches: how other numbers of them share it.

In the recording every actor gives its request to a server and waits for the reply. Here these messages become a desk: actors ask, the
server collects a batch, works and answers. A new actor asks at the same desk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cutaway.analysis.whatif.graph import Graph, Segment
from cutaway.analysis.whatif.items import (
    ANSWER,
    ASK,
    COLLECT,
    DELAY,
    EACH,
    GIVE,
    PEEK,
    TAKE,
    Item,
    Items,
)
from cutaway.analysis.whatif.rounds import Crew

_TYPICAL = 0.95  # of all batches are of one size, if the server waits for that many
_LEAST_BATCHES = 5  # of a size, to tell what it costs


@dataclass(frozen=True)
class Desk:
    """Where actors ask: the thread of the server, the channels of requests, and whose replies come through which channel."""

    server: int
    requests: frozenset[int]
    replies: dict[int, int]
    number: int  # of the new channel


@dataclass
class Batches:
    """What a server was seen to do: sizes of batches, and seconds of work of each."""

    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Requests in a batch."""
        return float(np.mean(self.sizes))

    def wanted(self, actors: int, count: int, described: Any) -> int:
        """For how many of `count` actors the server waits; 0: for one, and it takes all who are there."""
        if isinstance(described, int):
            return max(1, min(described, count))
        if described == "seed":
            return max(1, count // 2)
        size, seen = Counter(self.sizes).most_common(1)[0]
        if actors == 1 or seen < _TYPICAL * len(self.sizes):
            return 0
        if size == actors:
            return count
        return max(1, count // 2) if actors > 3 and size == actors // 2 else min(size, count)  # fmt: skip

    def fixed(self) -> float | None:
        """How much of the work of a mean batch does not grow with its size; None: all were alike."""
        seen = Counter(self.sizes)
        told = [size for size, count in seen.items() if count >= _LEAST_BATCHES]
        if len(told) < 2:
            return None
        # Medians: a batch during which the server lost its core looks dear, and then more have come.
        sizes, seconds = np.array(self.sizes), np.array(self.seconds)
        typical = [np.median(seconds[sizes == size]) for size in told]
        weights = [seen[size] ** 0.5 for size in told]
        slope, start = np.polyfit(told, typical, 1, w=weights)
        if slope <= 0:
            return 1.0
        return max(0.0, float(start / (start + slope * self.mean)))


def desk(graph: Graph, crew: Crew) -> Desk | None:
    """The desk that all actors of a crew ask at, if there is one."""
    replies: dict[int, int] = {}
    gave: set[int] = set()
    for number, thread in enumerate(crew.threads):
        gave |= _used(graph, thread, (GIVE,))
        for channel in _used(graph, thread, (TAKE,)) & crew.channels[number]:
            replies[channel] = number
    outside = [
        number
        for number, thread in enumerate(graph.threads)
        if thread.process not in crew.processes
    ]
    servers = [t for t in outside if _used(graph, t, (GIVE,)) & replies.keys()]
    if len(servers) != 1:
        return None
    requests = gave & _used(graph, servers[0], (TAKE, PEEK))
    given = _used(graph, servers[0], (GIVE,))
    replies = {channel: own for channel, own in replies.items() if channel in given}
    if not requests or {*replies.values()} != {*range(len(crew.threads))}:
        return None
    return Desk(servers[0], frozenset(requests), replies, len(graph.channels))


def _used(graph: Graph, thread: int, kinds: Sequence[int]) -> set[int]:
    found: set[int] = set()
    for segment in graph.segments:
        items = segment.items[thread]
        found.update(items.whats[np.isin(items.kinds, kinds)].tolist())
    return found


def asking(items: Iterable[Item], at: Desk) -> Iterable[Item]:
    """An actor: a request and its reply become one question."""
    asked = False
    for kind, what, amount in items:
        if kind == GIVE and what in at.requests:
            asked = True
        elif kind in (TAKE, PEEK) and what in at.replies:
            if asked:
                yield ASK, at.number, 1.0
            asked = False
        else:
            yield kind, what, amount


def answering(
    items: Iterable[Item], at: Desk, wanted: int | None, keys: int, seen: Batches
) -> list[Item]:
    """The server: from the first request that it takes to the last reply is a batch, whose work has keys of its own, for what is
    the same for any size and for what it takes for each. None: batches stay as they were."""
    done: list[Item] = []
    pending: list[Item] = []
    begin, end = -1, 0
    answered: set[int] = set()

    def flush() -> None:
        nonlocal pending, begin, end
        size = len(answered)
        done.extend(pending[:begin])
        done.append((COLLECT, at.number, size if wanted is None else wanted))
        for kind, what, amount in pending[begin:end]:
            done.append((kind, what + keys * (kind < DELAY), amount))
            if kind < DELAY and wanted is not None:
                done.append((EACH, what + 2 * keys, amount / size))
        done.append((ANSWER, at.number, 1.0))
        seen.sizes.append(size)
        work = (amount for kind, _, amount in pending[begin:end] if kind < DELAY)
        seen.seconds.append(sum(work))
        pending = pending[end:]
        begin, end = -1, 0
        answered.clear()

    for kind, what, amount in items:
        if kind in (TAKE, PEEK) and what in at.requests:
            if answered:
                flush()
            if begin < 0:
                begin = len(pending)
        elif kind == GIVE and what in at.replies:
            if begin < 0:
                begin = len(pending)
            answered.add(at.replies[what])
            end = len(pending)
        else:
            pending.append((kind, what, amount))
    if answered:
        flush()
    return done + pending


def at_the_desk(graph: Graph, crew: Crew, at: Desk, wanted: int | None) -> tuple[Graph, Batches]:  # fmt: skip
    """The graph whose actors ask at the desk, with keys for the batches, and what the batches were."""
    keys, seen = len(graph.keys), Batches()
    segments: list[Segment] = []
    for segment in graph.segments:
        items = [*segment.items]
        for thread in crew.threads:
            items[thread] = Items.of(asking(items[thread], at))
        items[at.server] = Items.of(answering(items[at.server], at, wanted, keys, seen))
        held = segment.channels + [0.0] * (at.number - len(segment.channels))
        segments.append(replace(segment, items=items, channels=[*held, 0.0]))
    made = replace(graph, keys=graph.keys * 3, channels=[*graph.channels, "desk"], segments=segments)  # fmt: skip
    return made, seen
