"""Resident memory over time, drawn as a line over the lane of its process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cutaway.analysis import Run
from cutaway.analysis.memory import ProcessMemory

MOST_POINTS, LEAST_POINTS = 240, 24
ALL_POINTS = 12_000  # of all lines together: the page stays small
UNIT = 100_000  # bytes


def memory_lines(
    run: Run, rows: Mapping[int, int], origin_ns: int, until_s: float
) -> dict[str, Any] | None:
    """Lines by row (`rows`: of each process), as values at equal distances from the start of the lanes to `until_s`; 0 where the
    process did not live. None if memory was not sampled."""
    points = min(MOST_POINTS, max(LEAST_POINTS, ALL_POINTS // max(1, len(rows))))
    times = origin_ns + np.linspace(0.0, until_s * 1e9, points)
    lines = []
    for process, row in rows.items():
        course = ProcessMemory(run, process).resident
        if not len(course.t_ns):
            continue
        at = np.searchsorted(course.t_ns, times, side="right") - 1
        there = (at >= 0) & (times <= course.t_ns[-1] + (times[1] - times[0]))
        values = np.where(there, course.bytes[np.clip(at, 0, None)], 0.0)
        values_in_units = np.rint(values / UNIT).astype(int).tolist()
        lines.append({"row": row, "values": values_in_units})
    return {"unit": UNIT, "until": until_s, "lines": lines} if lines else None
