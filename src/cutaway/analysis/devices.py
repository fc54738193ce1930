"""Device work and the calls that launched it: when devices were busy, and who launched what on which stream.

The records stay on disk. The native core reads them in order for each question, with a few blocks in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis.table import Table, objects
from cutaway.trace.log import Log
from cutaway.vocabulary import DEVICE_LAYERS

UNATTRIBUTED = "(unattributed)"
"""The operation of work whose launch is outside the recording."""
_BY = {
    "process": 1,
    "device": 2,
    "operation": 4,
    "kind": 8,
}  # `BusyQuery::By` in native/sweep/device_tables.h
_NAMELESS = {0: "", 0xFFFFFFFE: "name ?", 0xFFFFFFFF: UNATTRIBUTED}


@dataclass(frozen=True)
class Busy:
    """Asks for the time in which at least one piece of work ran, by any of process, device, operation and kind."""

    by: Sequence[str] = ()
    kinds: Iterable[int] = tuple(DEVICE_LAYERS)
    start: tuple[int, int] = (0, 1 << 63)  # of the work
    edges: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.uint64))  # of bins, ascending
    title: Callable[[str], str] = str  # of an operation; those of the same title are one


class DeviceWork:
    """The device work of a run. `threads`: of each process, positions by the number the system gave them; `operations`: what
    the sweep found in force at each API call, in order of their start."""

    def __init__(
        self,
        logs: Sequence[Log],
        seen: Sequence[_sweep.Devices],
        threads: Sequence[dict[int, int]],
        operations: Sequence[NDArray[np.uint32]],
    ) -> None:
        self._processes = np.array([i for i, devices in enumerate(seen) if devices.works], np.int64)
        self._logs = [logs[i] for i in self._processes]
        self._sources = [
            (
                seen[i],
                np.array([threads[i][tid] for tid in seen[i].threads.tolist()], np.uint32),
                operations[i],
            )
            for i in self._processes
        ]

    def busy(self, *asked: Busy) -> list[Table]:
        """For each question a table: its columns, `count`, `ns`, and `bins`, the time in each bin."""
        queries, titles = [], []
        for ask in asked:
            numbers: dict[str, int] = {}
            ids = [self._titles(log, ask.title, numbers) for log in self._logs if "operation" in ask.by]
            by, kinds = sum(_BY[name] for name in ask.by), sum(1 << kind for kind in ask.kinds)
            edges = np.clip(np.asarray(ask.edges), 0, None).astype(np.uint64)
            queries.append((by, kinds, max(ask.start[0], 0), ask.start[1], ids, edges))
            titles.append(objects(list(numbers)))
        out = []
        for ask, found, texts in zip(asked, _sweep.device_busy(self._sources, queries), titles, strict=True):
            found["process"] = (
                self._processes[found["process"]] if len(found["process"]) else found["process"]
            )
            found["operation"] = texts[found["operation"]] if "operation" in ask.by else found["operation"]
            found["bins"] = found["bins"].reshape(len(found["ns"]), max(len(ask.edges) - 1, 0))
            table = Table(found).select(*ask.by, "count", "ns", "bins")
            out.append(table.sort("process") if "process" in ask.by else table)
        return out

    def kernels(self, start: tuple[int, int], *, with_queue: bool) -> Table:
        """Work that begins in a stretch of time, added up by all that is told of it and by the call that launched it. Texts
        are ids, but for `operation`. `with_queue` needs memory for each piece of work."""
        found = _sweep.device_kernels(self._sources, max(start[0], 0), start[1], with_queue)
        operation = objects([""] * len(found["ns"]))
        for index, log in enumerate(self._logs):
            mine = found["process"] == index
            ids, inverse = np.unique(found["operation"][mine], return_inverse=True)
            operation[mine] = objects([_NAMELESS.get(id) or log.name(id) for id in ids.tolist()])[inverse]
        found["process"] = self._processes[found["process"]] if len(operation) else np.zeros(0, np.int64)
        return Table({**found, "operation": operation}).sort("process")

    def _titles(
        self, log: Log, title: Callable[[str], str], numbers: dict[str, int]
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        names = dict(sorted({**log.names, **_NAMELESS}.items()))
        found = [numbers.setdefault(title(name), len(numbers)) for name in names.values()]
        return np.array(list(names), np.uint32), np.array(found, np.uint32)


def launchers(
    found: _sweep.Devices, threads: list[int], own: list[int]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """For each stream, the threads that launched on it, as offsets into one list. `threads` are those that made API calls. A
    stream nobody is known to have launched on counts for every thread of `own`."""
    pairs = {(stream, threads[thread]) for stream, thread in found.launched.reshape(-1, 2).tolist()}
    used = {stream for stream, _ in pairs}
    pairs |= {(stream, thread) for stream in range(found.streams) if stream not in used for thread in own}
    ordered = sorted(pairs)
    offsets = np.searchsorted([stream for stream, _ in ordered], np.arange(found.streams + 1))
    return offsets.astype(np.uint32), np.array([thread for _, thread in ordered], np.uint32)
