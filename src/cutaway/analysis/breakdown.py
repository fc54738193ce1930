"""Cells of the sweep as a table: who spent how long, in which operation, layer and resource."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.correction import correct
from cutaway.analysis.sweep import Columns, Swept
from cutaway.analysis.table import Table
from cutaway.calibration.costs import Costs
from cutaway.errors import CutawayError
from cutaway.trace.reader import Trace
from cutaway.vocabulary import REASONS, RESOURCES, THREAD_LAYERS

DIMENSIONS = ("process", "thread", "phase", "operation", "why", "layer", "resource")
Mask = NDArray[np.bool_]


def breakdown(
    trace: Trace,
    swept: Swept,
    by: Sequence[str],
    keep: Mask,
    iterations: NDArray[np.float64],
    *,
    costs: Costs | None = None,
    view: str = "launched",
) -> Table:
    """Adds up the kept cells by the dimensions of `by`; `iterations` is their number for each process. `count` is how many
    operations began there, `calls` how many native calls."""
    unknown = [name for name in by if name not in (*DIMENSIONS, "iteration")]
    if unknown:
        raise CutawayError(f"There is no dimension {unknown[0]!r}; take any of {', '.join(DIMENSIONS)}.")
    if view not in ("launched", "process"):
        raise CutawayError(f"There is no view {view!r}; take 'launched' or 'process'.")
    if "thread" not in by:
        keep = keep & summary_threads(trace, swept)[swept.cells["thread"]]
    cells = {name: values[keep] for name, values in swept.cells.items()}
    corrected = correct(cells, costs)
    process = swept.threads["process"][cells["thread"]]
    each = np.where(iterations[process] > 0, iterations[process], 1.0)
    columns: dict[str, NDArray[Any]] = {name: _dimension(name, trace, swept, cells, view) for name in by}
    columns |= {
        "ns": corrected.ns,
        "raw_ns": cells["ns"],
        "low_ns": corrected.low,
        "high_ns": corrected.high,
        "count": cells["begun"],
        "calls": cells["calls"] + cells["api_calls"],
        "per_iteration_ns": np.where(iterations[process] > 0, corrected.ns / each, np.nan),
    }
    table = _not_negative(Table(columns).group(by, [name for name in columns if name not in by]))
    table = table.where((table["raw_ns"] > 0) | (table["calls"] > 0)).sort("ns", descending=True)
    return table.sort("process") if "process" in by else table


def _not_negative(table: Table) -> Table:
    """No time below nothing; what the correction asked for beyond what was there stands in `short_ns`, the flag of such a row."""
    columns = {name: table[name] for name in table.columns}
    columns["short_ns"] = np.maximum(-columns["ns"], 0)
    for name in ("ns", "low_ns", "high_ns", "per_iteration_ns"):
        columns[name] = np.maximum(columns[name], 0)
    return Table(columns)


def totals(swept: Swept, keep: Mask, costs: Costs | None) -> dict[tuple[int, int, int], int]:
    """Corrected nanoseconds of the kept cells by thread, operation and layer."""
    cells = {name: values[keep] for name, values in swept.cells.items()}
    columns = [cells[name].tolist() for name in ("thread", "operation", "layer")]
    out: dict[tuple[int, int, int], int] = {}
    for *key, ns in zip(*columns, correct(cells, costs).ns.tolist(), strict=True):
        cell = key[0], key[1], key[2]
        out[cell] = out.get(cell, 0) + ns
    return {cell: max(ns, 0) for cell, ns in out.items()}


def summary_threads(trace: Trace, swept: Swept) -> Mask:
    """The threads a process is summarised by: those that carry operations; else its main thread; else (recordings of
    others need not tell) the one that was traced longest."""
    carries: Mask = swept.threads["carries"].astype(bool)
    out: Mask = carries.copy()
    process = swept.threads["process"]
    for index in np.unique(process[~carries]).tolist():
        own = np.flatnonzero(process == index)
        if not carries[own].any():
            main = [t for t in own.tolist() if swept.names[t].tid == trace.processes[index].pid]
            out[main[0] if main else own[np.argmax(swept.threads["traced_ns"][own])]] = True
    return out


def _dimension(name: str, trace: Trace, swept: Swept, cells: Columns, view: str) -> NDArray[Any]:
    makers: dict[str, Callable[[], NDArray[Any]]] = {
        "process": lambda: swept.threads["process"][cells["thread"]].astype(np.int64),
        "thread": lambda: cells["thread"].astype(np.int64),
        "phase": lambda: names_of(trace, swept, cells["thread"], cells["phase"]),
        "operation": lambda: names_of(trace, swept, cells["thread"], cells["operation"]),
        "why": lambda: _why(cells),
        "layer": lambda: _lookup(THREAD_LAYERS, cells["layer"]),
        "resource": lambda: _lookup(list(RESOURCES), _resource(cells, view)),
        "iteration": lambda: cells["slice"].astype(np.int64),
    }
    return makers[name]()


def _why(cells: Columns) -> NDArray[Any]:
    """Time outside any operation has no reason."""
    return np.where(cells["operation"] > 0, _lookup(REASONS, cells["why"]), "")


def _resource(cells: Columns, view: str) -> NDArray[Any]:
    busy = cells["busy" if view == "launched" else "busy_process"]
    return np.asarray(2 * cells["blocked"] + (busy ^ cells["blocked"]))


def names_of(trace: Trace, swept: Swept, thread: NDArray[Any], name: NDArray[Any]) -> NDArray[Any]:
    """The texts of name ids, each of the process its thread belongs to."""
    process = swept.threads["process"][thread]
    return texts(trace, process, name)


def texts(trace: Trace, process: NDArray[Any], name: NDArray[Any]) -> NDArray[Any]:
    """The texts of name ids, each of its process."""
    key = process.astype(np.int64) << 32 | name.astype(np.int64)
    distinct, inverse = np.unique(key, return_inverse=True)
    words = [trace.processes[int(k) >> 32].log.name(int(k) & 0xFFFFFFFF) for k in distinct]
    return _lookup(words, inverse)


def _lookup(words: Sequence[str], index: NDArray[Any]) -> NDArray[Any]:
    table = np.empty(len(words), object)
    table[:] = words
    return np.asarray(table[index])
