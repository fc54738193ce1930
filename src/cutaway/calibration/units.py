"""Units of work of a run, recorded and not: the raw material of calibration on the run itself.

The recorder leaves a few units (a step, an iteration, or several of them) unrecorded and notes the thread's CPU time around each. On
the driving thread the records read: CpuTime … CpuTime [Pause … Resume CpuTime CpuTime] CpuTime …; the two after Resume bound
the unrecorded unit. Iterations in it are marked inside the pause, each after the steps before it; Resume's value and id count what
is not. A CpuTime right before an Iteration bounds no unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.format import Structured
from cutaway.vocabulary import Kind

CALIBRATION = 1  # reason of a pause
MARK = np.dtype(
    [(name, "<u8") for name in ("cpu_ns", "steps", "calls", "operations")]
    + [(name, "<u4") for name in ("iterations", "pauses", "value", "id")]
    + [("before", "u1"), ("reason", "u1"), ("", "V6")]
)
"""`UnitMark` of native/sweep/tables.h: a note of the thread's CPU time, and what had happened by then."""


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


def units(marks: Iterable[NDArray[Any]]) -> list[Units]:
    """The units of every thread of the run that has unrecorded ones; `marks` are the sweep's, one array a thread."""
    found = [from_marks(m.view(MARK)) for m in marks]
    return [u for u in found if np.any(u.off)]


def from_marks(m: Structured) -> Units:
    """Units of one thread: the stretches between two notes of its CPU time."""
    cpu_ns, steps, calls, operations, iterations = (
        np.diff(m[name].astype(np.float64))
        for name in ("cpu_ns", "steps", "calls", "operations", "iterations")
    )
    here = m[: len(cpu_ns)]
    resumed = here["before"] == Kind.RESUME
    off = resumed & (here["reason"] == CALIBRATION)
    # A stretch with a pause inside is neither recorded nor unrecorded as a whole. The one after an unrecorded unit is the switch,
    # and the one after that finds what the recorder needs gone from the caches, as it never is in a run that is recorded all along.
    switch = _before(off, False)
    whole = off | (~resumed & (np.diff(m["pauses"].astype(np.int64)) == 0))
    use = (cpu_ns > 0) & ~switch & ~_before(switch, False) & whole
    work, passes = _made(steps, off, here["value"]), _made(iterations, off, here["id"])
    cpu, work, calls, operations, passes = (c[use] for c in (cpu_ns, work, calls, operations, passes))
    return Units(cpu, work, calls, operations, off[use], passes)


def _made(
    made: NDArray[np.float64], off: NDArray[np.bool_], uncounted: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """What was done in each unit. The bounds of an unrecorded one stand after it: what is marked in it lies before them."""
    return np.where(off, _before(made, 0.0) + uncounted, made)


def _before(values: NDArray[Any], first: Any) -> NDArray[Any]:
    """Each value's predecessor."""
    return np.concatenate([[first], values])[: len(values)]
