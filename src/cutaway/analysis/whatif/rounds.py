"""Rounds: all environments step once and the main thread goes on when the last has answered.

A vectorised environment works in rounds, in one process or with a worker for each environment. Here a recording is taken apart
into rounds, and put together again for other numbers of environments and workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cutaway.analysis.whatif.graph import Graph, Key, Segment, Thread
from cutaway.analysis.whatif.items import (
    DELAY,
    GIVE,
    PASS,
    RUN,
    RUN_GIL,
    TAKE,
    Item,
    Items,
)
from cutaway.errors import CutawayError

SIMULATION = "simulation"
_LEAST_ROUNDS = 3
_TIMED = (RUN, RUN_GIL, DELAY)


@dataclass(frozen=True)
class Message:
    """Seconds of CPU time that one message to a worker and its answer cost: to send, to receive, and in the worker."""

    send: float
    receive: float
    worker: float


@dataclass(frozen=True)
class Crew:
    """Processes that are called alike and do the same: the threads of each that work, and what only it and the hub use."""

    name: str
    processes: tuple[int, ...]
    threads: tuple[int, ...]
    channels: tuple[frozenset[int], ...]


@dataclass
class Taken:
    """A segment taken apart: the main thread's items without rounds, with the place of each round in them, and what every
    environment did in each round."""

    rest: list[Item] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    steps: list[list[list[Item]]] = field(
        default_factory=list
    )  # by environment, then round
    message: Message | None = None

    def divided(self, each: int) -> Taken:
        """Of workers that step so many environments one after the other, which a recording does not tell apart."""
        if each == 1:
            return self
        steps = [[_shared(items, each) for items in worker] for worker in self.steps]
        return replace(self, steps=steps * each)


def _shared(items: list[Item], each: int) -> list[Item]:
    return [(kind, what, seconds / each) for kind, what, seconds in items]


def crews(
    graph: Graph, names: Sequence[str], births: Sequence[tuple[int, int]]
) -> list[Crew]:
    """Groups of worker processes, the largest first; workers in the order in which they were started. `names` and `births`:
    of processes."""
    groups: dict[str, list[int]] = {}
    leader = graph.threads[graph.leader].process
    others = {thread.process for thread in graph.threads} - {leader}
    for process in sorted(others, key=lambda process: births[process]):
        if _simulates(graph, process):
            groups.setdefault(stem(names[process]), []).append(process)
    found = [_crew(graph, name, processes) for name, processes in groups.items()]
    return sorted(found, key=lambda crew: -len(crew.processes))


def stem(name: str) -> str:
    """A name without its number.

    >>> stem("env-3"), stem("_worker-12")
    ('env', '_worker')
    """
    return name.rstrip("0123456789").rstrip("-_ :")


def _simulates(graph: Graph, process: int) -> bool:
    return any(
        key.process == process and key.operation == SIMULATION for key in graph.keys
    )


def _crew(graph: Graph, name: str, processes: list[int]) -> Crew:
    used = {process: channels_of(graph, process) for process in processes}
    private = []
    for process in processes:
        others = [used[other] for other in processes if other != process]
        private.append(frozenset(used[process].difference(*others)))
    return Crew(
        name,
        tuple(processes),
        tuple(_main_thread(graph, p) for p in processes),
        tuple(private),
    )


def channels_of(graph: Graph, process: int) -> set[int]:
    """What the threads of a process give to and take from."""
    found: set[int] = set()
    for number, thread in enumerate(graph.threads):
        if thread.process != process:
            continue
        for segment in graph.segments:
            items = segment.items[number]
            found.update(
                items.whats[(items.kinds > DELAY) & (items.kinds < PASS)].tolist()
            )
    return found


def _main_thread(graph: Graph, process: int) -> int:
    """The thread of a process that has the most work."""

    def work(number: int) -> float:
        rows = [segment.items[number] for segment in graph.segments]
        return sum(float(items.amounts[items.kinds <= DELAY].sum()) for items in rows)

    own = [
        number
        for number, thread in enumerate(graph.threads)
        if thread.process == process
    ]
    return max(own, key=work)


def from_crew(graph: Graph, segment: Segment, crew: Crew) -> Taken | None:
    """Takes a segment with workers apart. None: the workers are not asked in rounds."""
    if not all(crew.channels):
        return None
    member_of = {}
    for number, own in enumerate(crew.channels):
        member_of.update(dict.fromkeys(own, number))
    taken = Taken()
    sends, receives = list[float](), list[float]()
    asked: set[int] = set()
    answered: set[int] = set()
    inside: list[Item] = []
    for item in segment.items[graph.leader]:
        kind, what, _ = item
        member = member_of.get(what) if GIVE <= kind < PASS else None
        if member is None:
            (inside if asked else taken.rest).append(item)
            continue
        if kind == GIVE and answered:
            if answered != asked or len(asked) < len(crew.processes):
                return None
            taken.rest += inside
            inside, asked, answered = [], set(), set()
        if kind == GIVE:
            if not asked:
                taken.places.append(len(taken.rest))
            elif member not in asked:
                sends.append(_pull(inside))
            asked.add(member)
        else:
            if answered and member not in answered:
                receives.append(_pull(inside))
            answered.add(member)
    taken.rest += inside
    if len(taken.places) < _LEAST_ROUNDS:
        return None
    lead = segment.items[graph.leader]
    orders = {*lead.whats[lead.kinds == GIVE].tolist()}
    works = [_cycles(graph, segment.items[thread], orders) for thread in crew.threads]
    taken.steps = [[named for named, _ in cycles] for cycles in works]
    if not all(taken.steps):
        return None
    beside = [other for cycles in works for _, other in cycles]
    taken.message = Message(_mean(sends), _mean(receives), _mean(beside))
    return taken


def _pull(inside: list[Item]) -> float:
    """Removes the work between two messages, and tells how long it is."""
    seconds = 0.0
    while inside and inside[-1][0] in _TIMED:
        seconds += inside.pop()[2]
    return seconds


def _cycles(
    graph: Graph, items: Items, orders: set[int]
) -> list[tuple[list[Item], float]]:
    """From order to order: what a worker did by name, and seconds beside that, which are the message's."""
    found: list[tuple[list[Item], float]] = []
    named: list[Item] = []
    other = 0.0
    for kind, what, amount in items:
        if kind == TAKE and what in orders and named:
            found.append((named, other))
            named, other = [], 0.0
        elif kind in _TIMED and graph.keys[what].operation:
            named.append((kind, what, amount))
        elif kind in _TIMED:
            other += amount
    return [*found, (named, other)] if named else found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def from_one_process(
    graph: Graph, segment: Segment, envs: int, rounds: float
) -> Taken | None:
    """Takes a segment whose main thread steps all environments apart. `rounds`: in an iteration. What is simulated in an
    iteration is divided evenly."""
    taken = Taken(steps=[[] for _ in range(envs)])
    simulated: dict[tuple[int, int], float] = {}
    count = max(1, round(rounds))
    for kind, what, amount in segment.items[graph.leader]:
        if kind in _TIMED and graph.keys[what].operation == SIMULATION:
            simulated[kind, what] = simulated.get((kind, what), 0.0) + amount
            continue
        if kind == PASS:
            share = [
                (*place, seconds / count / envs) for place, seconds in simulated.items()
            ]
            taken.places += [len(taken.rest)] * count
            for steps in taken.steps:
                steps += [share] * count
            simulated = {}
        taken.rest.append((kind, what, amount))
    return taken if len(taken.places) >= _LEAST_ROUNDS else None


