"""The sweep as an executable specification: slow, short, and by definition instead of by increments.

A thread is a list of (time, value, kind, id), in order; API calls are (start, end, thread, sync); device work is
(start, end, stream); `launched` names the streams of each thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from cutaway.vocabulary import Kind

Records = Sequence[tuple[int, int, int, int]]
Cell = tuple[
    int, int, int, str, str, str
]  # thread, phase, operation, layer, resource, and by process


def overlap(
    intervals: Mapping[str, Iterable[tuple[int, int]]],
) -> dict[frozenset[str], int]:
    """Between neighbouring boundaries the set of active categories is constant."""
    spans = {name: list(pairs) for name, pairs in intervals.items()}
    edges = sorted({t for pairs in spans.values() for pair in pairs for t in pair})
    out: Counter[frozenset[str]] = Counter()
    for a, b in pairwise(edges):
        active = frozenset(
            name for name, pairs in spans.items() if any(s <= a < e for s, e in pairs)
        )
        if active:
            out[active] += b - a
    return dict(out)


def flatten(operations: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """At each instant the operation that started last, then the shortest, then the last given."""
    out: list[tuple[int, int, int]] = []
    edges = sorted({t for _, start, end in operations for t in (start, end)})
    for a, b in pairwise(edges):
        owner = max(
            ((s, -e, i) for i, (_, s, e) in enumerate(operations) if s <= a < e),
            default=(0, 0, -1),
        )[2]
        if out and out[-1][0] == owner and out[-1][2] == a:
            out[-1] = (owner, out[-1][1], b)
        elif owner >= 0:
            out.append((owner, a, b))
    return [(operations[i][0], a, b) for i, a, b in out]


class Span(NamedTuple):
    start: int
    end: int
    id: int


class Timeline(NamedTuple):
    """What the records of a thread say, as spans; later ones are further inside."""

    lives: list[Span]
    pauses: list[Span]
    phases: list[Span]
    operations: list[Span]
    calls: list[Span]
    transitions: Counter[
        tuple[int, str, int]
    ]  # operation, layer the call was made from, call


def timeline(records: Records, layers: Mapping[int, str]) -> Timeline:
    """Replays the records of one thread."""
    lives, pauses, phases = [], [], []
    done: dict[str, list[tuple[int, Span]]] = {"operation": [], "call": []}
    open: dict[str, list[tuple[int, int, int]]] = {
        "operation": [],
        "call": [],
    }  # number, start, id
    crossed: Counter[tuple[int, str, int]] = Counter()
    born = paused = None
    phase = (0, 0)

    def close(what: str, position: int, time: int) -> None:
        number, start, id = open[what].pop(position)
        done[what].append((number, Span(start, time, id)))

    def made(call: int) -> None:
        operation = open["operation"][-1][2] if open["operation"] else 0
        crossed[
            operation,
            layers.get(open["call"][-1][2], "python") if open["call"] else "python",
            call,
        ] += 1

    last = 0
    for number, (time, value, kind, id) in enumerate(records):
        last = time + value if kind == Kind.CALL else time
        if born is None and kind != Kind.END:
            born = time
        what = "operation" if kind in (Kind.OP_ENTER, Kind.OP_EXIT) else "call"
        if kind == Kind.CALL:
            made(id)
            done["call"].append((number, Span(time, last, id)))
        elif kind in (Kind.ENTER, Kind.OP_ENTER):
            if kind == Kind.ENTER:
                made(id)
            open[what].append((number, time, id))
        elif kind in (Kind.EXIT, Kind.OP_EXIT):
            found = [i for i, entry in enumerate(open[what]) if entry[2] == id]
            if found:
                close(what, found[-1], time)
        elif kind == Kind.PHASE:
            phases.append(Span(phase[0], time, phase[1]))
            phase = (time, id)
        elif kind == Kind.PAUSE and paused is None:
            paused = time
        elif kind == Kind.RESUME and paused is not None:
            pauses.append(Span(paused, time, 0))
            paused = None
        if born is not None and (kind == Kind.END or number == len(records) - 1):
            for what in ("operation", "call"):
                while open[what]:
                    close(what, -1, last)
            pauses += [Span(paused, last, 0)] if paused is not None else []
            lives.append(Span(born, last, 0))
            born = paused = None
    phases.append(Span(phase[0], 1 << 63, phase[1]))
    operations, calls = (
        [span for _, span in sorted(done[what])] for what in ("operation", "call")
    )
    return Timeline(lives, pauses, phases, operations, calls, crossed)


def cells(
    threads: Sequence[Records],
    layers: Mapping[int, str],
    api: Sequence[tuple[int, int, int, bool]] = (),
    work: Sequence[tuple[int, int, int]] = (),
    launched: Mapping[int, set[int]] | None = None,
) -> dict[Cell, int]:
    """Time of one process by thread, phase, operation, layer and resource."""
    out: Counter[Cell] = Counter()
    for key, a, b in _stretches(threads, layers, api, work, launched):
        out[key] += b - a
    return dict(out)


def lanes(
    bins: tuple[int, int, int], *process: Any
) -> dict[tuple[int, int, str, str, int], int]:
    """Time of one process by thread, operation, layer, resource and bin, of bins given by start, width and count."""
    start, width, count = bins
    out: Counter[tuple[int, int, str, str, int]] = Counter()
    for (thread, _, operation, layer, resource, _), a, b in _stretches(*process):
        for instant in range(a, b):
            if 0 <= instant - start < width * count:
                out[thread, operation, layer, resource, (instant - start) // width] += 1
    return dict(out)


def _stretches(
    threads: Sequence[Records],
    layers: Mapping[int, str],
    api: Sequence[tuple[int, int, int, bool]] = (),
    work: Sequence[tuple[int, int, int]] = (),
    launched: Mapping[int, set[int]] | None = None,
) -> Iterator[tuple[Cell, int, int]]:
    """Between neighbouring boundaries a thread is in one cell."""
    for index, records in enumerate(threads):
        line = timeline(records, layers)
        calls = [
            (start, end, sync) for start, end, thread, sync in api if thread == index
        ]
        own = [
            (s, e)
            for s, e, stream in work
            if stream in (launched or {}).get(index, set())
        ]
        spans = [
            *line.lives,
            *line.pauses,
            *line.phases,
            *line.operations,
            *line.calls,
            *calls,
            *work,
        ]
        for a, b in pairwise(sorted({t for span in spans for t in span[:2]})):
            syncs = [sync for start, end, sync in calls if start <= a < end]
            if _inner(line.pauses, a) or not (_inner(line.lives, a) or syncs):
                continue
            call, operation, phase = (
                _inner(s, a) for s in (line.calls, line.operations, line.phases)
            )
            layer = (
                "accelerator_api"
                if syncs
                else layers.get(call.id, "python")
                if call
                else "python"
            )
            blocked = any(syncs) if syncs else layer == "wait"
            idle, busy = ("idle", "gpu") if blocked else ("cpu", "cpu+gpu")
            mine, any_of_it = (
                busy if any(s <= a < e for s, e, *_ in x) else idle for x in (own, work)
            )
            ids = phase.id if phase else 0, operation.id if operation else 0
            key: Cell = (index, *ids, layer, mine, any_of_it)
            yield key, a, b


def _inner(spans: Sequence[Span], time: int) -> Span | None:
    """The innermost of the spans that hold this instant."""
    return next(
        (span for span in reversed(spans) if span.start <= time < span.end), None
    )
