"""Operations: how often, how long, and how much of it was their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.correction import KINDS, correct
from cutaway.analysis.sweep import STEADY, Columns
from cutaway.analysis.table import Table
from cutaway.calibration.costs import Costs

if TYPE_CHECKING:
    from cutaway.analysis.run import Run


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
    rows = run.rows(run.swept.operations)
    key = rows["process"].astype(np.int64) << 32 | rows["operation"]
    distinct, of = np.unique(key, return_inverse=True)
    order = np.argsort(rows["slice"] == STEADY, kind="stable")
    last = np.zeros(len(distinct), np.int64)
    last[of[order]] = order  # the row of the steady state, if there is one
    count, total, summed = (
        np.bincount(of, rows[name], len(distinct)) for name in ("count", "total_ns", "sum_ns")
    )
    paid = np.bincount(of, _paid(rows, run.costs), len(distinct))
    kept = np.clip(1 - paid / np.maximum(total, 1), 0, 1)
    process = distinct >> 32
    name = run.swept.text(process, distinct & 0xFFFFFFFF)
    own = _self_times(run)
    table = Table(
        {
            "process": process,
            "operation": name,
            "count": count.astype(np.int64),
            "total_ns": np.rint(total * kept).astype(np.int64),
            "self_ns": np.array([own.get(k, 0) for k in zip(process.tolist(), name, strict=True)], np.int64),
            "mean_ns": summed * kept / np.maximum(count, 1),
            "p50_ns": np.rint(rows["p50_ns"][last] * kept).astype(np.int64),
            "p95_ns": np.rint(rows["p95_ns"][last] * kept).astype(np.int64),
        }
    )
    return table.sort("self_ns", descending=True)


def _paid(rows: Columns, costs: Costs | None) -> NDArray[np.float64]:
    """What recording cost within the operations: both parts of the events inside them, and the inner part of their own."""
    total = np.zeros(len(rows["count"]))
    if costs is None:
        return total
    for kind in KINDS:
        total += rows[f"{kind}s"] * sum(
            side[kind].ns for side in (costs.inside, costs.outside) if kind in side
        )
    return total + rows["outer"] * (costs.inside["operation"].ns if "operation" in costs.inside else 0.0)


def _self_times(run: Run) -> dict[tuple[int, str], int]:
    cells, swept = run.rows(run.swept.cells), run.swept
    columns = {
        "process": swept.threads["process"][cells["thread"]].astype(np.int64),
        "operation": swept.thread_text(cells["thread"], cells["operation"]),
        "ns": correct(cells, run.costs).ns,
    }
    table = Table(columns).group(("process", "operation"), ["ns"])
    return {(row["process"], row["operation"]): max(row["ns"], 0) for row in table}