def put_together(
    graph: Graph, parts: Sequence[Taken], envs: int, workers: int, message: Message
) -> Graph:
    """The graph with so many environments in so many workers; none: in the main thread itself."""
    leader = graph.threads[graph.leader]
    last = max(thread.process for thread in graph.threads)
    crew = [Thread(last + 1 + number, f"worker {number}") for number in range(workers)]
    first = len(graph.channels)
    # The main thread's messages and those of the workers are work of simulation.
    keys = [*graph.keys, Key(leader.process, graph.leader, SIMULATION, "python")]
    channels = []
    for number in range(workers):
        channels += [f"asks {number}", f"answers {number}"]
    build = _Builder(envs, workers, message, first, len(graph.keys))
    segments = []
    for segment, taken in zip(graph.segments, parts, strict=True):
        items = [
            _emptied(graph, number, segment) for number in range(len(graph.threads))
        ]
        items[graph.leader] = Items.of(build.hub(taken))
        items += [Items.of(build.worker(taken, number)) for number in range(workers)]
        held = segment.channels + [0.0] * (first - len(segment.channels))
        segments.append(
            replace(segment, items=items, channels=held + [0.0] * len(channels))
        )
    return replace(
        graph, threads=[*graph.threads, *crew], keys=keys, channels=[*graph.channels, *channels], segments=segments
    )  # fmt: skip


