"""Units of work of a run, recorded and not: the raw material of calibration on the run itself.

The recorder leaves a few units (a step, an iteration, or several of them) unrecorded and notes the thread's CPU time around each. On
the driving thread the records read: CpuTime … CpuTime [Pause … Resume CpuTime CpuTime] CpuTime …; the two after Resume bound
the unrecorded unit, whose steps and iterations stand in Resume's value and id. A CpuTime right before an Iteration bounds no unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.format import Kind
from cutaway.trace.reader import ProcessTrace, Trace

CALIBRATION = 1  # reason of a pause
MOST_RECORDS = 20_000_000


@dataclass(frozen=True)
class Units:
    """One row a unit, in order of time: CPU nanoseconds, steps and iterations in it, recorded calls and operations, and whether
    it was left unrecorded."""

    cpu_ns: NDArray[np.float64]
    steps: NDArray[np.float64]
    calls: NDArray[np.float64]
    operations: NDArray[np.float64]
    off: NDArray[np.bool_]
    iterations: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.cpu_ns)


def units(trace: Trace) -> list[Units]:
    """The units of every thread of the run that has unrecorded ones."""
    found = [u for process in trace.processes for u in _of_process(process)]
    return [u for u in found if np.any(u.off)]


def _of_process(process: ProcessTrace) -> Iterable[Units]:
    for thread in process.threads:
        reduced = [*_reduced(process.records(thread))]
        if reduced:
            yield from_marks(Marks(*(np.concatenate(column) for column in zip(*reduced, strict=True))))


class Marks(NamedTuple):
    """The records of a thread that bound units, each with how many calls and operations stood before it."""

    tag: NDArray[np.uint32]
    value: NDArray[np.uint32]
    calls: NDArray[np.int64]
    operations: NDArray[np.int64]


def _reduced(blocks: Iterable[NDArray[np.void]]) -> Iterable[Marks]:
    calls = operations = seen = 0
    for block in blocks:
        marks = reduce(block["tag"], block["value"], calls, operations)
        yield marks
        kind = block["tag"] & 0xFF
        calls += int(np.count_nonzero((kind == Kind.CALL) | (kind == Kind.ENTER)))
        operations += int(np.count_nonzero(kind == Kind.OP_ENTER))
        seen += len(block)
        if seen > MOST_RECORDS:
            return  # more would not make the estimate better


def reduce(tag: NDArray[np.uint32], value: NDArray[np.uint32], calls: int = 0, operations: int = 0) -> Marks:
    """What bounds units in a stretch of records."""
    kind = tag & 0xFF
    kept = np.flatnonzero(np.isin(kind, (Kind.CPU_TIME, Kind.PAUSE, Kind.RESUME, Kind.STEP, Kind.ITERATION)))
    is_call, is_operation = (kind == Kind.CALL) | (kind == Kind.ENTER), kind == Kind.OP_ENTER
    return Marks(
        tag[kept], value[kept], calls + np.cumsum(is_call)[kept], operations + np.cumsum(is_operation)[kept]
    )


def from_marks(m: Marks) -> Units:
    """Units of one thread: the stretches between two notes of its CPU time."""
    kind = m.tag & 0xFF
    opens = np.append(kind[1:] == Kind.ITERATION, False)
    at = np.flatnonzero((kind == Kind.CPU_TIME) & ~opens)
    if len(at) < 2:
        none = np.zeros(0)
        return Units(none, none, none, none, np.zeros(0, bool), none)
    high = (m.tag[at] >> 8).astype(np.uint64) << np.uint64(32)
    cpu_ns = np.diff((high | m.value[at].astype(np.uint64)).astype(np.float64))
    steps = np.cumsum(np.where(kind == Kind.STEP, m.value, 0).astype(np.float64))
    iterations = np.cumsum(kind == Kind.ITERATION).astype(np.float64)
    pauses = np.cumsum((kind == Kind.PAUSE) | (kind == Kind.RESUME))
    before = np.maximum(at[:-1] - 1, 0)
    resumed = kind[before] == Kind.RESUME
    off = resumed & _calibrated(kind, m.tag, at[:-1])
    # A stretch with a pause inside is neither recorded nor unrecorded as a whole. The one after an unrecorded unit is the switch,
    # and the one after that finds what the recorder needs gone from the caches, as it never is in a run that is recorded all along.
    switch = np.concatenate([[False], off[:-1]])
    use = (
        (cpu_ns > 0)
        & ~switch
        & ~np.concatenate([[False], switch[:-1]])
        & (off | (~resumed & (pauses[at[1:]] == pauses[at[:-1]])))
    )
    work = np.where(off, m.value[before], steps[at[1:]] - steps[at[:-1]])
    passes = np.where(off, m.tag[before] >> 8, iterations[at[1:]] - iterations[at[:-1]])
    columns = (cpu_ns, work, np.diff(m.calls[at]), np.diff(m.operations[at]), passes)
    cpu, work, calls, operations, passes = (c[use].astype(np.float64) for c in columns)
    return Units(cpu, work, calls, operations, off[use], passes)


def _calibrated(kind: NDArray[Any], tag: NDArray[Any], marks: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether the pause before each mark was one of calibration."""
    pauses = np.flatnonzero(kind == Kind.PAUSE)
    if not len(pauses):
        return np.zeros(len(marks), bool)
    last = pauses[np.maximum(np.searchsorted(pauses, marks) - 1, 0)]
    return np.asarray((tag[last] >> 8) == CALIBRATION)
