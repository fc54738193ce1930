"""Operations: how often, how long, and how much of it was their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import names_of, texts
from cutaway.analysis.sweep import Swept
from cutaway.analysis.table import Table
from cutaway.trace.reader import Trace

Mask = NDArray[np.bool_]


def operations(trace: Trace, swept: Swept, kept_operations: Mask, kept_cells: Mask) -> Table:
    """One row for each operation of each process. `total_ns` includes what is nested inside, `self_ns` does not."""
    rows = {name: values[kept_operations] for name, values in swept.operations.items()}
    counted = Table(
        {
            "process": rows["process"].astype(np.int64),
            "operation": texts(trace, rows["process"], rows["operation"]),
            "count": rows["count"],
            "total_ns": rows["total_ns"],
            "p50_ns": rows["p50_ns"] * rows["count"],
            "p95_ns": rows["p95_ns"] * rows["count"],
        }
    ).group(("process", "operation"), ["count", "total_ns", "p50_ns", "p95_ns"])
    own = _self_times(trace, swept, kept_cells)
    keys = zip(counted["process"].tolist(), counted["operation"].tolist(), strict=True)
    count = np.maximum(counted["count"], 1)
    return Table(
        {
            "process": counted["process"],
            "operation": counted["operation"],
            "count": counted["count"],
            "total_ns": counted["total_ns"],
            "self_ns": np.array([own.get(key, 0) for key in keys], np.int64),
            "mean_ns": counted["total_ns"] / count,
            "p50_ns": counted["p50_ns"] // count,
            "p95_ns": counted["p95_ns"] // count,
        }
    ).sort("self_ns", descending=True)


def _self_times(trace: Trace, swept: Swept, keep: Mask) -> dict[tuple[int, str], int]:
    cells = {name: swept.cells[name][keep] for name in ("thread", "operation", "ns")}
    table = Table(
        {
            "process": swept.threads["process"][cells["thread"]].astype(np.int64),
            "operation": names_of(trace, swept, cells["thread"], cells["operation"]),
            "ns": cells["ns"],
        }
    ).group(("process", "operation"), ["ns"])
    return {(row["process"], row["operation"]): row["ns"] for row in table}