def _emptied(graph: Graph, number: int, segment: Segment) -> Items:
    """Recorded workers have nothing to do any more; other threads stay."""
    works = _simulates(graph, graph.threads[number].process)
    return Items.of([]) if works else segment.items[number]


@dataclass(frozen=True)
class _Builder:
    envs: int
    workers: int
    message: Message
    first: int  # channel
    key: int  # of messages

    def hub(self, taken: Taken) -> Iterable[Item]:
        """The main thread: what it did, with the new rounds in it."""
        at = 0
        for number, place in enumerate(taken.places):
            yield from taken.rest[at:place]
            at = place
            yield from self._round(taken, number)
        yield from taken.rest[at:]

    def _round(self, taken: Taken, number: int) -> Iterable[Item]:
        if not self.workers:
            for env in range(self.envs):
                yield from _step(taken, env, number)
        for worker in range(self.workers):
            yield RUN, self.key, self.message.send
            yield GIVE, self.first + 2 * worker, 1.0
        for worker in range(self.workers):
            yield TAKE, self.first + 2 * worker + 1, 1.0
            yield RUN, self.key, self.message.receive

    def worker(self, taken: Taken, worker: int) -> Iterable[Item]:
        """A worker steps its environments one after the other."""
        for number in range(len(taken.places)):
            yield TAKE, self.first + 2 * worker, 1.0
            yield RUN, self.key, self.message.worker
            for env in range(worker, self.envs, self.workers):
                yield from _step(taken, env, number)
            yield GIVE, self.first + 2 * worker + 1, 1.0


def _step(taken: Taken, env: int, number: int) -> list[Item]:
    """What an environment did in a round; one that is new does what another did."""
    rounds = taken.steps[env % len(taken.steps)]
    # Environments that share a recording are not in step: each begins elsewhere in it.
    shift = env // len(taken.steps) * 7
    return rounds[(number + shift) % len(rounds)]


def in_rounds(graph: Graph, parts: Sequence[Taken | None]) -> tuple[Graph, list[Taken]]:
    """The segments that were taken apart, or a sentence. A few that are too short for that are left out."""
    both = zip(graph.segments, parts, strict=True)
    found = [(segment, part) for segment, part in both if part is not None]
    kept = sum(len(segment.seconds) for segment, _ in found)
    if kept * 2 <= sum(len(segment.seconds) for segment in graph.segments):
        raise CutawayError(
            "Its workers are not asked in rounds, so one recording does not tell what other numbers of environments or workers "
            "would do; make a second, short recording and use cutaway diff."
        )
    segments = [segment for segment, _ in found]
    return replace(graph, segments=segments), [part for _, part in found]
