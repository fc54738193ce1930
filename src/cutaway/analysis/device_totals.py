"""How much memory each device had in use, and how much of that was not the framework's."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from cutaway.analysis.memory import Course, added
from cutaway.analysis.table import Table
from cutaway.trace.log import Log

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

COLUMNS = ("device", "framework", "in_use", "outside")
_LARGEST = 1 << 60
_Point = tuple[int, int]


def device_totals(run: Run) -> Table:
    """What frameworks had taken from each device at most, what was in use there at most (NVML), and what of that was not theirs.
    Recorded while PyTorch or JAX has memory on a device.

    >>> len(run.device_totals())
    0
    """
    logs = [process.log for process in run.trace.processes]
    taken: defaultdict[int, list[Course]] = defaultdict(list)
    for log in logs:
        for device, points in _taken(log).items():
            taken[device].append(_course(points))
    in_use = _in_use(logs)
    rows = []
    for device in sorted(taken):
        framework = added(taken[device])
        whole = _course(in_use.get(device, []))
        rows.append((device, round(framework.most), *_outside(framework, whole)))
    return Table.from_rows(COLUMNS, rows)


def _outside(framework: Course, whole: Course) -> tuple[float, float]:
    if not len(whole.t_ns):
        return float("nan"), float("nan")
    fullest = int(whole.t_ns[int(np.argmax(whole.bytes))])
    return whole.most, max(0.0, whole.most - framework.at(fullest))


def _taken(log: Log) -> dict[int, list[_Point]]:
    """What the frameworks of a process had taken, by device."""
    found: defaultdict[int, list[_Point]] = defaultdict(list)
    for entry in log.others:
        if entry["k"] != "device_use" or not entry.get("t"):
            continue
        rows = entry.get("rows")
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, list) and len(row) == 3 and all(map(_is_size, row[1:])):
                found[row[0]].append((entry["t"], row[2]))
    return found


def _in_use(logs: list[Log]) -> dict[int, list[_Point]]:
    """What NVML said, by device; one process of a run asks at a time."""
    found: defaultdict[int, list[_Point]] = defaultdict(list)
    for log in logs:
        for sample in log.samples:
            for gpu in sample.get("gpu", ()):
                if sample.get("t") and _is_size(gpu.get("memory")):
                    found[int(gpu.get("id", 0))].append((sample["t"], gpu["memory"]))
    return found


def _course(points: list[_Point]) -> Course:
    ordered = sorted(points)
    times = np.array([t for t, _ in ordered], np.int64)
    return Course(times, np.array([size for _, size in ordered], np.float64))


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < _LARGEST
