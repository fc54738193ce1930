"""Cells of the sweep as a table: who spent how long, in which operation, layer and resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.correction import correct
from cutaway.analysis.iterations import in_part, recorded_iterations
from cutaway.analysis.sweep import NO_ITERATION, Columns, Swept, select, sweep
from cutaway.analysis.table import Table, objects
from cutaway.errors import CutawayError
from cutaway.vocabulary import REASONS, RESOURCES, THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

DIMENSIONS = ("process", "thread", "phase", "operation", "why", "layer", "resource")
VIEWS = {"launched": "busy", "process": "busy_process"}


def breakdown(
    run: Run,
    by: str | Sequence[str] = ("process", "operation", "layer", "resource"),
    *,
    view: str = "launched",
) -> Table:
    """Time by any of process, thread, phase, operation, why, layer, resource and iteration.

    A process is summarised by the threads that carry operations; with `thread` in `by` all threads are
    listed. Leaving out `process` adds processes up. `view` says which device streams make a thread's device
    busy: those it launched on, or all of its process. `count` is how many operations began there, `calls` how many
    native calls. No time is below nothing: what the correction asked for beyond what was there is `short_ns`.

    >>> run.breakdown(by="operation").select("operation", "ns")
    operation          ns
                     4290
    simulation       2910
    backpropagation  1200
    inference         600
    """
    by = (by,) if isinstance(by, str) else tuple(by)
    unknown = [name for name in by if name not in (*DIMENSIONS, "iteration")]
    if unknown:
        raise CutawayError(f"There is no dimension {unknown[0]!r}; use any of {', '.join(DIMENSIONS)}.")
    if view not in VIEWS:
        raise CutawayError(f"There is no view {view!r}; use 'launched' or 'process'.")
    swept, cells = run.swept, run.rows(run.swept.cells)
    if "iteration" in by:
        swept = sweep(run.trace, run.swept, by_iteration=True)
        cells = select(swept.cells, in_part(swept, run.part))
    if "thread" not in by:
        cells = select(cells, swept.summary_threads[cells["thread"]])
    corrected = correct(cells, run.costs)
    each = recorded_iterations(run)[swept.threads["process"][cells["thread"]]]
    columns: Columns = {name: _dimension(name, swept, cells, VIEWS[view]) for name in by}
    columns |= {
        "ns": corrected.ns,
        "raw_ns": cells["ns"],
        "low_ns": corrected.low,
        "high_ns": corrected.high,
        "count": cells["begun"],
        "calls": cells["calls"] + cells["api_calls"],
        "per_iteration_ns": np.divide(corrected.ns, each, out=np.full(len(each), np.nan), where=each > 0),
    }
    table = Table(columns).group(by, [name for name in columns if name not in by])
    times = {name: np.maximum(table[name], 0) for name in ("ns", "low_ns", "high_ns", "per_iteration_ns")}
    table = table.with_columns({**times, "short_ns": np.maximum(-table["ns"], 0)})
    table = table.where((table["raw_ns"] > 0) | (table["calls"] > 0)).sort("ns", descending=True)
    return table.sort("process") if "process" in by else table


def _dimension(name: str, swept: Swept, cells: Columns, busy: str) -> NDArray[Any]:
    thread = cells["thread"]
    if name in ("phase", "operation"):
        return swept.thread_text(thread, cells[name])
    if name == "layer":
        return objects(THREAD_LAYERS)[cells["layer"]]
    if name == "resource":
        return resources(cells["blocked"], cells[busy])
    if name == "why":  # time outside any operation has no reason
        return np.where(cells["operation"] > 0, objects(REASONS)[cells["why"]], "")
    iteration = np.where(cells["slice"] == NO_ITERATION, 0, cells["slice"])
    numbers = {"process": swept.threads["process"][thread], "thread": thread, "iteration": iteration}
    return numbers[name].astype(np.int64)


def resources(blocked: NDArray[Any], busy: NDArray[Any]) -> NDArray[Any]:
    """Who works, the thread, the device, both or none."""
    return np.asarray(objects(tuple(RESOURCES))[2 * blocked + (busy ^ blocked)])
