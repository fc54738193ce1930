"""What every reader of a foreign trace produces: the columns of one process, before they become a run.

Readers know a foreign format and nothing of ours; `build` knows ours and nothing of theirs. Names are numbers
in a list of texts that all processes of a file share. Times are nanoseconds since the epoch, or of the file's
own clock where it tells no epoch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _imports
from cutaway.trace.format import DEVICE_DTYPE
from cutaway.vocabulary import DeviceKind

Ints = NDArray[np.int64]
Columns = dict[str, Ints]

MISSING: int = _imports.MISSING  # in a column of a reader: the record did not say
LAST_TIME = 1 << 62  # times beyond this, or below 0, are no times


class Item:
    """What a host event is; the numbers of `Item` in native/imports/nest.h."""

    CALL = 0
    OPERATION = 1
    FRAME = 2
    API = 3
    ITERATION = 4


@dataclass
class HostEvents:
    """Events of the threads of one process, in any order, one entry each. `correlation` is for API calls."""

    thread: Ints
    item: NDArray[np.uint8]
    name: Ints
    start: Ints
    end: Ints
    correlation: Ints

    @staticmethod
    def of(thread: Ints, item: int, name: Ints, start: Ints, end: Ints, correlation: Any = 0) -> HostEvents:
        """Events that are all the same; what the file did not say of their correlation is 0."""
        items = np.full(len(start), item, np.uint8)
        return HostEvents(thread, items, name, start, end, or_zero(np.broadcast_to(correlation, start.shape)))

    @staticmethod
    def join(parts: list[HostEvents]) -> HostEvents:
        """One table from several."""
        if not parts:
            empty = np.zeros(0, np.int64)
            return HostEvents(empty, empty.astype(np.uint8), empty, empty, empty, empty)
        names = (f.name for f in fields(HostEvents))
        return HostEvents(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def where(self, rows: NDArray[np.bool_]) -> HostEvents:
        return HostEvents(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass
class Recorded:
    """One process of a foreign trace."""

    pid: int
    name: str
    texts: list[str]
    host: HostEvents
    device: NDArray[np.void]
    threads: dict[int, str] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    call_layer: str = "backend"
    losses: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    operators: list[dict[str, Any]] = field(default_factory=list)  # log "operator"


Mapping = dict[str, str | tuple[str, ...]]
"""Fields of a device record, and the columns of a foreign table they come from: one, or three for a shape."""


def mapped_columns(mapping: Mapping) -> tuple[str, ...]:
    return tuple(
        name for names in mapping.values() for name in ((names,) if isinstance(names, str) else names)
    )


def device_records(
    texts: list[str], start: Ints, end: Ints, rows: Columns, mapping: Mapping, **columns: Any
) -> NDArray[np.void]:
    """Device records from rows, and from columns of int64 or one number for all; what is missing or does not fit becomes 0. A
    kernel of a communication library is a collective."""
    found = {
        field: rows[names] if isinstance(names, str) else np.stack([rows[name] for name in names], axis=1)
        for field, names in mapping.items()
    }
    out = np.zeros(len(start), DEVICE_DTYPE)
    for name, column in {"start": start, "end": end, **found, **columns}.items():
        values = np.asarray(column)
        top = min(np.iinfo(DEVICE_DTYPE[name].base).max, np.iinfo(np.int64).max)
        out[name] = np.where((values < 0) | (values > top), 0, values)
    collective = np.array([bool(_COLLECTIVE.search(text)) for text in texts], bool)
    out["kind"][(out["kind"] == DeviceKind.KERNEL) & collective[out["name"]]] = DeviceKind.COLLECTIVE
    return out


_COLLECTIVE = re.compile(r"[nr]ccl", re.IGNORECASE)


def or_zero(column: Ints) -> Ints:
    return np.where(column == MISSING, 0, column)


def translate(column: Ints, table: dict[int, int]) -> Ints:
    """Each number by what a table says of it; 0 where it says nothing."""
    distinct, where = np.unique(column, return_inverse=True)
    return np.array([table.get(i, 0) for i in distinct.tolist()], np.int64)[where]


class Clock:
    """Places rows with a start and an end in time, and counts those that cannot be placed."""

    def __init__(self, epoch: int = 0, start: str = "start", end: str = "end") -> None:
        self.epoch, self.start, self.end = epoch, start, end
        self.negative = self.unusable = 0

    def place(self, table: Columns) -> tuple[Columns, Ints, Ints]:
        """The rows with a usable time, their starts and ends."""
        start, stop = table[self.start], table[self.end]
        known = (start >= 0) & (stop >= 0) & (start < LAST_TIME - self.epoch)
        duration = np.where(known, stop - np.where(known, start, 0), MISSING)
        fine, end, negative = clip_times(np.where(known, start + self.epoch, MISSING), duration)
        self.negative += negative
        self.unusable += int((~fine).sum())
        return {name: column[fine] for name, column in table.items()}, start[fine] + self.epoch, end[fine]

    def tell(self, process: Recorded) -> None:
        """Says in a process what was wrong with the times of its file."""
        if self.unusable:
            process.losses["events without a usable time"] = self.unusable
        if self.negative:
            process.notes.append(f"{self.negative} events had a negative duration, which was set to 0")


def clip_times(start: Ints, duration: Ints) -> tuple[NDArray[np.bool_], Ints, int]:
    """Which events have a usable time, their ends, and how many had a negative duration (made length 0)."""
    fine = (start >= 0) & (start < LAST_TIME) & (duration != MISSING) & (duration < LAST_TIME)
    negative = fine & (duration < 0)
    end = np.where(fine, start + np.where(fine & ~negative, duration, 0), start)
    return fine, end, int(negative.sum())


def union_ns(start: Ints, end: Ints) -> int:
    """Length of the union of half-open intervals."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    gaps = np.maximum(start[1:] - end[:-1], 0)
    return int(end[-1] - start[0] - gaps.sum())
