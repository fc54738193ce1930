"""Operations: how often, how long, and how much of it was their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import names_of, texts
from cutaway.analysis.correction import KINDS, correct
from cutaway.analysis.sweep import STEADY, Swept
from cutaway.analysis.table import Table
from cutaway.calibration.costs import Costs
from cutaway.trace.reader import Trace

Mask = NDArray[np.bool_]


def operations(
    trace: Trace, swept: Swept, kept_operations: Mask, kept_cells: Mask, costs: Costs | None
) -> Table:
    """One row for each operation of each process. `total_ns` includes what is nested inside, `self_ns` does not; one inside
    another of the same name counts once. Quantiles are those of the steady state where there is any. All times are
    corrected."""
    rows = {name: values[kept_operations] for name, values in swept.operations.items()}
    key = rows["process"].astype(np.int64) << 32 | rows["operation"]
    distinct, of = np.unique(key, return_inverse=True)
    order = np.argsort(rows["slice"] == STEADY, kind="stable")
    last = np.zeros(len(distinct), np.int64)
    last[of[order]] = order  # the row of the steady state, if there is one
    totals = {name: np.bincount(of, rows[name], len(distinct)) for name in ("count", "total_ns", "sum_ns")}
    paid = np.bincount(of, _paid(rows, costs), len(distinct))
    kept = np.clip(1 - paid / np.maximum(totals["total_ns"], 1), 0, 1)
    process = distinct >> 32
    name = texts(trace, process, distinct & 0xFFFFFFFF)
    own = _self_times(trace, swept, kept_cells, costs)
    return Table(
        {
            "process": process,
            "operation": name,
            "count": totals["count"].astype(np.int64),
            "total_ns": np.rint(totals["total_ns"] * kept).astype(np.int64),
            "self_ns": np.array(
                [own.get(k, 0) for k in zip(process.tolist(), name.tolist(), strict=True)], np.int64
            ),
            "mean_ns": totals["sum_ns"] * kept / np.maximum(totals["count"], 1),
            "p50_ns": np.rint(rows["p50_ns"][last] * kept).astype(np.int64),
            "p95_ns": np.rint(rows["p95_ns"][last] * kept).astype(np.int64),
        }
    ).sort("self_ns", descending=True)


def _paid(rows: dict[str, NDArray[Any]], costs: Costs | None) -> NDArray[np.float64]:
    """What recording cost within the operations: both parts of the events inside them, and the inner part of their own."""
    total = np.zeros(len(rows["count"]))
    if costs is None:
        return total
    for kind in KINDS:
        for side in (costs.inside, costs.outside):
            total += rows[f"{kind}s"] * (side[kind].ns if kind in side else 0.0)
    return total + rows["outer"] * (costs.inside["operation"].ns if "operation" in costs.inside else 0.0)


def _self_times(trace: Trace, swept: Swept, keep: Mask, costs: Costs | None) -> dict[tuple[int, str], int]:
    cells = {name: values[keep] for name, values in swept.cells.items()}
    table = Table(
        {
            "process": swept.threads["process"][cells["thread"]].astype(np.int64),
            "operation": names_of(trace, swept, cells["thread"], cells["operation"]),
            "ns": correct(cells, costs).ns,
        }
    ).group(("process", "operation"), ["ns"])
    return {(row["process"], row["operation"]): max(row["ns"], 0) for row in table}
