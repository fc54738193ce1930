"""Who kept whom waiting, host or device, by the operation that launches. Pure: tables in, a table out.

GPU-bound time: the device works while the launching thread waits for it. CPU-launch-bound time: the device idles while
the thread is still in Python or the backend of an operation that launches work. Latency and queue depth of each kernel
are columns of `Run.kernels()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutaway.analysis.table import Table

NAMES = ("process", "operation", "count", "gpu_bound_ns", "cpu_launch_bound_ns", "launch_ns")
_PREPARING = ("python", "backend")


def launches(cells: Table, work: Table) -> Table:
    """One row for each operation that launches, or that waits for the device, longest bound first.

    `cells` is a breakdown by process, operation, layer and resource; `work` the table of kernels. `launch_ns` is the mean
    time from the end of a launching call to the start of its work, NaN where the operation launched nothing.
    """
    launched: dict[tuple[int, str], list[float]] = {}
    for row in work:
        entry = launched.setdefault((row["process"], row["operation"]), [0, 0.0, 0])
        entry[0] += row["count"]
        if not np.isnan(row["launch_ns"]):
            entry[1] += row["launch_ns"] * row["count"]
            entry[2] += row["count"]
    bound: dict[tuple[int, str], list[int]] = {key: [0, 0] for key in launched}
    for cell in cells:
        key = (cell["process"], cell["operation"])
        if cell["resource"] == "gpu":
            bound.setdefault(key, [0, 0])[0] += cell["ns"]
        elif cell["resource"] == "cpu" and cell["layer"] in _PREPARING and key in launched:
            bound[key][1] += cell["ns"]
    rows: list[tuple[Any, ...]] = []
    for (process, operation), (gpu, cpu) in bound.items():
        count, waited, known = launched.get((process, operation), [0, 0.0, 0])
        rows.append((process, operation, int(count), gpu, cpu, waited / known if known else np.nan))
    rows.sort(key=lambda row: -max(row[3], row[4]))
    return Table.from_rows(NAMES, rows)
