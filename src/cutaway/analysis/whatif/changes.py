"""Changes, and what they do to a graph. `words.py` reads them as people write them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.gpus import UNKNOWN, OnGpu, gpu_factors
from cutaway.analysis.whatif.graph import (
    GIL_LAYERS,
    MESSAGE,
    Graph,
    Key,
    Segment,
    Thread,
)
from cutaway.analysis.whatif.hand_overs import elsewhere
from cutaway.analysis.whatif.items import (
    DELAY,
    GIVE,
    PASS,
    PEEK,
    RUN,
    RUN_GIL,
    TAKE,
    Items,
    in_turns,
)
from cutaway.analysis.whatif.sizes import LAWS, Second, Size, size_factors
from cutaway.analysis.whatif.structure import (
    Actors,
    Shape,
    Structure,
    apply_actors,
    apply_structure,
    process_names,
)
from cutaway.errors import CutawayError
from cutaway.machines.machine import Machine
from cutaway.vocabulary import DEVICE_LAYERS, THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_SURELY_LOCKED = ("python",)
ALIASES = {"update": ("backpropagation",), "rollout": ("simulation", "inference")}


@dataclass(frozen=True)
class Faster:
    """Something takes 1/`times` of its time; infinite: none at all."""

    name: str
    times: float


@dataclass(frozen=True)
class Cores:
    """The same program on so many cores."""

    count: int


@dataclass(frozen=True)
class Elsewhere:
    """The same program on another machine."""

    machine: Machine


@dataclass(frozen=True)
class Overlap:
    """`moved` runs in a thread of its own, while the thread it ran in goes on with `beside` (empty: anything else)."""

    moved: str
    beside: str = ""


Change = Faster | Cores | Elsewhere | OnGpu | Overlap | Structure | Actors | Size


def apply(
    run: Run, graph: Graph, changes: Sequence[Change], second: Second | None = None
) -> Shape:
    """The graph after all changes, the factor of each key's time, and what had to be assumed. Native code may release the interpreter
    lock, and nothing recorded tells: work that overlaps is replayed both ways."""
    on_devices = Faster | Cores | Elsewhere | OnGpu
    if graph.on_devices and not all(isinstance(one, on_devices) for one in changes):
        raise CutawayError(
            "Of a run on an accelerator, only NAME=2x, cores=N, gpu=NAME and --machine are replayed: "
            "what a batch of another size costs a device, one recording does not tell."
        )
    shape = _applied(
        run,
        graph,
        changes,
        second,
        GIL_LAYERS,
    )
    if shape.worst or not any(isinstance(one, Overlap) for one in changes):
        return shape
    released = _applied(
        run,
        graph,
        changes,
        second,
        _SURELY_LOCKED,
    )
    return replace(
        shape,
        worst=released.graph,
        unknown="whether native code holds the interpreter lock",
    )


def _applied(
    run: Run,
    graph: Graph,
    changes: Sequence[Change],
    second: Second | None,
    locked: tuple[str, ...],
) -> Shape:
    """Structure comes first: other changes are about what it leaves. Work of `locked` layers holds the interpreter lock."""
    shape = _shaped(run, graph, changes)
    graph, assumes = _moved(run, shape.graph, changes), [*shape.assumes]
    factors = np.ones(len(graph.keys))
    doubted = np.ones(len(graph.keys))
    unknown = shape.unknown
    for change in changes:
        match change:
            case Faster(name, times):
                factors *= 1 - shares(run, graph, name) * (1 - 1 / times)
            case Cores(count):
                if graph.machine is None:
                    graph, likely, most = elsewhere(graph, count)
                    factors *= likely
                    doubted *= most / likely
                    unknown = "what hand-overs between cores cost"
                    assumes.append("cores that are as fast as those it was recorded on")
                else:
                    graph = _on_cores(graph, count)
            case Elsewhere(machine):
                factors *= _speeds(graph, machine)
                assumes.append(_described(machine, graph.on_devices))
            case OnGpu():
                least, most, assumed = gpu_factors(run, graph, change)
                factors *= least
                doubted *= most / least
                unknown = UNKNOWN
                assumes.append(assumed)
            case Overlap(moved, _):
                graph = _overlapped(graph, change, locked)
                assumes.append(
                    f"{moved} works with what is one pass old, in a thread of the same process"
                )
            case Size():
                factors *= size_factors(run, graph, change, second)
                assumes.append(LAWS[change.name].assumes)
    return replace(
        shape,
        graph=graph,
        factors=shape.factors * factors,
        most=shape.most * factors * doubted,
        assumes=tuple(assumes),
        unknown=unknown,
    )  # fmt: skip


def _moved(run: Run, graph: Graph, changes: Sequence[Change]) -> Graph:
    """The graph on another machine, if one is asked for. A program whose simulator burns time, as ours for tests does, is as fast on
    any thread."""
    machines = [change.machine for change in changes if isinstance(change, Elsewhere)]
    if not machines:
        return graph
    burns = run.trace.facts.get("burns_time")
    machine = machines[-1].unshared() if burns else machines[-1]
    return replace(graph, machine=machine, cores=machine.threads)


def _on_cores(graph: Graph, count: int) -> Graph:
    machine = graph.machine
    if machine is None:
        return replace(graph, cores=count)
    if count > machine.threads:
        raise CutawayError(
            f"{machine.name} has {machine.threads} CPU threads; choose cores={machine.threads} or fewer."
        )
    return replace(graph, machine=machine.limited_to(count), cores=count)


def _speeds(graph: Graph, machine: Machine) -> NDArray[np.float64]:
    """The factor of each key's time: a wait does not get shorter on a faster machine."""
    speeds = dict.fromkeys(DEVICE_LAYERS.values(), machine.gpu_speed)
    speeds["wait"] = 1.0
    return np.array(
        [1 / speeds.get(key.layer, machine.cpu_speed) for key in graph.keys]
    )


