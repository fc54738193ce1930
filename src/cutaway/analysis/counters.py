"""Hardware counters by operation and kernel: how well the device is used while it is busy.

A file of counters may tell the launch of a kernel (`correlation`), or only its name. In the second case a kernel belongs to every
operation that launched a kernel of that name anywhere in the run, so that counters can be imported together with a trace of
the same program. Samples of a whole device belong to the kernels that ran at their moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.hardware import AMOUNTS, MEASURES, SHARES, measure
from cutaway.analysis.table import Table
from cutaway.trace.format import Structured
from cutaway.trace.reader import ProcessTrace
from cutaway.vocabulary import DeviceKind

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_REPLAYED = "counters"
_IN_PLACE = "counters_in_place"
_SAMPLES = "counter_samples"
COLUMNS = ("operation", "kernel", "count", "ns", *MEASURES, "tflops", "gbs")
_MOST_VALUES = 4096  # of one kernel; a file with more is not a counter file
_MOST_AT_ONCE = 4096  # kernels that began before a moment are looked at for it
_LAST = 1 << 62


@dataclass
class Measured:
    """The counters of all dispatches of one kernel in one operation."""

    count: int = 0
    ns: int = 0
    weight: float = 0.0
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    means: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    told: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, values: dict[str, float], ns: int) -> None:
        """One more dispatch. Counts add up; rates are averaged by time, or by dispatch where no time is known."""
        weight = float(ns) or 1.0
        self.count += 1
        self.ns += ns
        for name, value in values.items():
            if is_count(name):
                self.sums[name] += value
            else:
                self.means[name] += weight * value
                self.told[name] += weight

    def values(self) -> dict[str, float]:
        """The counters of all dispatches together."""
        means = {name: total / self.told[name] for name, total in self.means.items()}
        return {**self.sums, **means, "ns": float(self.ns)}


def is_count(counter: str) -> bool:
    """Whether a counter counts something, so that several kernels add up; the others are rates.

    >>> [is_count(name) for name in ("dram__bytes_read.sum", "SQ_WAVES", "lts__t_sector_hit_rate.pct")]
    [True, True, False]
    """
    return (
        counter.endswith((".sum", "_sum"))
        or counter.isupper()
        or counter in ("flops", "bytes_accessed")
    )


def counters(run: Run) -> Table:
    """Hardware counters by operation and kernel, longest first; `count` dispatches or samples were measured.

    Shares are between 0 and 1. `flops` and `bytes` are those of one dispatch; `tflops` and `gbs` are what that makes in a second.
    NaN: the recorded counters do not show it.

    >>> len(run.counters())
    0
    """
    found: dict[tuple[str, str], Measured] = defaultdict(Measured)
    for key, values, ns in _dispatches(run):
        found[key].add(values, ns)
    rows = [
        _row(operation, kernel, measured)
        for (operation, kernel), measured in found.items()
    ]
    rows.sort(key=lambda row: (-row[3], -row[2], row[0], row[1]))
    return Table.from_rows(COLUMNS, rows)


@dataclass(frozen=True)
class Use:
    """How well the kernels of a run use the device, on average over their time; None without counters for it.

    `replayed`: each kernel ran alone, several times, to read its counters, so the times of this run are not those of the training.
    """

    replayed: bool
    kernels: int
    mean_us: float | None
    compute: float | None
    dram: float | None
    occupancy: float | None
    largest: str  # the kernel with the most time

    @property
    def of_peak(self) -> float | None:
        """What the kernels reach of the nearer of two peaks, compute and device memory; None unless both are known."""
        if self.compute is None or self.dram is None:
            return None
        return max(self.compute, self.dram)


def device_use(run: Run) -> Use | None:
    """The counters of a run in a few figures; None for a run without counters."""
    if not has_counters(run):
        return None
    table = counters(run)
    total_ns = int(table["ns"].sum())
    total = int(table["count"].sum())
    if total_ns:
        weight = table["ns"]
    else:
        weight = table["count"]
    return Use(
        replayed=is_replayed(run),
        kernels=total,
        mean_us=total_ns / total / 1e3 if total_ns else None,
        compute=_mean(table["compute"], weight),
        dram=_mean(table["dram"], weight),
        occupancy=_mean(table["occupancy"], weight),
        largest=str(table["kernel"][0]) if len(table) else "",
    )


def _mean(values: NDArray[Any], weight: NDArray[Any]) -> float | None:
    """The mean of what is known, if that is at least half of the weight."""
    known = ~np.isnan(values)
    if weight[known].sum() < 0.5 * weight.sum() or not known.any():
        return None
    return float(np.average(values[known], weights=weight[known]))


def _row(operation: str, kernel: str, measured: Measured) -> tuple[Any, ...]:
    values = measured.values()
    shares = [measure(values, name) for name in SHARES]
    amounts = [measure(values, name) for name in AMOUNTS]
    flops, moved = amounts
    if (
        "bytes_accessed" in values
    ):  # counts on-chip memory, and copies that go on meanwhile
        moved = nan
    tflops = gbs = nan
    if measured.ns:
        tflops = flops / measured.ns / 1e3
        gbs = moved / measured.ns
    each = [amount / measured.count for amount in amounts]
    return (operation, kernel, measured.count, measured.ns, *shares, *each, tflops, gbs)


def _dispatches(run: Run) -> Iterator[tuple[tuple[str, str], dict[str, float], int]]:
    """Every measured dispatch: operation and kernel, its counters, how long it ran (0: unknown)."""
    if has_counters(run):
        by_name = _operations_by_kernel(run)
    else:
        by_name = {}
    for process in run.trace.processes:
        launched = _operations_by_launch(process)
        for name, correlation, ns, values in _counted(process):
            known = launched.get(correlation)
            if known is not None:
                operations = [known]
            else:
                operations = by_name.get(name, [""])
            for operation in operations:
                yield (operation, name), values, ns
    yield from _sampled(run)


def has_counters(run: Run) -> bool:
    """Whether the run has counters of single kernels or of a device."""
    for process in run.trace.processes:
        for _ in _entries(process, _REPLAYED, _IN_PLACE, _SAMPLES):
            return True
    return False


def is_replayed(run: Run) -> bool:
    """Whether counters were read by running each kernel alone, several times: then times are not those of the training."""
    for process in run.trace.processes:
        for _ in _entries(process, _REPLAYED):
            return True
    return False


def _entries(
    process: ProcessTrace, *kinds: str
) -> Iterator[tuple[list[str], list[Any]]]:
    """Metrics and rows of the valid entries; Cutaway did not write the others."""
    for entry in process.log.others:
        metrics = entry.get("metrics")
        rows = entry.get("rows")
        if entry["k"] not in kinds:
            continue
        if not isinstance(metrics, list) or not isinstance(rows, list):
            continue
        if len(metrics) <= _MOST_VALUES and all(isinstance(m, str) for m in metrics):
            yield metrics, rows


def _counted(process: ProcessTrace) -> Iterator[tuple[str, Any, int, dict[str, float]]]:
    for metrics, rows in _entries(process, _REPLAYED, _IN_PLACE):
        for name, _, correlation, ns, *values in _of_length(rows, 4 + len(metrics)):
            yield (
                process.log.name(name),
                correlation,
                ns,
                dict(zip(metrics, values, strict=True)),
            )


def _of_length(rows: list[Any], length: int) -> Iterator[list[Any]]:
    for row in rows:
        if isinstance(row, list) and len(row) == length:
            yield row


def _operations_by_launch(process: ProcessTrace) -> dict[Any, str]:
    """The operation of each launch of a process that has counters."""
    if not any(True for _ in _entries(process, _REPLAYED, _IN_PLACE)):
        return {}
    calls = process.api()
    launches = calls["correlation"].tolist()
    names = [process.log.name(id) for id in calls["operation"].tolist()]
    return {
        launch: name for launch, name in zip(launches, names, strict=True) if launch
    }


def _operations_by_kernel(run: Run) -> dict[str, list[str]]:
    """The operations that launched kernels of a name, anywhere in the run."""
    work = run.whole.kernels()
    found: dict[str, set[str]] = defaultdict(set)
    for name, operation in zip(
        work["name"].tolist(), work["operation"].tolist(), strict=True
    ):
        if operation:
            found[name].add(operation)
    return {name: sorted(operations) for name, operations in found.items()}


class _Running:
    """The kernels of one device, to be asked which of them ran at some moments."""

    def __init__(self, work: Structured, keys: list[tuple[str, str]]) -> None:
        order = np.argsort(work["start"], kind="stable")
        self.start = work["start"][order].astype(np.int64)
        self.end = work["end"][order].astype(np.int64)
        if len(order):
            self.latest = np.maximum.accumulate(self.end)
        else:
            self.latest = self.end
        self.keys = [keys[i] for i in order.tolist()]

    def at(self, t: NDArray[np.int64]) -> Iterator[tuple[int, tuple[str, str]]]:
        """Positions in `t`, each with a kernel that ran then; kernels of several streams may run at once."""
        last = np.searchsorted(self.start, t, side="right") - 1
        asked = np.flatnonzero(last >= 0)
        for _ in range(_MOST_AT_ONCE):
            asked = asked[self.latest[last[asked]] > t[asked]]
            if not len(asked):
                return
            for position in asked[self.end[last[asked]] > t[asked]].tolist():
                yield position, self.keys[last[position]]
            last[asked] -= 1
            asked = asked[last[asked] >= 0]


def _sampled(run: Run) -> Iterator[tuple[tuple[str, str], dict[str, float], int]]:
    """Samples of a device, each for the kernels that ran at its moment, whichever process launched them."""
    for host in _hosts(run):
        running: dict[int, _Running] = {}
        for metrics, rows in _samples_of(host):
            fine = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
            for device in np.unique(fine[:, 1]).tolist():
                if device not in running:
                    running[device] = _kernels_on(host, device)
                own = np.flatnonzero(fine[:, 1] == device)
                for position, key in running[device].at(fine[own, 0]):
                    values = rows[own[position]][2:]
                    yield key, dict(zip(metrics, values, strict=True)), 0


def _hosts(run: Run) -> list[list[ProcessTrace]]:
    """The processes of each host: devices are numbered by host."""
    found: defaultdict[str, list[ProcessTrace]] = defaultdict(list)
    for process in run.trace.processes:
        found[str(process.log.process.get("host", ""))].append(process)
    return list(found.values())


def _samples_of(
    processes: list[ProcessTrace],
) -> Iterator[tuple[list[str], list[list[Any]]]]:
    for process in processes:
        for metrics, rows in _entries(process, _SAMPLES):
            sound = [
                row for row in _of_length(rows, 2 + len(metrics)) if _is_sample(row)
            ]
            yield metrics, sound


def _is_sample(row: list[Any]) -> bool:
    return all(type(value) is int and 0 <= value < _LAST for value in row[:2]) and all(
        isinstance(value, (int, float)) for value in row[2:]
    )


def _kernels_on(processes: list[ProcessTrace], device: int) -> _Running:
    parts = []
    keys: list[tuple[str, str]] = []
    for process in processes:
        work = process.device()
        own = work[(work["kind"] == DeviceKind.KERNEL) & (work["device"] == device)]
        parts.append(own)
        name = process.log.name
        ids = zip(own["operation"].tolist(), own["name"].tolist(), strict=True)
        keys += [(name(operation), name(kernel)) for operation, kernel in ids]
    return _Running(np.concatenate(parts), keys)
