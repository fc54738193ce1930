"""The critical path of a stretch of a run: from its end back to whoever was waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutaway.analysis.whatif.build import read
from cutaway.analysis.whatif.couplings import Endings, endings
from cutaway.analysis.whatif.items import PEEK, TAKE
from cutaway.analysis.whatif.timeline import Names, Timeline

if TYPE_CHECKING:
    from cutaway.analysis.run import Run


@dataclass(frozen=True)
class Piece:
    """The path lies on a thread (its process and tid) for a while, in nanoseconds of the run's clock."""

    process: int
    tid: int
    start: int
    stop: int


@dataclass(frozen=True)
class Path:
    """Pieces, the first one first, and nanoseconds on the path by process and operation, the most first."""

    pieces: list[Piece]
    spent: list[tuple[int, str, int]]


def critical_path(run: Run, window: tuple[int, int]) -> Path | None:
    """What the leading thread did or waited for in a window; None: nobody ends two iterations in it, or it waits for nobody."""
    table = run.iterations()
    if not len(table):
        return None
    process = int(np.bincount(table["process"].astype(np.int64)).argmax())
    # A wait that lasts beyond the window is on the path of whoever ends it, so the walk begins at the next end of an iteration.
    marks = table.where(process=process)["start_ns"].astype(np.int64)
    after = marks[(marks >= window[1]) & (marks < 2 * window[1] - window[0])]
    wider = (window[0], int(after[0]) if len(after) else window[1])
    found = read(run, process, wider)
    if found.leader < 0 or len(found.timelines) < 2:
        return None
    whole = walk(endings(found.timelines, (TAKE, PEEK)), found.leader, wider)
    walked = [
        (who, start, min(stop, window[1]))
        for who, start, stop in whole
        if start < window[1]
    ]
    if len(walked) < 2:
        return None
    pieces = [Piece(*found.ids[thread], start, stop) for thread, start, stop in walked]
    return Path(pieces, _spent(walked, found.timelines, found.names))


def walk(
    ended: Sequence[Endings], leader: int, window: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Thread, start and stop of each piece. A wait that somebody ended leads to that thread, at the moment when it gave what was waited
    for; waking up belongs to who waited."""
    begin, at = window
    thread = leader
    pieces: list[tuple[int, int, int]] = []
    while at > begin:
        own = ended[thread]
        last = int(np.searchsorted(own.stop, at, "right")) - 1
        while last >= 0 and own.moment[last] >= at:
            last -= 1
        since = max(begin, int(own.moment[last])) if last >= 0 else begin
        pieces.append((thread, since, at))
        at = since
        thread = int(own.giver[last]) if last >= 0 else thread
    return pieces[::-1]


def _spent(
    walked: list[tuple[int, int, int]], timelines: list[Timeline], names: Names
) -> list[tuple[int, str, int]]:
    keys = list(names.keys)
    totals = np.zeros(len(keys))
    orders = [np.argsort(line.start, kind="stable") for line in timelines]
    for thread, start, stop in walked:
        line = timelines[thread]
        order = orders[thread]
        first, last = np.searchsorted(line.start, [start, stop], sorter=order)
        hit = order[max(0, int(first) - 1) : int(last)]
        length = np.minimum(line.stop[hit], stop) - np.maximum(line.start[hit], start)
        totals += np.bincount(line.key[hit], np.maximum(length, 0), len(keys))
    found: dict[tuple[int, str], int] = {}
    for key, ns in zip(keys, totals.tolist(), strict=True):
        place = (key.process, key.operation)
        found[place] = found.get(place, 0) + round(ns)
    rows = [
        (process, operation, ns) for (process, operation), ns in found.items() if ns
    ]
    return sorted(rows, key=lambda row: -row[2])
