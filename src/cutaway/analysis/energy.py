"""Energy by operation, from counter readings and device work.

Method, said with every result: an energy counter tells how much was used between two readings. Readings are joined into
windows of at least ten seconds, because the sensors behind the counters look only part of the time. The energy of a window
is divided among the operations by the time they kept the device busy in it; what is used while nothing runs belongs to
no operation. Where no counter exists the answer is `None`, shown as "unavailable", never 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway.analysis.devices import UNATTRIBUTED, Busy
from cutaway.analysis.intervals import covered, union
from cutaway.analysis.processes import samples_in
from cutaway.analysis.table import totals

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

METHOD = "energy counter differences over windows of 10 s or more, divided by device busy time of each operation"
MIN_WINDOW_NS = 10_000_000_000
IDLE = "(idle)"


def windows(
    time_ns: ArrayLike, energy_mj: ArrayLike, least_ns: int = MIN_WINDOW_NS
) -> NDArray[np.int64]:
    """Rows of (start, end, millijoules) between readings of a counter. A counter that went back (the driver was loaded
    anew) begins afresh; the rest behind the last full window is joined to it.

    >>> windows([0, 6, 12, 15], [100, 160, 220, 250], least_ns=10).tolist()
    [[0, 15, 150]]
    """
    times = np.asarray(time_ns, np.int64).tolist()
    counts = np.asarray(energy_mj, np.int64).tolist()
    rows: list[list[int]] = []
    first = 0
    last = len(times) - 1
    for i in range(1, len(times)):
        went_back = counts[i] < counts[i - 1]
        is_full = times[i] - times[first] >= least_ns
        if went_back:
            first = i
        elif is_full or (i == last and not rows):
            rows.append([times[first], times[i], counts[i] - counts[first]])
            first = i
    goes_on = rows and rows[-1][1] == times[first]
    if first < last and goes_on:
        rows[-1][1] = times[last]
        rows[-1][2] += counts[last] - counts[first]
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
    spans = windows(*readings or ((), ()), least_ns=least_ns)
    if len(spans) == 0:
        return None
    merged = [
        union(*np.asarray(work, np.int64).reshape(-1, 2).T) for work in busy.values()
    ]
    inside = [covered(one, spans[:, 1]) - covered(one, spans[:, 0]) for one in merged]
    return _divided(spans, dict(zip(busy, inside, strict=True)))


def _divided(
    spans: NDArray[np.int64], busy: Mapping[str, NDArray[np.int64]]
) -> dict[str, float]:
    """The energy of windows, by how long each operation kept the device busy in them."""
    shares = np.array(list(busy.values())).reshape(len(busy), len(spans))
    together = shares.sum(axis=0)
    joules = spans[:, 2] / 1000.0
    portions = np.where(together > 0, joules / np.maximum(together, 1), 0.0)
    out = {}
    for name, share in zip(busy, shares, strict=True):
        out[name] = float((share * portions).sum())
    out[IDLE] = float(joules[together == 0].sum())
    return out


def energy(run: Run) -> dict[str, Any]:
    """Joules of the GPUs, by operation, and of the CPUs; None if no meter could be read.

    >>> run.energy()["gpu_joules"] is None
    True
    """
    # In order of time: another process may have gone on sampling when the first one ended.
    found = [sample for _, sample in samples_in(run)]
    found.sort(key=lambda sample: int(sample["t"]))
    gpus: dict[str, float] = {}
    for device, (times, counts) in sorted(_gpu_readings(found).items()):
        used = _used(run, device, times, counts)
        gpus = totals([*gpus.items(), *used.items()])
    cpus = _cpu_joules(found)
    return {"gpu_joules": gpus or None, "cpu_joules": cpus, "method": METHOD}


def _gpu_readings(
    samples: list[dict[str, Any]],
) -> dict[int, tuple[list[int], list[int]]]:
    """When the counter of each GPU was read, and what it said."""
    found: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for sample in samples:
        for gpu in sample.get("gpu") or []:
            if isinstance(gpu.get("energy_mj"), int):
                times, counts = found[int(gpu.get("id", 0))]
                times.append(sample["t"])
                counts.append(gpu["energy_mj"])
    return found


def _cpu_joules(samples: list[dict[str, Any]]) -> float | None:
    """Memory and core counters are left out: they are parts of the packages, or stand beside them, by maker."""
    packages: defaultdict[str, list[int]] = defaultdict(list)
    for sample in samples:
        for name, value in (sample.get("rapl_uj") or {}).items():
            if str(name).startswith("package") and isinstance(value, int):
                packages[name].append(value)
    if not packages:
        return None
    return sum(values[-1] - values[0] for values in packages.values()) / 1e6


def _used(
    run: Run, device: int, times: list[int], counts: list[int]
) -> dict[str, float]:
    """Joules of a device by launching operation; of a run that keeps totals, all time is one window."""
    if any(run.swept.devices.kept):
        whole = np.array([[times[0], times[-1], counts[-1] - counts[0]]], np.int64)
        busy = (
            run.device_time(layers=False)
            .where(device=device)
            .group(["operation"], ["ns"])
        )
        spent = {row["operation"]: np.array([row["ns"]]) for row in busy}
        if counts[-1] >= counts[0]:
            return _divided(whole, spent)
        return {}
    spans = windows(times, counts)
    if not len(spans):
        return {}
    edges, at = np.unique(spans[:, :2], return_inverse=True)
    title = {UNATTRIBUTED: ""}
    ask = Busy(
        by=("device", "operation"),
        edges=edges,
        title=lambda name: title.get(name, name),
    )
    (found,) = run.swept.devices.busy(ask)
    mine = found.where(device=device)
    before = np.cumsum(np.pad(mine["bins"], ((0, 0), (1, 0))), axis=1)
    first, last = at.reshape(-1, 2).T
    return _divided(
        spans,
        dict(zip(mine["operation"], before[:, last] - before[:, first], strict=True)),
    )
