"""How much of a thread's busy time was CPU time."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from cutaway.analysis.processes import meters
from cutaway.analysis.whatif.timeline import Timeline

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_LEAST_METERED = 1_000_000_000  # ns; meters are read ten times a second


def shares(
    run: Run,
    timelines: list[Timeline],
    ids: list[tuple[int, int]],
    window: tuple[int, int],
    alone: bool = False,
) -> tuple[list[tuple[float, float, bool]], list[str]]:
    """For each thread: how much of its busy time was CPU time, how much was blocked in a way nobody saw, and whether it
    competes for an interpreter lock; and what had to be assumed. `alone`: without what other programs held it up."""
    length = window[1] - window[0]
    metered = meters(run.trace, window) if length >= _LEAST_METERED else []
    pairs = chain.from_iterable(process.values() for process in metered)
    own = sum(cpu for cpu, _ in pairs) / length
    foreign = _foreign(run, window)
    rivals = np.bincount(
        [line.process for line in timelines if line.busy > 0.01 * length], minlength=1
    )
    shares = []
    for line, (process, tid) in zip(timelines, ids, strict=True):
        threaded = bool(line.process < len(rivals) and rivals[line.process] > 1)
        cpu, queued = metered[process].get(tid, (0, 0)) if metered else (0, 0)
        if not cpu or line.busy < 0.02 * length:
            shares.append((1.0, 0.0, threaded))
            continue
        others = max(0.0, own - cpu / length)
        outside = 0.0 if alone or not foreign else foreign / (foreign + others)
        used = min(1.0, (cpu + outside * queued) / line.busy)
        hidden = 0.0 if threaded else max(0.0, 1 - (cpu + queued) / line.busy)
        shares.append((used, hidden if hidden > 0.02 else 0.0, threaded))
    notes = []
    if foreign > 0.1:
        notes.append(
            f"other programs used {foreign:.1f} cores meanwhile: how they slowed it is kept as recorded"
        )
    return shares, notes


def _foreign(run: Run, window: tuple[int, int]) -> float:
    found = []
    for sample in chain.from_iterable(p.log.samples for p in run.trace.processes):
        if window[0] <= (sample.get("t") or 0) <= window[1]:
            found.append(float(sample.get("foreign") or 0.0))
    return float(np.mean(found)) if found else 0.0