def _described(machine: Machine, on_devices: bool) -> str:
    """What is taken for granted about another machine."""
    if machine.cpu_speed == 1:
        speed = "each as fast as here while it is alone (set cpu_speed in its file)"
    else:
        speed = f"each {machine.cpu_speed:g} times as fast as here while it is alone"
    if on_devices and machine.gpu_speed == 1:
        speed += "; a device as fast as here (set gpu_speed in its file)"
    elif on_devices:
        speed += f"; all work of a device {machine.gpu_speed:g} times as fast"
    return f"{machine.name} has {machine.cores} cores and {machine.threads} CPU threads, {speed}"


def _shaped(run: Run, graph: Graph, changes: Sequence[Change]) -> Shape:
    structures = [change for change in changes if isinstance(change, Structure)]
    actors = [change for change in changes if isinstance(change, Actors)]
    if structures and actors:
        raise CutawayError("Say envs= and workers=, or actors=, but not both.")
    if actors:
        return apply_actors(run, graph, actors[-1])
    if structures:
        envs = [change.envs for change in structures if change.envs is not None]
        workers = [
            change.workers for change in structures if change.workers is not None
        ]
        return apply_structure(run, graph, Structure(_last(envs), _last(workers)))
    ones = np.ones(len(graph.keys))
    return Shape(graph, ones, ones, 1.0, ())


def _last(values: list[int]) -> int | None:
    return values[-1] if values else None


def shares(run: Run, graph: Graph, name: str) -> NDArray[np.float64]:
    """How much of the time of each key is meant by a name."""
    operations = {key.operation for key in graph.keys if key.operation}
    meant = ALIASES.get(name, (name,))
    if operations & {*meant}:
        return np.array(
            [
                float(key.operation in meant and key.layer != MESSAGE)
                for key in graph.keys
            ]
        )
    if name in THREAD_LAYERS or name in DEVICE_LAYERS.values():
        return _of_layer(graph, name)
    if any(name in key.title for key in graph.keys):
        return np.array([float(name in key.title) for key in graph.keys])
    processes = {number for number, own in enumerate(process_names(run)) if own == name}
    if processes:
        return np.array([float(key.process in processes) for key in graph.keys])
    return _sampled_shares(run, graph, name, operations)


