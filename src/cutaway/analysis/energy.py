"""Energy by operation, from counter readings and device work.

Method, said with every result: an energy counter tells how much was used between two readings. Readings are joined into
windows of at least ten seconds, because the sensors behind the counters look only part of the time. The energy of a window
is divided among the operations by the time they kept the device busy in it; what is used while nothing runs belongs to
no operation. Where no counter exists the answer is `None`, shown as "unavailable", never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway.analysis.intervals import covered, union
from cutaway.analysis.processes import samples_in
from cutaway.analysis.table import totals

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Samples = list[dict[str, Any]]

METHOD = (
    "energy counter differences over windows of 10 s or more, divided by device busy time of each operation"
)
MIN_WINDOW_NS = 10_000_000_000
IDLE = "(idle)"


def windows(time_ns: ArrayLike, energy_mj: ArrayLike, least_ns: int = MIN_WINDOW_NS) -> NDArray[np.int64]:
    """Rows of (start, end, millijoules) between readings of a counter. A counter that went back (the driver was loaded
    anew) begins afresh; the rest behind the last full window is joined to it.

    >>> windows([0, 6, 12, 15], [100, 160, 220, 250], least_ns=10).tolist()
    [[0, 15, 150]]
    """
    times, counts = np.asarray(time_ns, np.int64), np.asarray(energy_mj, np.int64)
    rows: list[list[int]] = []
    first = 0
    for i in range(1, len(times)):
        if counts[i] < counts[i - 1]:
            first = i
        elif times[i] - times[first] >= least_ns:
            rows.append([int(times[first]), int(times[i]), int(counts[i] - counts[first])])
            first = i
    if rows and first < len(times) - 1 and rows[-1][1] == times[first]:
        rows[-1][1] = int(times[-1])
        rows[-1][2] += int(counts[-1] - counts[first])
    elif not rows and first < len(times) - 1:
        rows.append([int(times[first]), int(times[-1]), int(counts[-1] - counts[first])])
    return np.asarray(rows, np.int64).reshape(-1, 3)


def energy_by_operation(
    readings: tuple[ArrayLike, ArrayLike] | None,
    busy: Mapping[str, ArrayLike],
    least_ns: int = MIN_WINDOW_NS,
) -> dict[str, float] | None:
    """Joules of each operation, and of idleness; `busy` holds the intervals of device work by operation.

    >>> energy_by_operation(([0, 10], [0, 9000]), {"inference": [(0, 2)], "backpropagation": [(2, 6)]}, 10)
    {'inference': 3.0, 'backpropagation': 6.0, '(idle)': 0.0}
    >>> energy_by_operation(None, {}) is None
    True
    """
    spans = windows(*readings, least_ns=least_ns) if readings else windows([], [])
    if len(spans) == 0:
        return None
    shares = np.array([_busy_in(spans, work) for work in busy.values()]).reshape(len(busy), len(spans))
    together = shares.sum(axis=0)
    joules = spans[:, 2] / 1000.0
    portions = np.where(together > 0, joules / np.maximum(together, 1), 0.0)
    out = {name: float((shares[i] * portions).sum()) for i, name in enumerate(busy)}
    out[IDLE] = float(joules[together == 0].sum())
    return out


def energy(run: Run) -> dict[str, Any]:
    """Joules of the GPUs, by operation, and of the CPUs; None if no meter could be read.

    >>> run.energy()["gpu_joules"] is None
    True
    """
    # In order of time: another process may have gone on sampling when the first one ended.
    samples = sorted((sample for _, sample in samples_in(run)), key=lambda sample: int(sample["t"]))
    devices = sorted(_gpu_readings(samples).items())
    used = [_used(run, device, readings) for device, readings in devices]
    gpus = totals(pair for of_device in used for pair in of_device.items())
    return {"gpu_joules": gpus or None, "cpu_joules": _cpu_joules(samples), "method": METHOD}


def _used(run: Run, device: int, readings: tuple[list[int], list[int]]) -> dict[str, float]:
    """Of a run that keeps totals only, all time is one window."""
    if not any(run.swept.device_totals):
        return energy_by_operation(readings, _busy(run, device)) or {}
    times, counts = readings
    if not times or counts[-1] < counts[0]:
        return {}
    first, busy = times[0], run.device_time(layers=False).where(device=device)
    spans = {row["operation"]: [(first, first + row["ns"])] for row in busy}
    ends = [first, max(times[-1], first + int(busy["ns"].max(initial=0)))]
    return energy_by_operation((ends, [counts[0], counts[-1]]), spans) or {}


def _gpu_readings(samples: Samples) -> dict[int, tuple[list[int], list[int]]]:
    out: dict[int, tuple[list[int], list[int]]] = {}
    for t, gpu in ((sample["t"], gpu) for sample in samples for gpu in sample.get("gpu") or []):
        if isinstance(gpu, dict) and isinstance(gpu.get("energy_mj"), int):
            times, counts = out.setdefault(int(gpu.get("id", 0)), ([], []))
            times.append(t)
            counts.append(gpu["energy_mj"])
    return out


def _cpu_joules(samples: Samples) -> float | None:
    """Of the packages; memory and core counters are parts of these or stand beside them in ways that differ by maker."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for name, value in (pair for sample in samples for pair in (sample.get("rapl_uj") or {}).items()):
        if str(name).startswith("package") and isinstance(value, int):
            first.setdefault(name, value)
            last[name] = value
    return sum(last[name] - first[name] for name in last) / 1e6 if last else None


def _busy(run: Run, device: int) -> dict[str, NDArray[np.int64]]:
    """The intervals of a device's work by launching operation."""
    found: dict[str, list[NDArray[np.int64]]] = {}
    for process, work in zip(run.trace.processes, run.swept.devices, strict=True):
        mine = work.busy & (work.records["device"] == device)
        for operation in np.unique(work.operation).tolist():
            records = work.records[mine & (work.operation == operation)]
            rows = np.stack([records["start"], records["end"]], axis=1).astype(np.int64)
            found.setdefault(process.log.name(operation), []).append(rows)
    return {name: np.concatenate(rows) for name, rows in found.items()}


def _busy_in(spans: NDArray[np.int64], work: ArrayLike) -> NDArray[np.int64]:
    """Length of the work in each window."""
    rows = np.asarray(work, np.int64).reshape(-1, 2)
    merged = union(rows[:, 0], rows[:, 1])
    return covered(merged, spans[:, 1]) - covered(merged, spans[:, 0])
