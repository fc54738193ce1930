"""Where the time goes: the cells of the sweep, operations and iterations, without what recording cost.

Each cell knows how many events began in it (the part of an event's cost inside its own interval is paid there) and how many were
made from it (the part outside is paid by the surroundings). With the cost of one event of each kind this gives corrected time
for each cell, and the cells still add up to a corrected total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.sweep import NO_ITERATION, STEADY, Columns, Swept, select, sweep
from cutaway.analysis.table import Table, objects, totals
from cutaway.calibration.costs import Costs
from cutaway.errors import CutawayError
from cutaway.vocabulary import REASONS, RESOURCES, THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

DIMENSIONS = ("process", "thread", "phase", "operation", "why", "layer", "resource")
VIEWS = {"launched": "busy", "process": "busy_process"}
KINDS = ("call", "operation", "api_call")
"""Kinds of events, as the cells count them: `call` has the columns `calls` and `calls_made`."""


class Corrected(NamedTuple):
    """Corrected time of each cell, with the 95 % interval that the costs' intervals give."""

    ns: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def correct(cells: Mapping[str, NDArray[Any]], costs: Costs | None) -> Corrected:
    """Subtracts the costs. A cell with less time than its events are said to have cost comes out negative: the caller adds up first.
    While a thread waits for a device that works (`gpu`), the device decides when the wait ends: what was recorded meanwhile did
    not lengthen it, and nothing is subtracted.

    >>> from cutaway.calibration.costs import Cost
    >>> cells = {"ns": np.array([1000]), "calls": np.array([10]), "calls_made": np.array([0])}
    >>> correct(cells, Costs(inside={"call": Cost(20.0, 10.0, 30.0)}))
    Corrected(ns=array([800]), low=array([700]), high=array([900]))
    """
    raw = cells["ns"]
    costs = costs or Costs()
    found = []
    for bound in ("ns", "high", "low"):
        paid = np.zeros(len(raw))
        for kind in KINDS:
            for column, side in (
                (f"{kind}s", costs.inside),
                (f"{kind}s_made", costs.outside),
            ):
                if kind in side:
                    paid += cells[column] * getattr(side[kind], bound)
        if "blocked" in cells and "busy" in cells:
            paid[(cells["blocked"] != 0) & (cells["busy"] != 0)] = 0.0
        found.append(raw - np.rint(paid).astype(np.int64))
    return Corrected(*found)


def breakdown(
    run: Run,
    by: str | Sequence[str] = ("process", "operation", "layer", "resource"),
    *,
    view: str = "launched",
) -> Table:
    """Time by any of process, thread, phase, operation, why, layer, resource and iteration.

    A process is summarised by one thread (docs/analysis.md says which); with `thread` in `by` all threads are
    listed. Leaving out `process` adds processes up. `view` says which device streams make a thread's device
    busy: those it launched on, or all of its process. `count` is how many operations began there, `calls` how many
    native calls. No time is below nothing: what the correction asked for beyond what was there is `uncorrected_ns`.

    >>> run.breakdown(by="operation").select("operation", "ns")
    operation          ns
                     4290
    simulation       2910
    backpropagation  1200
    inference         600
    """
    if isinstance(by, str):
        by = (by,)
    else:
        by = tuple(by)
    unknown = [name for name in by if name not in (*DIMENSIONS, "iteration")]
    if unknown:
        raise CutawayError(
            f"There is no dimension {unknown[0]!r}; use any of {', '.join(DIMENSIONS)}."
        )
    if view not in VIEWS:
        raise CutawayError(f"There is no view {view!r}; use 'launched' or 'process'.")
    swept = run.swept
    cells = run.rows(run.swept.cells)
    if "iteration" in by:
        swept = sweep(run.trace, run.swept, by_iteration=True)
        cells = select(swept.cells, in_part(swept, run.part))
    if "thread" not in by:
        cells = select(cells, swept.summary_threads[cells["thread"]])
    thread = cells["thread"]
    process = swept.threads["process"][cells["thread"]]

    def dimension(name: str) -> NDArray[Any]:
        if name in ("phase", "operation"):
            return swept.names.texts(cells[name])
        if name == "layer":
            return objects(THREAD_LAYERS)[cells["layer"]]
        if name == "resource":
            return resources(cells["blocked"], cells[VIEWS[view]])
        if name == "why":  # time outside any operation has no reason
            return np.where(cells["operation"] > 0, objects(REASONS)[cells["why"]], "")
        iteration = np.where(cells["slice"] == NO_ITERATION, 0, cells["slice"])
        return {"process": process, "thread": thread, "iteration": iteration}[
            name
        ].astype(np.int64)

    corrected = correct(cells, run.costs)
    divided = bool({"operation", "why", "layer", "resource"} & {*by})
    figures: Columns = {
        "ns": corrected.ns,
        "raw_ns": cells["ns"],
        "low_ns": corrected.low,
        "high_ns": corrected.high,
        "count": cells["begun"],
        "calls": cells["calls"] + cells["api_calls"],
        "per_iteration_ns": corrected.ns / recorded_iterations(run)[process],
        "_variance": cells["variance"] * divided,
    }
    table = Table({name: dimension(name) for name in by} | figures).group(
        by, list(figures)
    )
    table = _widen(table)
    times = {
        name: np.maximum(table[name], 0)
        for name in ("ns", "low_ns", "high_ns", "per_iteration_ns")
    }
    table = table.with_columns({**times, "uncorrected_ns": np.maximum(-table["ns"], 0)})
    table = table.where((table["raw_ns"] > 0) | (table["calls"] > 0)).sort(
        "ns", descending=True
    )
    if "process" in by:
        return table.sort("process")
    return table


