"""Device work and the calls that launched it: when devices were busy, and who launched what on which stream.

The records stay on disk. The native core reads them in order for each question, with a few blocks in memory. Of a process that keeps
its past as totals (`--keep`), the totals answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis.names import Names
from cutaway.analysis.table import Table, objects
from cutaway.vocabulary import DEVICE_LAYERS

UNATTRIBUTED = "(unattributed)"
"""The operation of work whose launch is outside the recording."""
WHOLE_RUN, ANY_KIND = 5, 255
"""A part and a kind of work in totals."""
_BY = {
    "process": 1,
    "device": 2,
    "operation": 4,
    "kind": 8,
}  # `BusyQuery::By` in native/sweep/device_tables.h
_NAMELESS = {0xFFFFFFFE: "name ?", 0xFFFFFFFF: UNATTRIBUTED}


@dataclass(frozen=True)
class Busy:
    """Asks for the time in which at least one piece of work ran, by any of process, device, operation and kind."""

    by: Sequence[str] = ()
    kinds: Iterable[int] = tuple(DEVICE_LAYERS)
    start: tuple[int, int] = (0, 1 << 63)  # of the work
    edges: NDArray[Any] = field(
        default_factory=lambda: np.zeros(0, np.uint64)
    )  # of bins, ascending
    title: Callable[[str], str] = (
        str  # of an operation; those of the same title are one
    )


@dataclass(frozen=True)
class DeviceTotals:
    """What the device work of a process adds up to that is not kept in full (native/sweep/device_totals.h). Of an operation and
    a thread -1 is unknown. `unions` are busy times by device, operation, kind (255: any) and part; `devices` has the
    busy time of each by part, and in how many periods a kernel ran, for each part and length of a period."""

    kernels: dict[str, NDArray[np.int64]]
    unions: dict[str, NDArray[np.int64]]
    devices: dict[str, NDArray[np.int64]]


class DeviceWork:
    """The device work of a run. `threads`: of each process, positions by the number the system gave them; `operations`: what
    the sweep found in force at each API call, in order of their start; `totals`: of those that keep no more."""

    def __init__(
        self,
        names: Names,
        seen: Sequence[_sweep.Devices],
        threads: Sequence[dict[int, int]],
        operations: Sequence[NDArray[np.uint32]],
        totals: Sequence[DeviceTotals | None],
    ) -> None:
        self._names, self._totals = names, totals
        self._sources = {
            i: (
                devices,
                np.array(
                    [threads[i][tid] for tid in devices.threads.tolist()], np.uint32
                ),
                operations[i],
            )
            for i, devices in enumerate(seen)
            if devices.works
        }

    def busy(self, *asked: Busy, left: bool = False) -> list[Table]:
        """For each question a table: its columns, `count`, `ns`, and `bins`, the time in each bin. Processes with totals are not
        in it, unless what is `left` of their records counts, too."""
        processes, sources = self._chosen(left)
        queries = []
        titles = []
        for ask in asked:
            named = processes.tolist() if "operation" in ask.by else []
            ids, shown = self._titles(named, ask.title)
            by = sum(_BY[name] for name in ask.by)
            kinds = sum(1 << kind for kind in ask.kinds)
            edges = np.clip(np.asarray(ask.edges), 0, None).astype(np.uint64)
            queries.append((by, kinds, max(ask.start[0], 0), ask.start[1], ids, edges))
            titles.append(shown)
        out = []
        for ask, found, texts in zip(
            asked, _sweep.device_busy(sources, queries), titles, strict=True
        ):
            found["process"] = (
                processes[found["process"]] if len(processes) else found["process"]
            )
            found["operation"] = (
                texts[found["operation"]]
                if "operation" in ask.by
                else found["operation"]
            )
            found["bins"] = found["bins"].reshape(
                len(found["ns"]), max(len(ask.edges) - 1, 0)
            )
            table = Table(found).select(*ask.by, "count", "ns", "bins")
            out.append(table.sort("process") if "process" in ask.by else table)
        return out

    def kept_busy(self, part: int) -> Table:
        """The busy times of processes with totals: process, device, operation, kind, ns, count."""
        names = ("process", "device", "operation", "kind", "ns", "count")
        tables = [Table.from_rows(names, [])]
        for index, totals in self._kept():
            if totals.unions:
                rows = Table(totals.unions).where(part=part)
                operation = self._operations(index, rows["operation"])
                whose = {
                    "process": np.full(len(rows), index, np.int64),
                    "operation": operation,
                }
                tables.append(rows.with_columns(whose).select(*names))
        return Table.concat(tables)

    def kernels(
        self, start: tuple[int, int], part: int | None, *, with_queue: bool
    ) -> Table:
        """Work that begins in a stretch of time, added up by all that is told of it and by the call that launched it. Kernels
        and API calls are numbers of the run's names. Of processes with totals it is that of a part of the run; without one, what
        is left of their records. `with_queue` needs memory for each piece of work."""
        processes, sources = self._chosen(left=part is None)
        found = _sweep.device_kernels(sources, max(start[0], 0), start[1], with_queue)
        operation = objects([""] * len(found["ns"]))
        for at, index in enumerate(processes.tolist()):
            mine = found["process"] == at
            operation[mine] = self._operations(index, found["operation"][mine])
        found["process"] = (
            processes[found["process"]] if len(operation) else np.zeros(0, np.int64)
        )
        self._number_for_run(found)
        tables = [Table({**found, "operation": operation})]
        for index, totals in self._kept() if part is not None else ():
            if totals.kernels:
                tables.append(
                    self._kept_kernels(index, totals.kernels, part).select(
                        *tables[0].columns
                    )
                )
        return Table.concat(tables).sort("process")

    def _kept_kernels(
        self, index: int, rows: dict[str, NDArray[np.int64]], part: int | None
    ) -> Table:
        shapes = {shape: rows[shape].reshape(-1, 3) for shape in ("grid", "block")}
        axes = {}
        for shape, sizes in shapes.items():
            for i, axis in enumerate("xyz"):
                axes[f"{shape}_{axis}"] = sizes[:, i]
        table = Table(
            {
                **{name: column for name, column in rows.items() if name not in shapes},
                **axes,
            }
        )
        table = table.where((table["slice"] == part) | (part == WHOLE_RUN))
        sums = {name: table[name].astype(float) for name in ("launch_ns", "queue")}
        operation = self._operations(index, table["operation"])
        whose = {
            "process": np.full(len(table), index, np.int64),
            "operation": operation,
        }
        numbered = {name: table[name] for name in ("api", "name")} | whose
        self._number_for_run(numbered)
        return table.with_columns({**sums, **numbered})

    def _number_for_run(self, rows: dict[str, NDArray[Any]]) -> None:
        for name in ("api", "name"):
            rows[name] = self._names.numbers(rows["process"], rows[name])

    def _chosen(self, left: bool) -> tuple[NDArray[np.int64], list[Any]]:
        chosen = [index for index in self._sources if left or not self._totals[index]]
        return np.array(chosen, np.int64), [self._sources[index] for index in chosen]

    def _kept(self) -> Iterator[tuple[int, DeviceTotals]]:
        return ((index, totals) for index, totals in enumerate(self._totals) if totals)

    def _operations(self, index: int, ids: NDArray[Any]) -> NDArray[Any]:
        """Texts of the operations that launched work; -1 is the largest number, too."""
        ids = ids.astype(np.int64) & 0xFFFFFFFF
        out = self._names.texts(self._names.numbers(index, ids))
        for id, text in _NAMELESS.items():
            out[ids == id] = text
        return out

    def _titles(
        self, processes: Sequence[int], title: Callable[[str], str]
    ) -> tuple[list[tuple[NDArray[np.uint32], NDArray[np.uint32]]], NDArray[Any]]:
        """Of each process the numbers of its operations by id, and the titles these stand for."""
        numbers: dict[str, int] = {}
        texts = (*self._names.known, *_NAMELESS.values())
        shown = [numbers.setdefault(title(text), len(numbers)) for text in texts]
        by_name = np.array(shown, np.uint32)
        out = []
        for process in processes:
            of_run = self._names.of_process(process)
            logged = np.flatnonzero(of_run < len(self._names.known))
            ids = np.append(logged, list(_NAMELESS)).astype(np.uint32)
            found = by_name[of_run[logged]]
            out.append((ids, np.append(found, by_name[-len(_NAMELESS) :])))
        return out, objects(list(numbers))


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