def _of_layer(graph: Graph, name: str) -> NDArray[np.float64]:
    layers = {key.layer for key in graph.keys}
    if name not in layers:
        known = ", ".join(sorted(layers - {MESSAGE}))
        raise CutawayError(
            f"Nothing in this run is of layer {name}; layers are: {known}."
        )
    return np.array([float(key.layer == name) for key in graph.keys])


def _sampled_shares(
    run: Run, graph: Graph, name: str, operations: set[str]
) -> NDArray[np.float64]:
    """Of a line or a function: by sampled stacks, so alike in all passes."""
    file, _, line = name.rpartition(":")
    table = run.lines()
    if file and line.isdecimal():
        hit = np.zeros(len(table), bool)
        for own_file, own_line in (("file", "line"), ("your_file", "your_line")):
            ends = np.array(
                [
                    str(path) == file or str(path).endswith("/" + file)
                    for path in table[own_file]
                ],
                bool,
            )
            hit |= ends & (table[own_line] == int(line))
    else:
        table = run.lines("function")
        hit = np.array(
            [
                name in names
                for names in zip(table["function"], table["native"], strict=True)
            ],
            bool,
        )
    if not hit.any():
        _refuse(name, file, operations)
    totals: dict[tuple[int, str, str], float] = {}
    found: dict[tuple[int, str, str], float] = {}
    columns = (
        table[column].tolist() for column in ("process", "operation", "layer", "ns")
    )
    for (*place, ns), is_hit in zip(
        zip(*columns, strict=True), hit.tolist(), strict=True
    ):
        key = (int(place[0]), str(place[1]), str(place[2]))
        totals[key] = totals.get(key, 0.0) + ns
        found[key] = found.get(key, 0.0) + ns * is_hit

    def share(key: Key) -> float:
        place = (key.process, key.operation, key.layer)
        return found.get(place, 0.0) / totals[place] if totals.get(place) else 0.0

    return np.array([share(key) for key in graph.keys])


def _refuse(name: str, file: str, operations: set[str]) -> None:
    if file:
        raise CutawayError(
            f"No sample was taken in {name}; `cutaway show RUN --by line` lists the lines that cost time."
        )
    known = sorted(operations)
    near = difflib.get_close_matches(name.lower(), [*known, *THREAD_LAYERS], 1)
    hint = (
        f"did you mean {near[0]}?"
        if near
        else f"operations are: {', '.join(known) or 'none'}."
    )
    raise CutawayError(
        f"There is no operation, layer, process or function {name!r} in this run; {hint}"
    )


def _overlapped(graph: Graph, change: Overlap, locked: tuple[str, ...]) -> Graph:
    """The leader's thread becomes two, coupled by two channels: the moved work of one visit begins when the thread reaches it,
    and must be done when the thread reaches the next visit."""
    moved = _named(graph, change.moved)
    own = {key.operation for key in graph.keys if key.thread == graph.leader}
    if not own & moved:
        raise CutawayError(
            "The leading thread does none of that work itself; there is nothing to overlap."
        )
    beside = (
        _named(graph, change.beside) if change.beside else (own - moved - {""}) or {""}
    )
    if not beside - moved:
        raise CutawayError(
            f"{change.moved} cannot run beside itself; name two operations, as in overlap=update,rollout."
        )
    go, done = len(graph.channels), len(graph.channels) + 1
    segments = [
        _split(
            graph,
            segment,
            (moved, beside),
            (go, done),
            locked,
        )
        for segment in graph.segments
    ]
    leader = graph.threads[graph.leader]
    return replace(
        graph,
        threads=[*graph.threads, Thread(leader.process, f"{change.moved} beside")],
        channels=[*graph.channels, "overlap: go", "overlap: done"],
        segments=segments,
    )


def _named(graph: Graph, name: str) -> set[str]:
    found = {*ALIASES.get(name, (name,))} & {key.operation for key in graph.keys}
    if not found:
        _refuse(name, "", {key.operation for key in graph.keys if key.operation})
    return found


