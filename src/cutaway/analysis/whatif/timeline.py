"""One recorded thread: stretches of work and waits, and what it gave to others and took from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.graph import MESSAGE, Key
from cutaway.analysis.whatif.items import DELAY, GIVE, PASS, PEEK, RUN, TAKE
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace
from cutaway.vocabulary import THREAD_LAYERS, Kind

_WAIT = THREAD_LAYERS.index("wait")
_POLLS = ("select", "poll")
_WRITES = ("write", "send", "sendall", "sendto", "sendmsg")


@dataclass
class Names:
    """Numbers for keys and channels, of all threads."""

    keys: dict[Key, int] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=dict)

    def key(self, key: Key) -> int:
        return self.keys.setdefault(key, len(self.keys))

    def channel(self, name: str) -> int:
        return self.channels.setdefault(name, len(self.channels))


class Told(NamedTuple):
    """What a thread gives or takes, or the end of an iteration: one of the events of a timeline."""

    time: int
    code: int
    what: int
    amount: float
    place: int


@dataclass(frozen=True)
class Timeline:
    """One thread in the window: stretches of work and waits, and events, each with its place in the order of rows."""

    process: int
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    code: NDArray[
        np.uint8
    ]  # RUN, DELAY, TAKE (a wait that ends with something taken) or PEEK
    key: NDArray[np.int64]
    place: NDArray[np.int64]
    peeked: NDArray[np.int64]  # of a PEEK: the event it looks at
    layer: NDArray[np.uint8]
    call: NDArray[np.int64]  # which call a wait is; 0: what is left around others
    event_time: NDArray[np.int64]
    event_code: NDArray[np.uint8]
    event_what: NDArray[np.int64]
    event_amount: NDArray[np.float64]
    event_place: NDArray[np.int64]
    pauses: NDArray[np.int64]  # pairs

    def with_events(self, more: Sequence[Told]) -> Timeline:
        """With some more; at one place the old ones come first, then these in their order."""
        time, code, what, amount, place = zip(*more, strict=True)
        at = np.concatenate([self.event_place, np.array(place, np.int64)])
        order = np.argsort(at, kind="stable")
        return replace(
            self,
            event_time=np.append(self.event_time, time)[order],
            event_code=np.append(self.event_code, code)[order].astype(np.uint8),
            event_what=np.append(self.event_what, what)[order],
            event_amount=np.append(self.event_amount, amount)[order],
            event_place=at[order],
        )

    @property
    def busy(self) -> int:
        """Nanoseconds that were not waiting."""
        return int((self.stop - self.start)[self.code == RUN].sum())


def rows_of(trace: ProcessTrace, thread: int, first: int, last: int) -> fmt.Structured:
    found = []
    for block in trace.events(thread, since=first):
        found.append(block[block["time"] <= last])
        if len(block) and block["time"][-1] > last:
            break
    return np.concatenate(found) if found else np.zeros(0, fmt.EVENT_DTYPE)


def timeline(
    trace: ProcessTrace,
    process: int,
    thread: int,
    rows: fmt.Structured,
    names: Names,
    window: tuple[int, int],
) -> Timeline:
    time, end = rows["time"].astype(np.int64), rows["end"].astype(np.int64)
    following = np.append(time[1:], window[1] if rows["flags"][-1] & 1 else end[-1])
    n = len(rows)
    place = np.arange(n) * 3
    start = np.concatenate([time, end])
    stop = np.concatenate([end, np.maximum(following, end)])
    layer = np.concatenate([rows["layer"], rows["after"]])
    recorded = np.tile((rows["flags"] & 1).astype(bool), 2)
    operation = np.tile(rows["operation"], 2)
    row = np.tile(np.arange(n), 2)
    places = np.concatenate([place + 1, place + 2])
    keep = (stop > start) & recorded & (start < window[1]) & (stop > window[0])
    start, stop, layer, operation, row, places = (
        column[keep] for column in (start, stop, layer, operation, row, places)
    )
    code, peeked = _waits(trace, rows, row, layer)
    call = np.where((places % 3 == 1) & (layer == _WAIT), rows["id"][row], 0)
    key = _keys(names, trace, process, thread, operation, layer)
    key = _messages(names, key, (code == RUN) & (layer == _WAIT))
    events = _events(trace, rows, names)
    return Timeline(
        process,
        start,
        stop,
        code,
        key,
        places,
        peeked,
        layer,
        call.astype(np.int64),
        *events,
        pauses(rows, window),
    )


def _waits(
    trace: ProcessTrace, rows: fmt.Structured, row: NDArray[Any], layer: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """What becomes of each stretch, and for a poll the row of what was taken after it."""
    code = np.full(len(row), RUN, np.uint8)
    peeked = np.full(len(row), -1, np.int64)
    takes = np.flatnonzero(rows["kind"] == Kind.TAKE)
    waits = np.flatnonzero(layer == _WAIT)
    at = row[waits]
    nexts = np.minimum(at + 1, len(rows) - 1)
    taken = (rows["kind"][nexts] == Kind.TAKE) & (nexts > at)
    calls = {
        id: call.fn.rpartition(".")[2]
        for id, call in trace.log.calls.items()
        if call.layer == "wait"
    }
    function = np.array(
        [calls.get(id, "") for id in rows["id"][at].tolist()], dtype=object
    )
    is_poll, is_write = np.isin(function, _POLLS), np.isin(function, _WRITES)
    code[waits] = np.where(is_write, RUN, np.where(taken, TAKE, DELAY))
    position = np.searchsorted(takes, at + 1)
    found = is_poll & ~taken & (position < len(takes))
    then = (
        takes[np.minimum(position, max(len(takes) - 1, 0))]
        if len(takes)
        else np.zeros(len(at), np.int64)
    )
    soon = found & (then - at < 8)
    code[waits[soon]] = PEEK
    peeked[waits[soon]] = then[soon]
    return code, peeked


def _keys(
    names: Names,
    trace: ProcessTrace,
    process: int,
    thread: int,
    operation: NDArray[Any],
    layer: NDArray[Any],
) -> NDArray[np.int64]:
    both = operation.astype(np.int64) << 8 | layer
    distinct, inverse = np.unique(both, return_inverse=True)
    numbers = [
        names.key(
            Key(
                process, thread, trace.log.name(value >> 8), THREAD_LAYERS[value & 0xFF]
            )
        )
        for value in distinct.tolist()
    ]
    return np.array(numbers, np.int64)[inverse] if numbers else np.zeros(0, np.int64)


def _messages(
    names: Names, key: NDArray[np.int64], sent: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """To send something is work for others to go on with, and no wait."""
    known = [*names.keys]
    for number in np.unique(key[sent]).tolist():
        message = names.key(known[number]._replace(layer=MESSAGE))
        key = np.where(sent & (key == number), message, key)
    return key


def _events(
    trace: ProcessTrace, rows: fmt.Structured, names: Names
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Time, code, channel, amount and place of what couples this thread to others."""
    logged = {int(e["id"]): e for e in trace.log.others if e["k"] == "channel"}
    kinds = {Kind.FEED: GIVE, Kind.TAKE: TAKE, Kind.ITERATION: PASS}
    at = np.flatnonzero(np.isin(rows["kind"], list(kinds)))
    kind = rows["kind"][at]
    code = np.array([kinds[k] for k in kind.tolist()], np.uint8)
    distinct, inverse = np.unique(
        rows["id"][at].astype(np.int64) << 8 | kind, return_inverse=True
    )
    numbers = []
    for value in distinct.tolist():
        entry = logged.get(value >> 8, {})
        on = str(entry.get("on") or f"channel {value >> 8} of {trace.pid}")
        name = str(entry.get("peer") or on) if value & 0xFF == Kind.TAKE else on
        numbers.append(
            0
            if value & 0xFF == Kind.ITERATION
            else names.channel(f"{trace.host} {name}")
        )
    what = np.array(numbers, np.int64)[inverse] if numbers else np.zeros(0, np.int64)
    return (
        rows["time"][at].astype(np.int64),
        code,
        what,
        rows["value"][at].astype(np.float64),
        at * 3,
    )


def pauses(rows: fmt.Structured, window: tuple[int, int]) -> NDArray[np.int64]:
    """Begin and end of each pause; one that reaches beyond the window lasts to its edge."""
    begins = rows["time"][rows["kind"] == Kind.PAUSE].astype(np.int64)
    ends = rows["time"][rows["kind"] == Kind.RESUME].astype(np.int64)
    if len(ends) and (not len(begins) or ends[0] < begins[0]):
        begins = np.concatenate([[window[0]], begins])
    if len(begins) > len(ends):
        ends = np.concatenate([ends, [window[1]]])
    return np.stack([begins, ends], axis=1)
