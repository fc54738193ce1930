"""How much memory a whole run has, and which lines keep more of it in run B than in run A."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.memory import ProcessMemory

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

LEAST, LEAST_SHARE = 16_000_000, 0.05  # of bytes, and of A: less is no change
Where = tuple[str, str]  # function, name of its file
Line = tuple[str, int]


def total_over_time(
    processes: Sequence[ProcessMemory],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times, and the bytes of all processes together. What a process shares counts by its part, as last measured."""
    times = np.unique(np.concatenate([process.resident.t_ns for process in processes]))
    times = times[:: max(1, len(times) // 600)]
    total = np.zeros(len(times))
    for process in processes:
        course = process.resident
        own = process.counted
        at = np.searchsorted(course.t_ns, times, side="right") - 1
        there = (at >= 0) & (times <= course.t_ns[-1] + 10**9)
        shared = 0.0
        if len(own.t_ns):
            shared = max(0.0, course.at(float(own.t_ns[-1])) - own.last)
        total += there * np.maximum(0.0, course.bytes[np.clip(at, 0, None)] - shared)
    return times, total


def peak(run: Run) -> int:
    """The most bytes that all processes of a run had together; 0 where nothing was sampled."""
    processes = [ProcessMemory(run, index) for index in range(len(run.trace.processes))]
    sampled = [process for process in processes if len(process.resident.t_ns)]
    if not sampled:
        return 0
    return round(float(total_over_time(sampled)[1].max()))


@dataclass(frozen=True)
class MemoryChange:
    """What B has more than A at its peak, in bytes, and the lines that keep more or less, the largest change first."""

    a: int
    b: int
    beyond: bool  # more than processes differ anyway: the runs of one side all have more than those of the other
    lines: tuple[dict[str, Any], ...]

    @property
    def change(self) -> int:
        return self.b - self.a


def memory_change(a: Sequence[Run], b: Sequence[Run]) -> MemoryChange | None:
    """How run(s) B differ from run(s) A; None where memory was not sampled."""
    before, after = ([peak(run) for run in side] for side in (a, b))
    if not all((*before, *after)):
        return None
    middle = round(np.mean(before)), round(np.mean(after))
    apart = min(after) > max(before) or max(after) < min(before)
    least = max(LEAST, LEAST_SHARE * middle[0])
    beyond = apart and abs(middle[1] - middle[0]) >= least
    return MemoryChange(*middle, beyond, _lines(_kept(a), _kept(b)))


def _kept(runs: Sequence[Run]) -> dict[Where, Counter[Line]]:
    """What each function keeps by line, in the mean of some runs: yours, or the library's where none of yours is on the stack."""
    found: defaultdict[Where, Counter[Line]] = defaultdict(Counter)
    for run in runs:
        for row in run.memory():
            near = "your_" if row["your_file"] else ""
            file = row[f"{near}file"]
            where = row[f"{near}function"], PurePosixPath(file).name
            found[where][file, row[f"{near}line"]] += row["bytes"] / len(runs)
    return found


def _lines(
    a: dict[Where, Counter[Line]], b: dict[Where, Counter[Line]]
) -> tuple[dict[str, Any], ...]:
    """By function, because an edit moves lines; its line is the one that keeps most. Nothing if one side did not sample."""
    if not a or not b:
        return ()
    rows: list[dict[str, Any]] = []
    for where in a.keys() | b.keys():
        before = a.get(where, Counter())
        after = b.get(where, Counter())
        sizes = round(before.total()), round(after.total())
        file, line = (after if sizes[1] >= sizes[0] else before).most_common(1)[0][0]
        named = {"function": where[0], "file": file, "line": line}
        figures = {"a": sizes[0], "b": sizes[1], "change": sizes[1] - sizes[0]}
        rows.append(named | figures)
    rows.sort(key=lambda row: (-abs(row["change"]), row["file"], row["line"]))
    return tuple(rows)