def _split(
    graph: Graph,
    segment: Segment,
    sides: tuple[set[str], set[str]],
    channels: tuple[int, int],
    locked: tuple[str, ...],
) -> Segment:
    """A visit of the moved work lasts until work of the other side begins."""
    old = _locked(graph, segment.items[graph.leader], locked)
    side = np.array(
        [
            1 if k.operation in sides[0] else 2 if k.operation in sides[1] else 0
            for k in graph.keys
        ]
    )
    timed = np.isin(old.kinds, (RUN, RUN_GIL, DELAY))
    of_item = np.where(
        timed, side[np.where(timed, old.whats, 0)] if len(side) else 0, 0
    )
    if "" in sides[1]:
        of_item = _without_slivers(old, of_item)
    # What is neither goes along only from one piece of the moved work to the next; the end of an iteration stays.
    position = np.arange(len(old))
    before = np.maximum.accumulate(np.where(of_item > 0, position, -1))
    after = np.minimum.accumulate(np.where(of_item > 0, position, len(old))[::-1])[::-1]
    sided = np.concatenate([of_item, [0]])  # -1 and the end: neither
    away = (sided[before] == 1) & (sided[after] == 1) & (old.kinds != PASS)
    begins = _without_tails(old, away, away & ~np.concatenate([[False], away[:-1]]))
    where = np.flatnonzero(begins)
    stays = _with(old, ~away, where, [(TAKE, channels[1]), (GIVE, channels[0])])
    goes = _with(old, away, where, [(TAKE, channels[0])], [(GIVE, channels[1])])
    items = [*segment.items, goes]
    items[graph.leader] = stays
    held = segment.channels + [0.0] * (len(graph.channels) - len(segment.channels))
    return replace(segment, items=items, channels=[*held, 0.0, 1.0])


def _locked(graph: Graph, items: Items, layers: tuple[str, ...]) -> Items:
    """A process that had one busy thread has two now: they compete for the interpreter lock."""
    under = np.array([key.layer in layers for key in graph.keys])
    run = items.kinds == RUN
    locked = run & under[np.where(run, items.whats, 0)]
    return in_turns(np.where(locked, RUN_GIL, items.kinds), items.whats, items.amounts)


def _without_tails(
    old: Items, away: NDArray[np.bool_], begins: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Moved work that goes on for a moment after the end of an iteration is no visit of its own."""
    begins = begins.copy()
    stops = np.flatnonzero(~away)
    for at in np.flatnonzero(begins).tolist():
        after_pass = at > 1 and old.kinds[at - 1] == PASS and away[at - 2]
        end = (
            int(stops[min(np.searchsorted(stops, at), len(stops) - 1)])
            if len(stops)
            else 0
        )
        if after_pass and end > at and old.kinds[end] != PASS:
            begins[at] = False
    return begins


def _without_slivers(old: Items, side: NDArray[Any]) -> NDArray[Any]:
    """Work without a name is the other side only where something couples threads, or an iteration ends: between two
    minibatches it is a part of the update."""
    gap = np.cumsum(side == 1)
    coupled = np.bincount(gap, np.isin(old.kinds, (GIVE, TAKE, PEEK, PASS)))
    return np.where((side == 2) & (coupled[gap] == 0), 0, side)


def _with(
    old: Items,
    keep: NDArray[np.bool_],
    where: NDArray[np.intp],
    before: list[tuple[int, int]],
    after: Sequence[tuple[int, int]] = (),
) -> Items:
    """Some items, with couplings at the start of each visit, and after it (before the next, and at the end)."""
    ends = np.append(where[1:], len(old)) if len(where) else where
    added = []
    for at in where.tolist():
        added += [(at, rank, *one) for rank, one in enumerate(before)]
    for at in ends.tolist():
        added += [(at, rank - len(after), *one) for rank, one in enumerate(after)]
    place = np.concatenate(
        [
            np.flatnonzero(keep) * 16.0 + 8,
            [at * 16.0 + 2 + rank for at, rank, *_ in added],
        ]
    )
    order = np.argsort(place, kind="stable")
    kinds = np.concatenate([old.kinds[keep], [one[2] for one in added]])
    whats = np.concatenate([old.whats[keep], [one[3] for one in added]])
    amounts = np.concatenate([old.amounts[keep], np.ones(len(added))])
    return Items(
        kinds[order].astype(np.uint8), whats[order].astype(np.uint32), amounts[order]
    )
