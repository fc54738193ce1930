"""Other numbers of environments, workers and actors: what they do to a graph, and what nobody can know about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif import hand_overs, rounds, served
from cutaway.analysis.whatif.graph import Graph, Segment, Thread
from cutaway.analysis.whatif.items import ASK, GIVE, Items
from cutaway.analysis.whatif.rounds import Crew, Message, Taken
from cutaway.calibration import messages
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_ROLLOUT = 8
"""An update after at least so many steps passes over them; one that comes more often draws from a replay memory."""
_UPDATES = ("backpropagation",)
_DEARER = 4
"""How many times as much as measured here a message costs in the dearest program that was compared."""
_MANY = 60
"""A worker that makes more steps than this in a round makes a stretch of experience, which can be divided among any few workers."""
_SERVED = 4
"""How often what a server did is repeated: more actors ask more often."""
_FIRST = f"messages between processes cost up to {_DEARER} times as much in a program that fills the caches"
_SECOND = "make a second, short recording and use cutaway diff"


@dataclass(frozen=True)
class Structure:
    """So many environments and worker processes; None: as many as there are. Workers 0: all in the main process."""

    envs: int | None = None
    workers: int | None = None


@dataclass(frozen=True)
class Actors:
    """So many actors, each of which gives what it made to a queue of all."""

    count: int


@dataclass(frozen=True)
class Shape:
    """A changed graph. `factors` are those of its keys, `most` the same if what is not known costs as much as it can, `work` is how
    much more an iteration does."""

    graph: Graph
    factors: NDArray[np.float64]
    most: NDArray[np.float64]
    work: float
    assumes: tuple[str, ...]
    base: Graph | None = None  # what to compare with; None: the recorded graph
    worst: Graph | None = (
        None  # the same graph, with what nothing in the recording tells at its dearest
    )
    unknown: str = "how the cost of a batch grows with its size"


def apply_structure(run: Run, graph: Graph, change: Structure) -> Shape:
    """Takes the rounds of all environments apart and puts them together anew."""
    crew, recorded = crew_of(run, graph), graph
    each = 1
    if crew:
        taken = [rounds.from_crew(graph, segment, crew) for segment in graph.segments]
        graph, parts = rounds.in_rounds(graph, taken)
        each = _each(run, graph, parts, crew)
        parts = [part.divided(each) for part in parts]
        had = len(crew.processes) * each
    else:
        had, per_iteration = stepped_here(run, graph)
        taken = [
            rounds.from_one_process(graph, segment, had, per_iteration)
            for segment in graph.segments
        ]
        graph, parts = rounds.in_rounds(graph, taken)
    envs = change.envs or had
    workers = 0 if change.workers is None else change.workers
    if crew and change.workers is None:
        workers = _filled(envs, each)
    if workers > envs:
        raise CutawayError(
            f"{envs} environments cannot fill {workers} workers; add envs={workers}."
        )
    message, assumes = _message(parts, workers)
    if each > 1:
        assumes = (*assumes, f"the {each} environments of a worker take equally long")
    made = rounds.put_together(graph, parts, envs, workers, message)
    # Taken apart and put together as it was: what that changes is no effect of the change.
    old = len(crew.processes) if crew else 0
    same = rounds.put_together(graph, parts, had, old, _recorded(parts))
    worst = None
    if workers and not crew:
        made = replace(made, wake=messages.cost().wake)
        dear = Message(
            *(
                _DEARER * seconds
                for seconds in (message.send, message.receive, message.worker)
            )
        )
        worst = rounds.put_together(graph, parts, envs, workers, dear)
        worst = replace(worst, wake=_DEARER * made.wake)
    shape = _scaled(made, graph, parts, envs / had, (*assumes, *_spread(envs, had)))
    if crew and not workers:
        less = hand_overs.joined(recorded, crew.processes)
        less = np.append(less, np.ones(len(made.keys) - len(less)))
        shape = replace(shape, factors=shape.factors * less, most=shape.most * less)
    if worst:
        shape = replace(
            shape,
            worst=worst,
            unknown="what messages between processes cost",
            assumes=(*shape.assumes, _FIRST),
        )
    return replace(shape, base=same)


def crew_of(run: Run, graph: Graph) -> Crew | None:
    """The worker processes that simulate, if there are any."""
    found = rounds.crews(graph, process_names(run), _births(run))
    return found[0] if found else None


def process_names(run: Run) -> list[str]:
    return [
        str(process.log.process.get("name") or "") for process in run.trace.processes
    ]


def _births(run: Run) -> list[tuple[int, int]]:
    """When the kernel started each process, to within 10 ms, and its pid: which of two workers came first. The first event of a
    worker does not tell, because the second one may be faster to begin."""
    logs = [process.log.process for process in run.trace.processes]
    return [(int(log.get("os_start") or 0), int(log.get("pid") or 0)) for log in logs]


def _rounds(parts: Sequence[Taken], graph: Graph) -> float:
    """Rounds of an iteration."""
    iterations = sum(len(segment.seconds) for segment in graph.segments)
    return sum(len(part.places) for part in parts) / max(iterations, 1)


def stepped_here(run: Run, graph: Graph) -> tuple[int, float]:
    """How many environments the main thread steps, and how often in an iteration all of them."""
    process = graph.threads[graph.leader].process
    table = run.operations().where(process=process)
    counts = dict(
        zip(table["operation"].tolist(), table["count"].tolist(), strict=True)
    )
    iterations = len(run.iterations().where(process=process))
    visits = counts.get(rounds.SIMULATION, 0) / max(iterations, 1)
    acts = counts.get("inference", 0) / max(iterations, 1)
    if not visits or not graph.steps:
        raise CutawayError(
            f"The main process steps no environment that Cutaway can count; {_SECOND}."
        )
    # A vector environment is one visit; environments in a plain list are stepped once each for a decision.
    per_iteration = min(visits, acts) if acts >= 1 else visits
    envs = round(graph.steps / per_iteration)
    if envs < 1 or abs(graph.steps / per_iteration - envs) > 0.2:
        raise CutawayError(
            f"How many environments are stepped at once could not be told; {_SECOND}."
        )
    return envs, graph.steps / envs


def _each(run: Run, graph: Graph, parts: Sequence[Taken], crew: Crew) -> int:
    """How many environments a worker steps in a round, by the steps that the main process counted, or else the workers."""
    steps = graph.steps
    if not steps:
        process = graph.threads[graph.leader].process
        counted = sum(int(run.swept.pace.steps[own]) for own in crew.processes)
        steps = counted / max(1, len(run.iterations().where(process=process)))
    each = steps / _rounds(parts, graph) / len(crew.processes)
    if each > _MANY:
        return _MANY
    if each > 1.2 and abs(each - round(each)) > 0.2:
        raise CutawayError(
            f"How many environments are stepped at once could not be told; {_SECOND}."
        )
    return max(1, round(each))


def _filled(envs: int, each: int) -> int:
    """How many workers that many environments take, with as many in each as before."""
    if envs % each:
        raise CutawayError(
            f"A worker steps {each} environments, and {envs} is no multiple of that; add workers=N."
        )
    return envs // each


def _recorded(parts: Sequence[Taken]) -> Message:
    """The mean message: rare slow ones count, too."""
    seen = [part.message for part in parts if part.message]
    if not seen:
        return Message(0.0, 0.0, 0.0)
    send, receive, worker = np.mean(
        [(m.send, m.receive, m.worker) for m in seen], axis=0
    )
    return Message(float(send), float(receive), float(worker))


def _message(parts: Sequence[Taken], workers: int) -> tuple[Message, tuple[str, ...]]:
    """As recorded, or as measured once on this machine."""
    if not workers:
        return Message(0.0, 0.0, 0.0), (
            "an environment costs the main process what it costs a worker",
        )
    seen = _recorded(parts)
    if seen.send + seen.receive > 0:
        return seen, ()
    cost = messages.cost()
    micro = 1e6 * (cost.send + cost.receive + cost.worker)
    return Message(cost.send, cost.receive, cost.worker), (
        f"a small message and its answer cost {micro:.0f} µs of CPU time, as measured here",
    )


def _spread(envs: int, had: int) -> tuple[str, ...]:
    return ("new environments are like those there are",) if envs > had else ()


def _scaled(
    graph: Graph,
    old: Graph,
    parts: Sequence[Taken],
    more: float,
    assumes: tuple[str, ...],
) -> Shape:
    """What else grows with the number of environments. Simulation does by itself; an update over a rollout grows with it, one
    from a replay memory does not; anything else is done once a round, for more of them at once."""
    ones = np.ones(len(graph.keys))
    if more == 1:
        return Shape(graph, ones, ones, 1.0, assumes)
    process = old.threads[old.leader].process
    update = np.array(
        [key.operation in _UPDATES and key.process == process for key in graph.keys]
    )
    simulated = np.array([key.operation == rounds.SIMULATION for key in graph.keys])
    rollout = _rounds(parts, old) >= _ROLLOUT
    factors = np.where(update & rollout, more, 1.0)
    most = np.where(simulated | (update & (not rollout)), 1.0, more)
    passes = (
        "an update passes over all new steps"
        if rollout
        else "as many updates an iteration"
    )
    return Shape(
        graph,
        factors,
        most,
        more,
        (*assumes, passes, "a larger batch costs inference nothing"),
    )


def apply_actors(run: Run, graph: Graph, change: Actors) -> Shape:
    """Copies of the recorded actors, each at another place of what was recorded."""
    crew = crew_of(run, graph)
    if crew is None:
        raise CutawayError("This run has no actor processes; use envs=N or workers=N.")
    if not _feeds_a_queue(graph, crew):
        parts = [rounds.from_crew(graph, segment, crew) for segment in graph.segments]
        if any(parts):
            return apply_structure(run, graph, Structure(change.count, change.count))
        return _apply_served(run, graph, crew, change.count)
    made = _crewed(graph, crew, change.count)
    ones = np.ones(len(graph.keys))
    more = change.count > len(crew.processes)
    assumes = ("new actors are like those there are",) if more else ()
    return Shape(made, ones, ones, 1.0, assumes)


def _crewed(graph: Graph, crew: Crew, count: int) -> Graph:
    """The graph with so many actors."""
    segments = [_copied(graph, segment, crew, count) for segment in graph.segments]
    copies = (thread for thread, _, _ in _copies(graph, crew, count))
    return replace(graph, threads=[*graph.threads, *copies], segments=segments)


def _apply_served(run: Run, graph: Graph, crew: Crew, count: int) -> Shape:
    """Actors that a server answers: it collects batches of them, by the rule that the program described or that its batches show."""
    at = served.desk(graph, crew)
    if at is None:
        raise CutawayError(
            f"Something answers each actor by itself, and nothing recorded tells who; {_SECOND}."
        )
    same, seen = served.at_the_desk(graph, crew, at, None)
    wanted = seen.wanted(len(crew.processes), count, run.trace.facts.get("batch"))
    made, _ = served.at_the_desk(graph, crew, at, wanted)
    made = _crewed(made, crew, count)
    fixed = seen.fixed()
    low, most = (1.0, 0.0) if fixed is None else (fixed, fixed)
    ones = np.ones(len(graph.keys))
    rule = f"the server waits for {wanted}" if wanted else "it takes who is there"
    assumes = (
        f"the server answered {seen.mean:.1f} requests at once; with {count} actors {rule}",
        "new actors are like those there are",
    )
    return Shape(
        _without_end(made, at.server),
        np.concatenate([ones, low * ones, (1 - low) * ones]),
        np.concatenate([ones, most * ones, (1 - most) * ones]),
        1.0,
        assumes,
        base=_without_end(_crewed(same, crew, len(crew.processes)), at.server),
    )


def _without_end(graph: Graph, server: int) -> Graph:
    """The server goes on for as long as anybody asks; if it leads, it ends when it ended."""
    if server == graph.leader:
        return graph
    segments = []
    for segment in graph.segments:
        items = [*segment.items]
        items[server] = _repeated(items[server], _SERVED)
        segments.append(replace(segment, items=items))
    return replace(graph, segments=segments)


def _feeds_a_queue(graph: Graph, crew: Crew) -> bool:
    """Whether what an actor exchanges with others is shared by all actors. A single one is not told from the others, but a queue
    between processes is: it has semaphores."""
    outside = {thread.process for thread in graph.threads} - {*crew.processes}
    used = set[int]().union(
        *(rounds.channels_of(graph, process) for process in outside)
    )
    if len(crew.processes) == 1:
        return any(
            " sem:" in graph.channels[channel] for channel in used & crew.channels[0]
        )
    return not any(own & used for own in crew.channels)


def _copies(graph: Graph, crew: Crew, count: int) -> list[tuple[Thread, int, int]]:
    """The threads of new actors: what they are, which one they copy, and the number of the copy."""
    last = max(thread.process for thread in graph.threads)
    found = []
    for number in range(len(crew.processes), count):
        source = crew.processes[number % len(crew.processes)]
        last += 1
        for thread, known in enumerate(graph.threads):
            if known.process == source:
                found.append((Thread(last, f"{known.name} {number}"), thread, number))
    return found


def _copied(graph: Graph, segment: Segment, crew: Crew, count: int) -> Segment:
    """What an actor did is repeated, because fewer actors make more each, and so that none ends early that made less than the
    others while it was recorded; a new one begins elsewhere in it."""
    gone = {*crew.processes[count:]}
    gifts = _gifts(graph, segment, crew)
    wanted = 2 * max(gifts.values()) * (1 + len(crew.processes) // max(count, 1))
    times = {own: -(-wanted // max(made, 1)) for own, made in gifts.items()}
    items = []
    for number, thread in enumerate(graph.threads):
        own = segment.items[number]
        if thread.process in gone:
            own = Items.of([])
        elif thread.process in times:
            own = _repeated(own, times[thread.process])
        items.append(own)
    held = [*segment.channels]
    for _, source, number in _copies(graph, crew, count):
        more = times[graph.threads[source].process]
        items.append(_rotated(_repeated(segment.items[source], more), number / count))
    return replace(segment, items=items, channels=held)


def _gifts(graph: Graph, segment: Segment, crew: Crew) -> dict[int, int]:
    """How often each actor gave something."""
    found = dict.fromkeys(crew.processes, 0)
    for thread, own in zip(graph.threads, segment.items, strict=False):
        if thread.process in found:
            found[thread.process] += int(np.isin(own.kinds, (GIVE, ASK)).sum())
    return found


def _repeated(items: Items, times: int) -> Items:
    return items.picked(np.tile(np.arange(len(items)), times))


def _rotated(items: Items, share: float) -> Items:
    """The same items, from another gift or question on."""
    gifts = np.flatnonzero(np.isin(items.kinds, (GIVE, ASK)))
    if not len(gifts):
        return items
    at = int(gifts[int(share * len(gifts)) % len(gifts)]) + 1
    return items.picked(np.roll(np.arange(len(items)), -at))
