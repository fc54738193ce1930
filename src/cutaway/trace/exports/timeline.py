"""A run as tracks of slices, block by block: what every export that draws time is made from.

A thread has one track for its operations and calls, one for its accelerator API calls if it made any, and a
process one for each stream of a device. On a track slices nest. Memory holds one block of a thread, and the
device records of one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.format import Structured, nested_order
from cutaway.trace.reader import ProcessTrace, Trace
from cutaway.vocabulary import ACCELERATOR_API, DEVICE_LAYERS, OPERATIONS, Kind

BEGIN = 1
END = 2
INSTANT = 3

RL_NAMES = {name: rl for name, (_, rl, _) in OPERATIONS.items() if rl}
"""OpenTelemetry's proposed names for built-in operations; written beside ours."""

_CALL = 1 << 24  # labels from here on are calls; below, names
_ITERATION = (1 << 25) - 1

_CLOSING = {Kind.ENTER: Kind.EXIT, Kind.OP_ENTER: Kind.OP_EXIT}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
_PAUSES = (Kind.PAUSE, Kind.RESUME)
_DRAWN = (Kind.CALL, Kind.ITERATION, *_CLOSING, *_OPENING, *_PAUSES)

Ints = NDArray[np.int64]


def origin(trace: Trace) -> int:
    """A whole second shortly before the run: viewers that keep times as floating-point numbers need small
    ones."""
    starts = [int(p.log.process.get("t") or 0) for p in trace.processes]
    return max(0, min(starts, default=0) // 1_000_000_000 - 1) * 1_000_000_000


class Slices(NamedTuple):
    """A stretch of one track, in order of time: what begins or ends, and when.

    A flow ties a launch to its work: `flow` is the first number of a slice, `fan` how many follow each other; 0 means none.
    """

    time: Ints
    type: NDArray[np.uint8]
    label: Ints
    flow: Ints
    fan: Ints


@dataclass
class Track:
    """A row of a timeline. `kind` is thread, api or device."""

    kind: str
    tid: int
    title: str
    blocks: Iterator[Slices]


class Process:
    """One process of a run with its tracks. `flows` is how many flows there were up to here."""

    def __init__(self, trace: ProcessTrace, flows: int) -> None:
        self.trace = trace
        self.flows = flows
        self.pid = trace.pid
        about = trace.log.process
        name = str(about.get("name") or f"process {self.pid}")
        role = str(about.get("role") or "")
        if role and role != name:
            self.name = f"{name} ({role})"
        else:
            self.name = name

    def text(self, label: int) -> str:
        """What a slice with this label is called."""
        if label == _ITERATION:
            return "iteration"
        if label >= _CALL:
            return self.trace.log.call(label - _CALL).fn or f"call {label - _CALL}"
        return self.trace.log.name(label) or "(none)"

    def category(self, label: int, kind: str) -> str:
        """Layer of a call; `operation` and its OpenTelemetry name for an operation."""
        if kind != "thread":
            if kind == "api":
                return ACCELERATOR_API
            return "device"
        if label >= _CALL:
            layer = self.trace.log.call(label - _CALL).layer
            if layer and label != _ITERATION:
                return layer
            return "iteration"
        name = RL_NAMES.get(self.text(label))
        if name:
            return f"operation,{name}"
        return "operation"

    def tracks(self) -> Iterator[Track]:
        """All tracks; the blocks of one must be read before the next track is taken."""
        yield from self._threads()
        api = self.trace.api()
        work = self.trace.device()
        work = work[np.isin(work["kind"], list(DEVICE_LAYERS))]
        first, count, of = _flows(api, work, self.flows)
        tied = (of > 0).astype(np.int64)
        self.flows += int(tied.sum())
        yield from self._api_tracks(api, first, count)
        yield from self._streams(work, of, tied)

    def _threads(self) -> Iterator[Track]:
        for id in sorted(self.trace.threads):
            info = self.trace.log.threads.get(id)
            tid = info.tid if info else id
            name = info.name if info else ""
            blocks = map(_expand, _cut_at_pauses(self.trace.events(id, kinds=_DRAWN)))
            yield Track("thread", tid, name or f"thread {tid}", blocks)

    def _api_tracks(self, api: Structured, first: Ints, count: Ints) -> Iterator[Track]:
        for tid in np.unique(api["os_thread"]).tolist():
            name = self._thread_name(tid)
            for lane, rows in _lanes(api, api["os_thread"] == tid, nested=True):
                title = f"{name}: accelerator API{lane}"
                spans = _spans(api, rows, first[rows], count[rows])
                yield Track("api", tid, title, spans)

    def _streams(self, work: Structured, of: Ints, tied: Ints) -> Iterator[Track]:
        for device, stream in np.unique(work[["device", "stream"]]).tolist():
            name = self._device_name(device)
            own = (work["device"] == device) & (work["stream"] == stream)
            for lane, rows in _lanes(work, own, nested=False):
                title = f"{name}, stream {stream}{lane}"
                spans = _spans(work, rows, of[rows], tied[rows])
                yield Track("device", stream, title, spans)

    def _thread_name(self, tid: int) -> str:
        """Of the first thread with this number; the number if it has none."""
        for thread in self.trace.log.threads.values():
            if thread.tid == tid:
                return thread.name or str(tid)
        return str(tid)

    def _device_name(self, device: int) -> str:
        for about in self.trace.log.devices:
            if about.get("id") == device and about.get("name"):
                return f"device {device} ({about['name']})"
        return f"device {device}"


def processes(trace: Trace) -> Iterator[Process]:
    """All processes of a run, to be drawn one after the other: flows are numbered through the whole run."""
    flows = 0
    for one in trace.processes:
        process = Process(one, flows)
        yield process
        flows = process.flows


def _cut_at_pauses(blocks: Iterator[Structured]) -> Iterator[Structured]:
    """While recording is paused nothing is drawn: what is open ends where a pause begins, and what is still open begins again
    where it ends."""
    open: list[tuple[int, int]] = []  # kind and id of what was entered
    paused = False
    for events in blocks:
        shown = np.ones(len(events), bool)
        places: list[int] = []
        added: list[Structured] = []
        nesting = np.flatnonzero(~np.isin(events["kind"], (Kind.CALL, Kind.ITERATION)))
        kinds = events["kind"][nesting].tolist()
        ids = events["id"][nesting].tolist()
        for at, kind, id in zip(nesting.tolist(), kinds, ids, strict=True):
            shown[at] = not paused and kind not in _PAUSES
            if kind in _CLOSING:
                open.append((kind, id))
            elif kind in _OPENING:
                _close(open, (_OPENING[kind], id))
            elif paused != (kind == Kind.PAUSE):
                paused = not paused
                edge = _edge(events[at], open, closing=paused)
                added.append(edge)
                places += [at] * len(edge)
        if places:
            shown = np.insert(shown, places, True)
            events = np.insert(events, places, np.concatenate(added))
        if shown.any():
            yield events[shown]


def _close(open: list[tuple[int, int]], entered: tuple[int, int]) -> None:
    """Take the last one that was entered like this away."""
    for at in range(len(open) - 1, -1, -1):
        if open[at] == entered:
            del open[at]
            return


def _edge(pause: Structured, open: list[tuple[int, int]], closing: bool) -> Structured:
    """Events at one edge of a pause: all that is open ends, the innermost first, or begins again."""
    out = np.repeat(pause.reshape(1), len(open))
    for row, (kind, id) in zip(out, reversed(open) if closing else open, strict=True):
        row["kind"], row["id"] = _CLOSING[kind] if closing else kind, id
    return out


def _expand(events: Structured) -> Slices:
    """Events as beginnings and ends; a Call is both."""
    kind = events["kind"]
    call = kind == Kind.CALL
    mark = kind == Kind.ITERATION
    closes = (kind == Kind.EXIT) | (kind == Kind.OP_EXIT)
    named = (kind == Kind.OP_ENTER) | (kind == Kind.OP_EXIT)
    type = np.where(closes, END, np.where(mark, INSTANT, BEGIN)).astype(np.uint8)
    label = np.where(
        mark, _ITERATION, events["id"].astype(np.int64) + np.where(named, 0, _CALL)
    )
    row = np.repeat(np.arange(len(events)), 1 + call)
    second = np.append(False, row[1:] == row[:-1])
    time = np.where(second, events["end"][row], events["time"][row])
    none = np.zeros(len(row), np.int64)
    return Slices(
        time, np.where(second, END, type[row]).astype(np.uint8), label[row], none, none
    )


def _flows(api: Structured, work: Structured, before: int) -> tuple[Ints, Ints, Ints]:
    """Ties work to its launch: for each API call its first flow and how many, for each work its own. One call may own much work (a
    graph launch): its flows are consecutive. They follow `before`."""
    first, count, of = (np.zeros(n, np.int64) for n in (len(api), len(api), len(work)))
    known, at_call = np.unique(api["correlation"], return_index=True)
    if len(known):
        at = np.minimum(np.searchsorted(known, work["correlation"]), len(known) - 1)
        found = np.flatnonzero(
            (known[at] == work["correlation"]) & (work["correlation"] != 0)
        )
        found = found[np.argsort(at_call[at[found]], kind="stable")]
        of[found] = before + np.arange(1, len(found) + 1)
        calls, begin, owned = np.unique(
            at_call[at[found]], return_index=True, return_counts=True
        )
        first[calls], count[calls] = before + begin + 1, owned
    return first, count, of


def _lanes(
    records: Structured, own: NDArray[np.bool_], *, nested: bool
) -> Iterator[tuple[str, Ints]]:
    """Splits intervals so that within a lane they nest (or, if not `nested`, do not overlap at all): the end of each title, the rows."""
    rows = np.flatnonzero(own)
    rows = rows[
        np.lexsort((-records["end"][rows].astype(np.int64), records["start"][rows]))
    ]
    start, end = (records[name][rows].astype(np.int64) for name in ("start", "end"))
    if not nested and not (start[1:] < np.maximum.accumulate(end)[:-1]).any():
        yield "", rows
        return
    lanes: list[
        tuple[list[int], list[int]]
    ] = []  # members and the ends of those still open
    for i, (begins, ends) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        lane = next(
            (lane for lane in lanes if _fits(lane[1], begins, ends, nested)), None
        )
        if lane is None:
            lanes.append(lane := ([], []))
        lane[0].append(i)
        lane[1].append(ends)
    for number, (members, _) in enumerate(lanes):
        yield f" (overlapping {number})" if number else "", rows[members]


def _fits(pending: list[int], start: int, end: int, nested: bool) -> bool:
    while pending and pending[-1] <= start:
        pending.pop()
    return not pending or (nested and end <= pending[-1])


def _spans(records: Structured, rows: Ints, flow: Ints, fan: Ints) -> Iterator[Slices]:
    """Intervals that nest as slices; flows stand at the beginnings."""
    part = records[rows]
    start = part["start"].astype(np.int64)
    end = part["end"].astype(np.int64)
    order = nested_order(start, end)
    begins = order < len(rows)
    index = order % len(rows)
    type = np.where(begins, BEGIN, END).astype(np.uint8)
    flows = (np.where(begins, column[index], 0) for column in (flow, fan))
    yield Slices(
        np.concatenate([start, end])[order],
        type,
        part["name"][index].astype(np.int64),
        *flows,
    )