def _widen(table: Table) -> Table:
    """Adds to the intervals what dividing time by samples leaves open."""
    half = np.rint(np.sqrt(table["_variance"])).astype(np.int64)
    low = np.maximum(table["low_ns"] - half, 0)
    high = table["high_ns"] + half
    kept = [name for name in table.columns if name != "_variance"]
    return table.with_columns({"low_ns": low, "high_ns": high}).select(*kept)


def resources(blocked: NDArray[Any], busy: NDArray[Any]) -> NDArray[Any]:
    """Who works, the thread, the device, both or none."""
    return np.asarray(objects(tuple(RESOURCES))[2 * blocked + (busy ^ blocked)])


def operations(run: Run) -> Table:
    """Operations by process: how often, and how long with nested operations (`total_ns`) and without (`self_ns`).

    One inside another of the same name counts once. Quantiles are those of the steady state where there is any. All times
    are corrected.

    >>> run.operations().select("process", "operation", "count", "total_ns", "self_ns")
    process  operation        count  total_ns  self_ns
          0  simulation           3      1200     1200
          0  backpropagation      3      1200     1200
          2  simulation           3      1140     1140
          0  inference            3       600      600
          1  simulation           3       570      570
    """
    swept = run.swept
    costs = run.costs or Costs()
    rows = run.rows(swept.operations)
    cells = run.rows(swept.cells)
    first, of = Table(rows).groups(("process", "operation"))
    order = np.argsort(rows["slice"] == STEADY, kind="stable")
    last = np.zeros(len(first), np.int64)
    last[of[order]] = order  # the row of the steady state, if there is one
    count = np.bincount(of, rows["count"], len(first))
    total = np.bincount(of, rows["total_ns"], len(first))
    summed = np.bincount(of, rows["sum_ns"], len(first))
    paid = np.bincount(of, _cost_of_recording(rows, costs), len(first))
    kept = np.clip(1 - paid / np.maximum(total, 1), 0, 1)
    process = rows["process"][first].astype(np.int64)
    operation = rows["operation"][first]
    own = _own_time(swept, cells, correct(cells, costs).ns)
    named = zip(process.tolist(), operation.tolist(), strict=True)
    table = Table(
        {
            "process": process,
            "operation": swept.names.texts(operation),
            "count": count.astype(np.int64),
            "total_ns": np.rint(total * kept).astype(np.int64),
            "self_ns": np.array([max(own.get(key, 0), 0) for key in named], np.int64),
            "mean_ns": summed * kept / np.maximum(count, 1),
            "p50_ns": np.rint(rows["p50_ns"][last] * kept).astype(np.int64),
            "p95_ns": np.rint(rows["p95_ns"][last] * kept).astype(np.int64),
        }
    )
    return table.sort("self_ns", descending=True)


def _cost_of_recording(rows: Columns, costs: Costs) -> NDArray[np.float64]:
    """Both parts of the events inside an operation, and the inner part of its own."""
    cost = np.zeros(len(rows["outer"]))
    if "operation" in costs.inside:
        cost += rows["outer"] * costs.inside["operation"].ns
    for side in (costs.inside, costs.outside):
        paid = np.zeros(len(cost))
        for kind in KINDS:
            if kind in side:
                paid += rows[f"{kind}s"] * side[kind].ns
        cost += paid
    return cost


def _own_time(
    swept: Swept, cells: Columns, ns: NDArray[np.int64]
) -> dict[tuple[int, int], int]:
    """By process and operation, over all threads."""
    process = swept.threads["process"][cells["thread"]]
    keys = zip(process.tolist(), cells["operation"].tolist(), strict=True)
    return totals(zip(keys, ns.tolist(), strict=True))


def in_part(swept: Swept, part: str) -> NDArray[np.bool_]:
    """Which cells of a sweep by iteration lie in this part of the run."""
    slices = swept.cells["slice"]
    if part == "all" or not len(swept.pace.iterations["process"]):
        return np.full(len(slices), part in ("all", "steady"))
    first_steady = _first_steady_iterations(swept)
    early = slices < first_steady[swept.threads["process"][swept.cells["thread"]]]
    over = slices == NO_ITERATION
    return np.asarray(
        {"startup": early & ~over, "steady": ~early & ~over, "shutdown": over}[part]
    )


def _first_steady_iterations(swept: Swept) -> NDArray[np.int64]:
    """Of each process, the number of the iteration that ends its start-up; one that marks none follows the first that does."""
    found = swept.pace.iterations
    ends_startup = found["known"] == swept.pace.own_steady[found["process"]]
    process, row = np.unique(found["process"][ends_startup], return_index=True)
    number = found["number"][ends_startup].astype(np.int64)
    if len(number):
        leading = number[0]
    else:
        leading = NO_ITERATION
    out = np.full(len(swept.pace.own_steady), leading, np.int64)
    out[np.unique(found["process"])] = NO_ITERATION
    out[process] = number[row]
    return out


def recorded_iterations(run: Run) -> NDArray[np.float64]:
    """How many iterations each process has recorded, parts added up; one that counts none (a worker) has as many as
    the process that counts most. NaN if nobody counts."""
    table = run.iterations()
    out = np.zeros(len(run.trace.processes))
    np.add.at(
        out,
        table["process"].astype(np.int64),
        (table["recorded"] * table["count"]).astype(float),
    )
    out[out == 0] = out.max(initial=0) or np.nan
    return out
