"""Lanes over time for the page: for every row and bin, the share each (operation, layer) had of it.

Two windows are kept: the whole run, and one stretch of its steady state in detail. A window's bins are halved until
it fits the space a page has for it, so 500 processes make a page as small as one.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.trace import format as fmt
from cutaway.trace.format import Kind
from cutaway.trace.reader import ProcessTrace

from .timeline import LAYER_BITS, NOT_ALIVE, Ints, ThreadState, nanoseconds

FULL = 60  # a bin that belongs to one state entirely; small, so that it packs well
MOST_BINS = 4096
LEAST_BINS = 64
WINDOW_BYTES = 330_000  # of base64 in the page, for each window

MOST_OPERATIONS = 12
OTHER = "(other)"

Plane = tuple[str, str]  # operation, layer


@dataclass
class Window:
    """A stretch of time cut into bins; `rows[i][plane]` is the time of a state in each bin."""

    start: int
    stop: int
    bins: int
    rows: list[dict[Plane, NDArray[np.float64]]] = field(default_factory=list)

    @property
    def bin_ns(self) -> float:
        """Length of a bin."""
        return max(1, self.stop - self.start) / self.bins

    def add(self, row: int, time: Ints, state: Ints, names: dict[int, Plane]) -> None:
        """Add time[i] … time[i + 1] in state[i] to a row, for all i but the last."""
        while len(self.rows) <= row:
            self.rows.append({})
        bins, states, lengths = cut(time, state, self.start, self.bin_ns, self.bins)
        for code in np.unique(states).tolist():
            if code == NOT_ALIVE:
                continue
            chosen = states == code
            total = np.bincount(bins[chosen], lengths[chosen], self.bins).astype(float)
            plane = names[code]
            known = self.rows[row].get(plane)
            self.rows[row][plane] = total if known is None else known + total

    def halve(self) -> None:
        """Join neighbouring bins."""
        self.bins //= 2
        for row in self.rows:
            for plane, total in row.items():
                row[plane] = total.reshape(-1, 2).sum(axis=1)

    def packed(self, planes: list[Plane]) -> str:
        """Bytes row × plane × bin, deflated, as base64; no bin gets more than FULL of all planes together."""
        out = np.zeros((len(self.rows), len(planes), self.bins), np.uint8)
        for i, row in enumerate(self.rows):
            total = np.sum(list(row.values()), axis=0) if row else np.zeros(self.bins)
            scale = FULL / np.maximum(total, self.bin_ns)
            for j, plane in enumerate(planes):
                if plane in row:
                    out[i, j] = np.rint(row[plane] * scale)
        return base64.b64encode(zlib.compress(out.tobytes(), 6)).decode()


def cut(
    time: Ints, state: Ints, start: int, bin_ns: float, bins: int
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Pieces of the stretches time[i] … time[i + 1], none of which crosses a bin: (bin, state, length) of each."""
    stop = start + bin_ns * bins
    if len(time) < 2 or time[-1] <= start or time[0] >= stop:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    edges = start + bin_ns * np.arange(bins + 1)
    inner = edges[(edges > time[0]) & (edges < time[-1])]
    cuts = np.sort(np.concatenate([time.astype(float), inner]))
    lengths, middles = np.diff(cuts), (cuts[1:] + cuts[:-1]) / 2
    inside = (lengths > 0) & (middles > start) & (middles < stop)
    lengths, middles = lengths[inside], middles[inside]
    states = state[np.searchsorted(time, middles, "right") - 1]
    return np.minimum(((middles - start) / bin_ns).astype(np.int64), bins - 1), states, lengths


