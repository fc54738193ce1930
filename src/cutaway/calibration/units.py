"""Units of work of a run, recorded and not: the raw material of calibration on the run itself.

The recorder leaves a few units (a step, an iteration, or several of them) unrecorded and notes the thread's CPU time around each. On
the driving thread the records read: CpuTime … CpuTime [Pause … Resume CpuTime CpuTime] CpuTime …; the two after Resume bound
the unrecorded unit. Iterations in it are marked inside the pause, each after the steps before it; Resume's value and id count what
is not. A CpuTime right before an Iteration bounds no unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.format import Kind, Structured
from cutaway.trace.reader import ProcessTrace, Trace

CALIBRATION = 1  # reason of a pause
_BOUNDS = (Kind.CPU_TIME, Kind.PAUSE, Kind.RESUME, Kind.STEP, Kind.ITERATION)
_MOST_BLOCKS = 100


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
        # More would not make the estimate better.
        blocks = [*islice(process.events(thread, kinds=_BOUNDS), _MOST_BLOCKS)]
        if blocks:
            yield from_marks(np.concatenate(blocks))


def from_marks(m: Structured) -> Units:
    """Units of one thread: the stretches between two notes of its CPU time."""
    kind = m["kind"]
    opens = np.append(kind[1:] == Kind.ITERATION, False)
    at = np.flatnonzero((kind == Kind.CPU_TIME) & ~opens)
    if len(at) < 2:
        none = np.zeros(0)
        return Units(none, none, none, none, np.zeros(0, bool), none)
    high = m["id"][at].astype(np.uint64) << np.uint64(32)
    cpu_ns = np.diff((high | m["value"][at]).astype(np.float64))
    steps = np.cumsum(np.where(kind == Kind.STEP, m["value"], 0).astype(np.float64))
    iterations = np.cumsum(kind == Kind.ITERATION).astype(np.float64)
    pauses = np.cumsum((kind == Kind.PAUSE) | (kind == Kind.RESUME))
    before = np.maximum(at[:-1] - 1, 0)
    resumed = kind[before] == Kind.RESUME
    off = resumed & _calibrated(m, at[:-1])
    # A stretch with a pause inside is neither recorded nor unrecorded as a whole. The one after an unrecorded unit is the switch,
    # and the one after that finds what the recorder needs gone from the caches, as it never is in a run that is recorded all along.
    switch = np.concatenate([[False], off[:-1]])
    use = (
        (cpu_ns > 0)
        & ~switch
        & ~np.concatenate([[False], switch[:-1]])
        & (off | (~resumed & (pauses[at[1:]] == pauses[at[:-1]])))
    )
    work = _made(steps[at], off, m["value"][before])
    passes = _made(iterations[at], off, m["id"][before])
    columns = (cpu_ns, work, np.diff(m["calls"][at]), np.diff(m["operations"][at]), passes)
    cpu, work, calls, operations, passes = (c[use].astype(np.float64) for c in columns)
    return Units(cpu, work, calls, operations, off[use], passes)


def _made(
    so_far: NDArray[np.float64], off: NDArray[np.bool_], uncounted: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """What was done in each unit. The bounds of an unrecorded one stand after it: what is marked in it lies before them."""
    made = np.diff(so_far)
    return np.where(off, np.concatenate([[0.0], made[:-1]]) + uncounted, made)


def _calibrated(m: Structured, marks: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether the pause before each mark was one of calibration."""
    pauses = np.flatnonzero(m["kind"] == Kind.PAUSE)
    if not len(pauses):
        return np.zeros(len(marks), bool)
    last = pauses[np.maximum(np.searchsorted(pauses, marks) - 1, 0)]
    return np.asarray(m["id"][last] == CALIBRATION)
