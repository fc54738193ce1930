"""Changes as people write them, and what they do to a graph.

`NAME=2x` makes something twice as fast, `NAME=0` takes it away; NAME is an operation, a layer, a function or FILE:LINE.
`cores=N` is another machine. `overlap=A,B` lets A run beside B, one pass behind or ahead.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.graph import (
    DELAY,
    GIL_LAYERS,
    GIVE,
    PASS,
    PEEK,
    RUN,
    RUN_GIL,
    TAKE,
    Graph,
    Items,
    Key,
    Segment,
    Thread,
    in_turns,
)
from cutaway.errors import CutawayError
from cutaway.vocabulary import THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

ALIASES = {"update": ("backpropagation",), "rollout": ("simulation", "inference")}
_LATER = ("envs", "workers", "actors", "threads", "batch", "gpu")


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
class Overlap:
    """`moved` runs in a thread of its own, while the thread it ran in goes on with `beside` (empty: anything else)."""

    moved: str
    beside: str = ""


Change = Faster | Cores | Overlap


def parse(word: str) -> list[Change]:
    """The change a word of the command line means; several for a list of numbers of cores.

    >>> parse("simulation=2x"), parse("train.py:226=0")
    ([Faster(name='simulation', times=2.0)], [Faster(name='train.py:226', times=inf)])
    """
    name, equals, value = word.rpartition("=")
    if not equals or not name or not value:
        raise CutawayError(
            f"{word!r} is no change; write NAME=2x, NAME=0, cores=N or overlap=A,B."
        )
    if name == "cores":
        return [Cores(_count(word, one)) for one in value.split(",")]
    if name == "overlap":
        moved, _, beside = value.partition(",")
        return [Overlap(moved, beside)]
    if name in _LATER:
        raise CutawayError(
            f"One recording does not tell what {name} would change; make a second, short recording and use cutaway diff."
        )
    return [Faster(name, _times(word, value))]


def _count(word: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise CutawayError(f"{word!r}: the number of cores is between 1 and 1024.")
    return int(text)


def _times(word: str, value: str) -> float:
    if value in ("0", "free"):
        return math.inf
    try:
        times = float(value.removesuffix("x"))
    except ValueError:
        times = -1.0
    if not value.endswith("x") or not 0 < times < math.inf:
        raise CutawayError(
            f"{word!r}: write 2x for twice as fast, 0.5x for half as fast, 0 for free."
        )
    return times


def apply(
    run: Run, graph: Graph, changes: Sequence[Change]
) -> tuple[Graph, NDArray[np.float64], list[str]]:
    """The changed graph, the factor of each key's time, and what had to be assumed."""
    factors = np.ones(len(graph.keys))
    assumed: list[str] = []
    for change in changes:
        if isinstance(change, Faster):
            factors *= 1 - shares(run, graph, change.name) * (1 - 1 / change.times)
        elif isinstance(change, Cores):
            graph = replace(graph, cores=change.count)
            assumed.append("cores that are as fast as those it was recorded on")
        else:
            graph = _overlapped(graph, change)
            assumed.append(
                f"{change.moved} works with what is one pass old, in a thread of the same process"
            )
    return graph, factors, assumed


def shares(run: Run, graph: Graph, name: str) -> NDArray[np.float64]:
    """How much of the time of each key is meant by a name."""
    operations = {key.operation for key in graph.keys if key.operation}
    meant = ALIASES.get(name, (name,))
    if operations & {*meant}:
        return np.array([float(key.operation in meant) for key in graph.keys])
    if name in THREAD_LAYERS:
        return np.array([float(key.layer == name) for key in graph.keys])
    return _sampled_shares(run, graph, name, operations)


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
    near = difflib.get_close_matches(name, [*known, *THREAD_LAYERS], 1)
    hint = (
        f"did you mean {near[0]}?"
        if near
        else f"operations are: {', '.join(known) or 'none'}."
    )
    raise CutawayError(
        f"There is no operation, layer or function {name!r} in this run; {hint}"
    )


def _overlapped(graph: Graph, change: Overlap) -> Graph:
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
    go, done = len(graph.channels), len(graph.channels) + 1
    segments = [
        _split(graph, segment, (moved, beside), (go, done))
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
) -> Segment:
    """A visit of the moved work lasts until work of the other side begins."""
    old = _locked(graph, segment.items[graph.leader])
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


def _locked(graph: Graph, items: Items) -> Items:
    """A process that had one busy thread has two now: they compete for the interpreter lock."""
    under = np.array([key.layer in GIL_LAYERS for key in graph.keys])
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
    added = [
        (at, rank, *one) for at in where.tolist() for rank, one in enumerate(before)
    ]
    added += [
        (at, rank - len(after), *one)
        for at in ends.tolist()
        for rank, one in enumerate(after)
    ]
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
