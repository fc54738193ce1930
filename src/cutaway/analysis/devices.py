"""Device work and the calls that launched it: when devices were busy, and who launched what on which stream.

The sweep adds all of it up (`native/sweep/device_totals.h`). When devices were busy over time is asked of the records that are there: they
stay on disk, and the native core reads them in order with a few blocks in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis.names import Names
from cutaway.analysis.table import Table, objects

UNATTRIBUTED = "(unattributed)"
"""The operation of work whose launch is outside the recording."""
WHOLE_RUN = 5
"""A part in totals."""
ANY_KIND = 255
"""A kind of work in totals."""
PERIODS_NS = {"1/6 s": 1_000_000_000 // 6, "1 s": 1_000_000_000}
"""In which nvidia-smi looks for kernels, by product (native/sweep/periods.h)."""
_BY = {
    "process": 1,
    "device": 2,
    "operation": 4,
    "kind": 8,
}  # `BusyQuery::By` in native/sweep/device_time.h
_NAMELESS = {0xFFFFFFFE: "name ?", 0xFFFFFFFF: UNATTRIBUTED}
_PARTS = {0: "startup", 1: "steady", 2: "shutdown"}

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Busy:
    """Asks for the time in which at least one piece of work ran, by any of process, device, operation and kind."""

    by: Sequence[str] = ()
    edges: NDArray[Any] = field(
        default_factory=lambda: np.zeros(0, np.uint64)
    )  # of bins, ascending
    title: Callable[[str], str] = (
        str  # of an operation; those of the same title are one
    )


@dataclass(frozen=True)
class DeviceWork:
    """The device work of a run. Columns are as in native/sweep/device_columns.cpp: `kernels` by everything known of the work and by
    the call that launched it, `unions` busy times by device, operation, kind and part, `use` that of each device. Of each
    process: one look at its device records, the operation that launched each piece of work in them, and whether records were
    given back (`--keep`)."""

    names: Names
    kernels: Columns
    unions: Columns
    use: Columns
    seen: Sequence[_sweep.Devices]
    operations: Sequence[NDArray[np.uint32]]
    kept: Sequence[bool]

    def by_launch(self, part: int) -> Table:
        """Work that began in a part of the run, by the call that launched it. Kernels and API calls are numbers of the run's names."""
        rows = Table(self.kernels)
        rows = rows.where((rows["slice"] == part) | (part == WHOLE_RUN))
        process = rows["process"]
        named = {}
        for name in ("api", "name"):
            named[name] = self.names.numbers(process, rows[name])
        named["operation"] = self._operations(process, rows["operation"])
        return rows.with_columns(named)

    def busy_times(self, part: int) -> Table:
        """How long work ran that began in a part of the run. Overlaps within a row count once; of `ANY_KIND` are those over all
        kinds, and what the accelerator's library took for itself is on device -1."""
        rows = Table(self.unions).where(part=part)
        operation = self._operations(rows["process"], rows["operation"])
        return rows.with_columns({"operation": operation})

    def busy(self, *asked: Busy) -> list[Table]:
        """For each question a table: its columns, `ns`, and `bins`, the time in each bin. Single records answer, so of a run that
        gave some back (`--keep`) this is its last stretch."""
        processes = self._with_records(range(len(self.seen)))
        queries = []
        titles = []
        for ask in asked:
            if "operation" in ask.by:
                named = processes
            else:
                named = []
            ids, shown = self._titles(named, ask.title)
            by = sum(_BY[name] for name in ask.by)
            edges = np.clip(np.asarray(ask.edges), 0, None).astype(np.uint64)
            queries.append((by, ids, edges))
            titles.append(shown)
        answers = _sweep.device_busy(self._sources(processes), queries)
        out = []
        for ask, found, texts in zip(asked, answers, titles, strict=True):
            if processes:
                found["process"] = np.array(processes)[found["process"]]
            if "operation" in ask.by:
                found["operation"] = texts[found["operation"]]
            bins = max(len(ask.edges) - 1, 0)
            found["bins"] = found["bins"].reshape(len(found["ns"]), bins)
            table = Table(found).select(*ask.by, "ns", "bins")
            out.append(table.sort("process") if "process" in ask.by else table)
        return out

    def used(self, part: int, span: tuple[int, int]) -> Table:
        """Of each device how long it was busy in a part of the run (`ns`), and in how many short and long periods a kernel ran
        (`PERIODS_NS`). Work of several processes at one time counts once, unless records were given back."""
        full = [index for index, kept in enumerate(self.kept) if not kept]
        processes = self._with_records(full)
        first = max(span[0], 0)
        found = _sweep.device_use(self._sources(processes), first, max(span[1], first))
        both = Table.concat([Table(found), self._used_by_kept(part)])
        return both.group(["device"], ["ns", "short", "long"]).sort("device")

    def _used_by_kept(self, part: int) -> Table:
        rows = Table(self.use)
        rows = rows.where(np.asarray(self.kept, bool)[rows["process"]])
        if part == WHOLE_RUN:
            of_part = "all"
        else:
            of_part = _PARTS.get(part, "")
        ns = np.zeros(len(rows), np.int64)
        for name in _PARTS.values():
            if of_part in ("all", name):
                ns += rows[f"{name}_ns"]
        columns = {"device": rows["device"], "ns": ns}
        for length in ("short", "long"):
            name = f"{of_part}_{length}"
            if name in rows:
                columns[length] = rows[name]
            else:
                columns[length] = np.zeros_like(ns)
        return Table(columns)

    def _with_records(self, processes: Sequence[int]) -> list[int]:
        return [index for index in processes if self.seen[index].works]

    def _sources(
        self, processes: Sequence[int]
    ) -> list[tuple[_sweep.Devices, NDArray[np.uint32]]]:
        return [(self.seen[index], self.operations[index]) for index in processes]

    def _operations(self, process: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
        """Texts of the operations that launched work."""
        out = self.names.texts(self.names.numbers(process, ids))
        for id, text in _NAMELESS.items():
            out[ids == id] = text
        return out

    def _titles(
        self, processes: Sequence[int], title: Callable[[str], str]
    ) -> tuple[list[tuple[NDArray[np.uint32], NDArray[np.uint32]]], NDArray[Any]]:
        """Of each process the numbers of its operations by id, and the titles these stand for."""
        numbers: dict[str, int] = {}
        texts = (*self.names.known, *_NAMELESS.values())
        shown = [numbers.setdefault(title(text), len(numbers)) for text in texts]
        by_name = np.array(shown, np.uint32)
        out = []
        for process in processes:
            of_run = self.names.of_process(process)
            logged = np.flatnonzero(of_run < len(self.names.known))
            ids = np.append(logged, list(_NAMELESS)).astype(np.uint32)
            found = by_name[of_run[logged]]
            out.append((ids, np.append(found, by_name[-len(_NAMELESS) :])))
        return out, objects(list(numbers))


def nvidia_smi(ran: Sequence[int], span_ns: int) -> dict[str, float]:
    """What nvidia-smi would have shown, from the number of short and long periods in which a kernel ran: the share of them.

    >>> nvidia_smi([3, 1], 1_000_000_000)
    {'1/6 s': 0.42857142857142855, '1 s': 1.0}
    """
    shares = {}
    for (name, period), count in zip(PERIODS_NS.items(), ran, strict=True):
        shares[name] = min(1.0, count / max(-(-span_ns // period), 1))
    return shares


def launchers(
    found: _sweep.Devices, threads: list[int], own: list[int]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """The threads that made API calls (`threads`), and for each stream those that launched on it, as offsets into one list. A
    stream nobody is known to have launched on counts for every thread of `own`."""
    pairs = {
        (stream, threads[thread])
        for stream, thread in found.launched.reshape(-1, 2).tolist()
    }
    used = {stream for stream, _ in pairs}
    free = [stream for stream in range(found.streams) if stream not in used]
    pairs |= set(product(free, own))
    ordered = sorted(pairs)
    offsets = np.searchsorted(
        [stream for stream, _ in ordered], np.arange(found.streams + 1)
    )
    launched = np.array([thread for _, thread in ordered], np.uint32)
    return np.array(threads, np.uint32), offsets.astype(np.uint32), launched
