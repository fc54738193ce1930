"""Your functions by how much the time in and below them changed from A to B."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutaway.analysis.noise import RUN_TO_RUN

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Z95 = 1.96


@dataclass
class _Spent:
    """Nanoseconds a unit in one of your functions, on both sides."""

    inside: dict[str, list[float]] = field(default_factory=dict)
    """By what ran in it, in A and in B."""
    variance: float = 0.0
    """Because samples divide the time."""

    def add(self, side: int, what: str, ns: float, samples: int) -> None:
        self.inside.setdefault(what, [0.0, 0.0])[side] += ns
        if samples:  # time that samples did not divide is exact
            self.variance += ns**2 / samples

    def total(self, side: int) -> float:
        return sum(both[side] for both in self.inside.values())

    def most_changed(self) -> str:
        changes = {what: abs(b - a) for what, (a, b) in self.inside.items()}
        return max(changes, key=lambda what: changes[what])


def changed_functions(
    sides: Sequence[Sequence[Run]], units: Sequence[float], floor: float
) -> list[dict[str, Any]]:
    """The largest change first, per unit of all processes, with what changed most inside.

    The 95 % interval is that of the samples, widened by `floor`: what runs differ by,
    relative.
    """
    spent: defaultdict[tuple[str, str], _Spent] = defaultdict(_Spent)
    for side, runs in enumerate(sides):
        for row in _rows(runs):
            what = row["native"] or row["function"]
            ns = row["ns"] / units[side]
            spent[row["operation"], _place(row)].add(side, what, ns, row["samples"])
    noise = max(floor, RUN_TO_RUN)
    found = [_changed(*place, one, noise) for place, one in spent.items()]
    return sorted(found, key=lambda changed: -abs(changed["change_ns"]))


def _rows(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    for run in runs:
        yield from run.steady().lines(by="function")


def _place(row: dict[str, Any]) -> str:
    """Your function and its file, or a native function that no sample explains."""
    if row["your_file"]:
        return f"{row['your_function']} ({row['your_file'].rpartition('/')[2]})"
    return str(row["native"] or "(not sampled)")


def _changed(
    operation: str, function: str, spent: _Spent, noise: float
) -> dict[str, Any]:
    a = spent.total(0)
    b = spent.total(1)
    half = Z95 * math.sqrt(spent.variance) + noise * max(a, b)
    most = spent.most_changed()
    itself = most in (function, function.partition(" (")[0])
    return {
        "operation": operation,
        "function": function,
        "inside": "" if itself else most,
        "a_ns": a,
        "b_ns": b,
        "change_ns": b - a,
        "low_ns": max(b - a - half, -a),
        "high_ns": b - a + half,
    }
