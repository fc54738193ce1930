"""Lanes over time for the page: for every row and bin, the share each (operation, layer) had of it.

Two windows are drawn by the sweep that makes the tables: the whole run, and one stretch of its steady state in detail.
A window's bins are halved until it fits the space a page has for it, so 500 processes make a page as small as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from cutaway.analysis import Run
from cutaway.analysis.devices import UNATTRIBUTED, Busy, DeviceWork
from cutaway.analysis.processes import known_life
from cutaway.analysis.sweep import Bins, sweep
from cutaway.analysis.table import totals
from cutaway.reports import text
from cutaway.reports.digest import Digest, Process
from cutaway.reports.groups import MANY, outline, workforce
from cutaway.reports.text import middle
from cutaway.vocabulary import DEVICE_LAYERS, THREAD_LAYERS

from .lane_memory import memory_lines
from .path import critical
from .section import Section, Source
from .window import FULL, Window

MOST_BINS, LEAST_BINS = 4096, 64
DETAIL_NS = 1_000_000_000
WINDOW_BYTES = 330_000  # of base64 in the page, for each window
MOST_OPERATIONS = 12
OTHER = "(other)"


def build_lanes(run: Run, found: Digest) -> dict[str, Any] | None:
    """A row for each thread that carries operations (each process has at least one), and for each device."""
    if not any(p.end_ns > p.start_ns for p in found.processes):
        return None
    builder = LaneBuilder(run, max(p.end_ns for p in found.processes))
    builder.add_devices(run.swept.devices)
    threads: dict[int, list[dict[str, Any]]] = {}
    for thread in run.threads():
        threads.setdefault(thread["process"], []).append(thread)
    rows: list[tuple[str, int]] = []
    first_rows: dict[int, int] = {}
    for process in ranked(workforce(found.processes)[0]):
        own = threads.get(process.id, [])
        own = [t for t in own if t["carries_operations"]] or own[:1]
        if own:
            first_rows[process.id] = len(builder.names) + len(rows)
        for row in own:
            more = f" / {row['name'] or row['tid']}" if len(own) > 1 else ""
            rows.append((middle(process.name + more, 40), row["thread"]))
    first = len(builder.names)
    builder.add_threads(rows)
    places = {thread: first + row for row, (_, thread) in enumerate(rows)}
    packed = builder.packed()
    origin = builder.windows[0].cut.start
    packed |= {"memory": memory_lines(run, first_rows, origin, packed["to"])}
    path = critical(run, found, builder.windows, places)
    return {**packed, "path": path} if path else packed


def ranked(processes: Sequence[Process]) -> list[Process]:
    """In the order of their lanes. Of many, those that the process tree names come first: the odd ones out are in sight."""
    if len(processes) <= MANY:
        return list(processes)
    named = [one for one in outline(processes) if isinstance(one, Process)]
    return [*named, *(one for one in processes if one not in named)]


class LaneBuilder:
    """Collects rows into windows. Operations beyond the largest few become one, so that the legend and the page stay small."""

    def __init__(self, run: Run, stop: int) -> None:
        self._swept = swept = run.swept
        self._lanes = (
            swept.lanes[1:] or sweep(run.trace, known=swept, lanes=windows(run)).lanes
        )
        names = swept.names.texts(swept.cells["operation"]).tolist()
        spent = totals(zip(names, swept.cells["ns"].tolist(), strict=True))
        largest = sorted(
            (name for name in sorted(spent) if name), key=lambda name: -spent[name]
        )
        self._shown = {"", *largest[:MOST_OPERATIONS]}
        self.windows: list[Window] = []
        for cut in (lanes.cut for lanes in self._lanes):
            used = -(
                -(stop - cut.start) // cut.width
            )  # without the bins after the end of the run,
            count = (
                1 << max(used - 1, 0).bit_length()
            )  # and so many of them that they can be halved
            self.windows.append(
                Window(replace(cut, count=max(1, min(cut.count, count))))
            )
        self.names: list[str] = []

    def add_threads(self, rows: Sequence[tuple[str, int]]) -> None:
        """Rows of threads (names, and positions in the sweep): all that each did."""
        at = np.full(len(self._swept.thread_names), -1)
        for name, thread in rows:
            at[thread] = self._row(name)
        for window, lanes in zip(self.windows, self._lanes, strict=True):
            operations = self._swept.names.texts(lanes.rows["operation"])
            columns = (
                at[lanes.rows["thread"]].tolist(),
                operations.tolist(),
                lanes.rows["layer"].tolist(),
            )
            for row, operation, layer, ns in zip(*columns, lanes.ns, strict=True):
                if row >= 0:
                    window.add(
                        row,
                        (self._title(operation), THREAD_LAYERS[layer]),
                        ns[: window.cut.count],
                    )

    def add_devices(self, work: DeviceWork) -> None:
        """A row for each device of each process: what it did, by the operation that launched it."""
        by = ("process", "device", "operation", "kind")
        titles = {UNATTRIBUTED: ""}
        asked = [
            Busy(
                by=by,
                edges=window.cut.edges,
                title=lambda name: self._title(titles.get(name, name)),
            )
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
                    window.add(
                        rows[at], (row["operation"], DEVICE_LAYERS[row["kind"]]), bins
                    )

    def _title(self, operation: str) -> str:
        return operation if operation in self._shown else OTHER

    def _row(self, name: str) -> int:
        self.names.append(name)
        for window in self.windows:
            window.rows.append({})
        return len(self.names) - 1

    def packed(self) -> dict[str, Any]:
        """The lanes as the page wants them; times in seconds since the start of the run."""
        rows = chain.from_iterable(window.rows for window in self.windows)
        found = set(chain.from_iterable(rows))
        planes = sorted(found, key=lambda plane: (plane[1] == "wait", plane))
        windows = []
        origin = self.windows[0].cut.start
        for window in self.windows:
            while (
                len(data := window.packed(planes)) > WINDOW_BYTES
                and window.cut.count > LEAST_BINS
            ):
                window.halve()
            first, last = ((int(window.cut.edges[i]) - origin) / 1e9 for i in (0, -1))
            windows.append(
                {"from": first, "to": last, "bins": window.cut.count, "data": data}
            )
        whole = {key: windows[0][key] for key in ("from", "to")}
        listed = [list(plane) for plane in planes]
        return {
            **whole,
            "full": FULL,
            "rows": self.names,
            "planes": listed,
            "windows": windows,
        }


def windows(run: Run) -> list[Bins]:
    """What to draw: the whole run, for as long as its logs say that it lasted (bins grow if it lasted longer), and a second in the middle
    of its steady state, or an eighth of a short run."""
    lives = [known_life(process) for process in run.trace.processes]
    start = min(life[0] for life in lives)
    stop = max(life[1] for life in lives)
    count = MOST_BINS
    while count > 256 and count * len(lives) > 100_000:
        count //= 2
    cuts = [replace(Bins.over(start, stop, count), grow=True)]
    length = min(DETAIL_NS, (stop - start) // 8)
    if length >= 1_000_000:
        first = min(max(start, run.stages.steady_ns), stop - length)
        middle = (first + stop - length) // 2
        cuts.append(Bins.over(middle, middle + length, count))
    return cuts


def lanes(of: Source) -> dict[str, Any] | None:
    """What every process did over time."""
    found = build_lanes(of.run, of.found)
    many = len(workforce(of.found.processes)[0]) > MANY
    first = "the odd ones out first; " if many else ""
    title = f"What {_working(of.found)} did over time ({first}drag to zoom)"
    return found and {"title": title, **found}


def _working(found: Digest) -> str:
    """How many processes have lanes; helpers have none."""
    working, helpers = workforce(found.processes)
    beside = f" (without {text.plural(len(helpers), 'helper')})" if helpers else ""
    return text.plural(len(working), "process") + beside


SECTION = Section("lanes", lanes)
