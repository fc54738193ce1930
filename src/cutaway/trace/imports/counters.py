"""Hardware counters of kernels, as every reader of a foreign file produces them, and how they become part of a run.

A file may hold counters of single kernels (`Counted`), or of a device at certain moments (`Sampled`). Impossible values
(negative, infinite, beyond 1e18) are dropped and counted: nothing is invented.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cutaway.trace.writer import ProcessWriter

LARGEST = 1e18
_VALUES = 20_000  # of one log entry, which may be a megabyte long


@dataclass(frozen=True)
class Counted:
    """The counters of one kernel. `name` is a position in the texts of the file; `ns` is 0 and `correlation` None where the file
    does not tell them."""

    name: int
    values: dict[str, float]
    device: int = 0
    ns: int = 0
    correlation: int | None = None


@dataclass(frozen=True)
class Sampled:
    """The counters of a device at one moment; `t` is on the clock of the run."""

    t: int
    values: dict[str, float]
    device: int = 0


@dataclass
class Counters:
    """All counters of one process of a file.

    `replayed`: each kernel ran alone, several times, to be counted, so that times are not those of the program.
    """

    kernels: list[Counted] = field(default_factory=list)
    samples: list[Sampled] = field(default_factory=list)
    replayed: bool = True


def plausible(values: dict[str, float]) -> dict[str, float]:
    """The plausible values."""
    return {name: value for name, value in values.items() if _is_plausible(value)}


def _is_plausible(value: float) -> bool:
    return math.isfinite(value) and 0 <= value <= LARGEST


def number(text: Any) -> float:
    """A value as a number; NaN if it is not one.

    >>> number("16384.000000"), number("n/a")
    (16384.0, nan)
    """
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def write_counters(writer: ProcessWriter, counters: Counters, texts: list[str]) -> None:
    """Writes the counters into the log of a process, and a note if some had to be left out."""
    if counters.replayed:
        kind = "counters"
    else:
        kind = "counters_in_place"
    for metrics, group in _by_metrics(counters.kernels):
        rows = []
        for counted in group:
            if counted.name:
                name = writer.name(texts[counted.name])
            else:
                name = 0
            about = [name, counted.device, counted.correlation, counted.ns]
            rows.append([*about, *(counted.values[metric] for metric in metrics)])
        _write_rows(writer, kind, metrics, rows)
    for metrics, samples in _by_metrics(counters.samples):
        rows = []
        for sample in samples:
            values = [sample.values[metric] for metric in metrics]
            rows.append([sample.t, sample.device, *values])
        _write_rows(writer, "counter_samples", metrics, rows)
    told = [counted.values for counted in counters.kernels] + [
        sample.values for sample in counters.samples
    ]
    dropped = sum(len(values) - len(plausible(values)) for values in told)
    if dropped:
        text = f"{dropped} counter values are impossible (negative, too large, not a number) and were left out"
        writer.log("note", {"text": text})


def _by_metrics(entries: Iterable[Any]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """The entries that tell the same counters, together, without values that cannot be true."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for entry in entries:
        metrics = tuple(sorted(plausible(entry.values)))
        if metrics:
            groups.setdefault(metrics, []).append(entry)
    yield from groups.items()


def _write_rows(
    writer: ProcessWriter, kind: str, metrics: tuple[str, ...], rows: list[list[Any]]
) -> None:
    step = max(1, _VALUES // (len(metrics) + 4))
    for first in range(0, len(rows), step):
        writer.log(kind, {"metrics": metrics, "rows": rows[first : first + step]})