class LaneBuilder:
    """Collects rows into windows."""

    def __init__(self, start: int, stop: int, detail: tuple[int, int] | None, rows: int) -> None:
        bins = MOST_BINS
        while bins > 256 and bins * rows > 100_000:
            bins //= 2
        self.origin = start
        self.windows = [Window(start, stop, bins)]
        if detail is not None:
            self.windows.append(Window(*detail, bins))
        self.names: list[str] = []

    def add_thread(self, name: str, process: ProcessTrace, thread: int) -> None:
        """One row: everything a thread did."""
        row = self._row(name)
        state = ThreadState(process.log)
        last: tuple[int, int] | None = None
        sources = process.threads.get(thread, ())
        for source, records in zip(sources, process.records(thread), strict=False):
            records = records[records["time"] != 0]
            if not len(records):
                continue
            start, end = block_times(process, records, int(source["clock"]))
            time, states = state.read(records, start, end)
            if last is not None:
                time, states = np.concatenate([[last[0]], time]), np.concatenate([[last[1]], states])
            last = int(time[-1]), int(states[-1])
            self._add(row, time, states, process)

    def add_device(self, name: str, work: Any, operation: Ints, names: list[str]) -> None:
        """One row: what a device did, by the operation that launched it (positions in `names`)."""
        row = self._row(name)
        start, end, kinds = work["start"].astype(np.int64), work["end"].astype(np.int64), work["kind"]
        for code in np.unique(operation).tolist():
            for kind, layer in fmt.DEVICE_LAYERS.items():
                mine = (operation == code) & (kinds == kind)
                time, state = _busy(start[mine], end[mine], code)
                for window in self.windows:
                    window.add(row, time, state, {code: (names[code], layer)})

    def packed(self) -> dict[str, Any]:
        """The lanes as the page wants them; times in seconds since the start of the run."""
        self._fold()
        planes = sorted(
            {plane for w in self.windows for row in w.rows for plane in row},
            key=lambda p: (p[1] == "wait", p),
        )
        windows = []
        for window in self.windows:
            data = window.packed(planes)
            while len(data) > WINDOW_BYTES and window.bins > LEAST_BINS:
                window.halve()
                data = window.packed(planes)
            seconds = [(t - self.origin) / 1e9 for t in (window.start, window.stop)]
            windows.append({"from": seconds[0], "to": seconds[1], "bins": window.bins, "data": data})
        first = windows[0]
        return {
            "from": first["from"],
            "to": first["to"],
            "full": FULL,
            "rows": self.names,
            "planes": [list(plane) for plane in planes],
            "windows": windows,
        }

    def _fold(self) -> None:
        """Operations beyond the largest few become one, so that the legend and the page stay small."""
        total: dict[str, float] = {}
        for row in self.windows[0].rows:
            for (operation, _), time in row.items():
                total[operation] = total.get(operation, 0.0) + float(time.sum())
        small = set(sorted((o for o in total if o), key=lambda o: -total[o])[MOST_OPERATIONS:])
        for window in self.windows:
            for i, row in enumerate(window.rows):
                folded: dict[Plane, NDArray[np.float64]] = {}
                for (operation, layer), time in row.items():
                    plane = (OTHER if operation in small or operation not in total else operation, layer)
                    folded[plane] = folded[plane] + time if plane in folded else time
                window.rows[i] = folded

    def _row(self, name: str) -> int:
        self.names.append(name)
        for window in self.windows:
            window.rows.append({})
        return len(self.names) - 1

    def _add(self, row: int, time: Ints, states: Ints, process: ProcessTrace) -> None:
        names = {
            code: (process.log.name(code >> LAYER_BITS), fmt.LAYERS[code & ((1 << LAYER_BITS) - 1)])
            for code in np.unique(states).tolist()
            if code != NOT_ALIVE
        }
        for window in self.windows:
            window.add(row, time, states, names)


def block_times(process: ProcessTrace, records: Any, clock: int) -> tuple[Ints, Ints]:
    """Start and end of the records of a block in nanoseconds."""
    length = np.where(fmt.kinds(records) == Kind.CALL, records["value"], 0).astype(np.uint64)
    start = nanoseconds(records["time"], process.maps[clock])
    return start, nanoseconds(records["time"] + length, process.maps[clock])


def _busy(start: Ints, end: Ints, code: int) -> tuple[Ints, Ints]:
    """Intervals, overlaps merged, as boundaries and states."""
    if not len(start):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate([[True], start[1:] > end[:-1]])
    last = np.concatenate([first[1:], [True]])
    time = np.stack([start[first], end[last]], axis=1).ravel()
    return time, np.tile(np.array([code, NOT_ALIVE], np.int64), int(first.sum()))
