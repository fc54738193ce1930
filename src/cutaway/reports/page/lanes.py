"""Lanes over time for the page: for every row and bin, the share each (operation, layer) had of it.

Two windows are drawn by the sweep that makes the tables: the whole run, and one stretch of its steady state in detail.
A window's bins are halved until it fits the space a page has for it, so 500 processes make a page as small as one.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis import Run
from cutaway.analysis.devices import UNATTRIBUTED, Busy, DeviceWork
from cutaway.analysis.edges import guess_steady
from cutaway.analysis.processes import known_life
from cutaway.analysis.sweep import Bins, Swept, sweep
from cutaway.reports.digest import Digest
from cutaway.reports.text import clip
from cutaway.trace.reader import Trace
from cutaway.vocabulary import DEVICE_LAYERS, THREAD_LAYERS

FULL = 60  # a bin that belongs to one state entirely; small, so that it packs well
MOST_BINS = 4096
LEAST_BINS = 64
DETAIL_NS = 1_000_000_000
WINDOW_BYTES = 330_000  # of base64 in the page, for each window

MOST_OPERATIONS = 12
OTHER = "(other)"

Plane = tuple[str, str]  # operation, layer


def build_lanes(run: Run, found: Digest) -> dict[str, Any] | None:
    """A row for each thread that carries operations (each process has at least one), and for each device."""
    if not any(p.end_ns > p.start_ns for p in found.processes):
        return None
    builder = LaneBuilder(run, max(p.end_ns for p in found.processes))
    builder.add_devices(run.swept.devices)
    builder.add_threads(_thread_rows(run))
    return builder.packed()


def _thread_rows(run: Run) -> list[tuple[str, int]]:
    """The threads shown: their names, and where they stand in the sweep."""
    by_process: dict[int, list[dict[str, Any]]] = {}
    for thread in run.threads():
        by_process.setdefault(thread["process"], []).append(thread)
    rows: list[tuple[str, int]] = []
    for process in run.processes():
        name = process["name"] or f"pid {process['pid']}"
        own = by_process.get(process["process"], [])
        own = [t for t in own if t["carries_operations"]] or own[:1]
        for row in own:
            label = name if len(own) == 1 else f"{name} / {row['name'] or row['tid']}"
            rows.append((clip(label, 40), row["thread"]))
    return rows


@dataclass
class Window:
    """A stretch of time cut into bins; `rows[i][plane]` is the time of a state in each bin."""

    cut: Bins
    rows: list[dict[Plane, NDArray[np.float64]]] = field(default_factory=list)

    def add(self, row: int, plane: Plane, total: NDArray[Any]) -> None:
        """Add the time of a state in each bin to a row."""
        known = self.rows[row].get(plane)
        self.rows[row][plane] = total.astype(float) if known is None else known + total

    def halve(self) -> None:
        """Join neighbouring bins."""
        self.cut = Bins(self.cut.start, self.cut.width * 2, self.cut.count // 2)
        for row in self.rows:
            for plane, total in row.items():
                row[plane] = total.reshape(-1, 2).sum(axis=1)

    def packed(self, planes: list[Plane]) -> str:
        """Bytes row × plane × bin, deflated, as base64; no bin gets more than FULL of all planes together."""
        out = np.zeros((len(self.rows), len(planes), self.cut.count), np.uint8)
        for i, row in enumerate(self.rows):
            total = np.sum(list(row.values()), axis=0) if row else np.zeros(self.cut.count)
            scale = FULL / np.maximum(total, self.cut.width)
            for j, plane in enumerate(planes):
                if plane in row:
                    out[i, j] = np.rint(row[plane] * scale)
        return base64.b64encode(zlib.compress(out.tobytes(), 6)).decode()


class LaneBuilder:
    """Collects rows into windows. Operations beyond the largest few become one, so that the legend and the page stay small."""

    def __init__(self, run: Run, stop: int) -> None:
        self._swept = run.swept
        self._lanes = run.swept.lanes[1:] or sweep(run.trace, known=run.swept, lanes=windows(run.trace)).lanes
        self._shown = _largest(run.swept)
        self.windows = [Window(_until(lanes.cut, stop)) for lanes in self._lanes]
        self.names: list[str] = []

    def add_threads(self, rows: Sequence[tuple[str, int]]) -> None:
        """Rows of threads (names, and positions in the sweep): all that each did."""
        at = np.full(len(self._swept.names), -1)
        for name, thread in rows:
            at[thread] = self._row(name)
        for window, lanes in zip(self.windows, self._lanes, strict=True):
            operations = self._swept.thread_text(lanes.rows["thread"], lanes.rows["operation"])
            columns = (at[lanes.rows["thread"]].tolist(), operations.tolist(), lanes.rows["layer"].tolist())
            for row, operation, layer, ns in zip(*columns, lanes.ns, strict=True):
                if row >= 0:
                    window.add(row, (self._title(operation), THREAD_LAYERS[layer]), ns[: window.cut.count])

    def add_devices(self, work: DeviceWork) -> None:
        """A row for each device of each process: what it did, by the operation that launched it."""
        by, titles = ("process", "device", "operation", "kind"), {UNATTRIBUTED: ""}
        asked = [
            Busy(by=by, edges=window.cut.edges, title=lambda name: self._title(titles.get(name, name)))
            for window in self.windows
        ]
        rows: dict[tuple[int, int], int] = {}
        for window, found in zip(self.windows, work.busy(*asked), strict=True):
            found = found.sort(*by)
            for row, bins in zip(found, found["bins"], strict=True):
                at = row["process"], row["device"]
                if at not in rows:
                    rows[at] = self._row(f"GPU {row['device']}")
                if row["ns"]:
                    window.add(rows[at], (row["operation"], DEVICE_LAYERS[row["kind"]]), bins)

    def packed(self) -> dict[str, Any]:
        """The lanes as the page wants them; times in seconds since the start of the run."""
        planes = sorted(
            {plane for w in self.windows for row in w.rows for plane in row},
            key=lambda p: (p[1] == "wait", p),
        )
        windows, origin = [], self.windows[0].cut.start
        for window in self.windows:
            data = window.packed(planes)
            while len(data) > WINDOW_BYTES and window.cut.count > LEAST_BINS:
                window.halve()
                data = window.packed(planes)
            first, last = ((int(window.cut.edges[i]) - origin) / 1e9 for i in (0, -1))
            windows.append({"from": first, "to": last, "bins": window.cut.count, "data": data})
        return {
            "from": windows[0]["from"],
            "to": windows[0]["to"],
            "full": FULL,
            "rows": self.names,
            "planes": [list(plane) for plane in planes],
            "windows": windows,
        }

    def _title(self, operation: str) -> str:
        return operation if operation in self._shown else OTHER

    def _row(self, name: str) -> int:
        self.names.append(name)
        for window in self.windows:
            window.rows.append({})
        return len(self.names) - 1


def windows(trace: Trace) -> list[Bins]:
    """What to draw: the run as long as its logs say that it lasted (bins grow if it lasted longer), and a second in the middle
    of its steady state, or an eighth of a short run."""
    lives = [known_life(process) for process in trace.processes]
    start, stop = min(life[0] for life in lives), max(life[1] for life in lives)
    count = MOST_BINS
    while count > 256 and count * len(lives) > 100_000:
        count //= 2
    cuts = [replace(Bins.over(start, stop, count), grow=True)]
    length = min(DETAIL_NS, (stop - start) // 8)
    if length >= 1_000_000:
        first = min(max(start, guess_steady(trace)), stop - length)
        middle = (first + stop - length) // 2
        cuts.append(Bins.over(middle, middle + length, count))
    return cuts


def _until(cut: Bins, stop: int) -> Bins:
    """Without the bins after the end of the run; an even number of them, so that they can be halved."""
    used = -(-(stop - cut.start) // cut.width)
    least = 1 << max(used - 1, 0).bit_length()
    return replace(cut, count=max(1, min(cut.count, least)))


def _largest(swept: Swept) -> set[str]:
    """The operations with the most time; time in none always has a name of its own."""
    names = swept.thread_text(swept.cells["thread"], swept.cells["operation"])
    distinct, of = np.unique(names.astype(str), return_inverse=True)
    total = np.bincount(of, swept.cells["ns"], len(distinct))
    ordered = [str(distinct[i]) for i in np.argsort(-total, kind="stable") if distinct[i]]
    return {"", *ordered[:MOST_OPERATIONS]}
