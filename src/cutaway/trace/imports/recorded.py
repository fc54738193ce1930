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

Ints = NDArray[np.int64]

MISSING: int = _imports.MISSING
"""In a column of a reader: the record did not say."""

LAST_TIME = 1 << 62
"""Times beyond this, or below 0, are no times."""


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
    def join(parts: list[HostEvents]) -> HostEvents:
        """One table from several."""
        if not parts:
            empty = np.zeros(0, np.int64)
            return HostEvents(empty, empty.astype(np.uint8), empty, empty, empty, empty)
        names = (f.name for f in fields(HostEvents))
        return HostEvents(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def where(self, rows: NDArray[np.bool_]) -> HostEvents:
        """Some of the events."""
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


def device_records(size: int, **columns: Any) -> NDArray[np.void]:
    """Device records from columns of int64; what is missing or does not fit becomes 0."""
    out = np.zeros(size, DEVICE_DTYPE)
    for name, values in columns.items():
        field_type = DEVICE_DTYPE[name]
        values = np.asarray(values)
        if field_type.subdtype is None and values.dtype.kind == "i":
            top = min(np.iinfo(field_type).max, np.iinfo(np.int64).max)
            values = np.where((values < 0) | (values > top), 0, values)
        out[name] = values
    return out


_COLLECTIVE = re.compile(r"[nr]ccl", re.IGNORECASE)


def collectives(texts: list[str]) -> NDArray[np.bool_]:
    """Which names are kernels of a communication library."""
    return np.array([bool(_COLLECTIVE.search(text)) for text in texts], bool)


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
