"""What differs from run to run without any change to the program: the machine's share in a difference.

One run cannot tell how much the next one would differ. What is known: how long its threads waited for a core, and how much
other programs computed beside it. Several runs tell by how much they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.processes import meters, thread_samples

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

RUN_TO_RUN = 0.04
"""By how much two runs of one program differ on a quiet machine (caches, placement, clock speed)."""
BESIDE = 0.45
"""Largest slow-down of a core while its neighbours compute for others (shared caches, memory, hyper-threads)."""
COLD, WARM = 0.6, 0.25
"""A thread that waits for a core most of the time computes this much more, because others empty its caches meanwhile; up to a share of
`WARM` spent waiting they stay filled."""
DISTURBED = 0.1
"""From this share of the time spent waiting for a core on, wall time says little about the program."""
_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


@dataclass(frozen=True)
class Noise:
    """Of one run: `queued` is the share of the time its leading thread waited for a core, `foreign` the share of the
    cores that others used, `cpu_ns` what the leading process computed for each iteration."""

    queued: float = 0.0
    foreign: float = 0.0
    cpu_ns: float = 0.0

    @property
    def floor(self) -> float:
        """What a difference of one run on each side must exceed, relative."""
        crowded = 1.0 if self.queued >= DISTURBED else self.foreign  # a short run has no figure for `foreign`
        return RUN_TO_RUN + BESIDE * crowded + COLD * max(0.0, self.queued - WARM)


def noise_of(run: Run, lead: int, starts: NDArray[np.int64]) -> Noise:
    """From the sampled meters; zero where nothing was sampled. `starts` are those of the leading process's iterations."""
    steady = run.steady()
    told = steady.utilisation()
    metered = meters(run.trace, steady.edges)[lead]
    carries = zip(run.swept.names, run.swept.summary_threads, strict=True)
    own = [name.tid for name, c in carries if c and name.process == lead]
    queued = max((metered.get(tid, (0, 0))[1] for tid in own), default=0)
    cores = told["cpus"] or 1
    return Noise(
        queued=min(0.95, queued / max(1, told["span_ns"])),
        foreign=min(1.0, (told["foreign_cores"] or 0.0) / cores),
        cpu_ns=_cpu_each(run, lead, starts),
    )


def _cpu_each(run: Run, lead: int, starts: NDArray[np.int64]) -> float:
    """CPU time of an iteration, between the first and the last sample that lie among them: a busy machine starves the meter."""
    last: dict[int, int] = {}
    points: list[tuple[int, int]] = []
    for sample in run.trace.processes[lead].log.samples:
        for t, tid, cpu, _ in thread_samples(sample):
            last[tid] = cpu
            if len(starts) and starts[0] <= t <= starts[-1]:
                points.append((t, sum(last.values())))
    if len(points) < 2:
        return 0.0
    (since, before), (until, after) = points[0], points[-1]
    units = float(np.diff(np.interp([since, until], starts, np.arange(len(starts))))[0])
    return (after - before) / units if units >= 1 else 0.0


def several_runs(a: NDArray[Any], b: NDArray[Any]) -> tuple[Any, Any] | None:
    """95 % bounds of mean(b) - mean(a) from the means of single runs (rows), by Student's t with one variance for both sides;
    None with one run on each side."""
    free = len(a) + len(b) - 2
    if free < 1:
        return None
    squares = sum(((side - side.mean(axis=0)) ** 2).sum(axis=0) for side in (a, b))
    t = _T95[free - 1] if free <= len(_T95) else 1.96 + 2.5 / free
    half = t * np.sqrt(squares / free * (1 / len(a) + 1 / len(b)))
    middle = b.mean(axis=0) - a.mean(axis=0)
    return middle - half, middle + half


def doubts(a: Run, b: Run) -> tuple[str, ...]:
    """Why the two may not be comparable at all."""
    out = []
    programs = [
        next((str(p.log.process.get("program") or "") for p in run.trace.processes), "") for run in (a, b)
    ]
    if programs[0] != programs[1] and all(programs):
        out.append(f"A ran {programs[0]}, B ran {programs[1]}: these may be different programs.")
    operations = [
        set(run.steady().breakdown(by=("operation",))["operation"].tolist()) - {""} for run in (a, b)
    ]
    if operations[0] and operations[1] and not operations[0] & operations[1]:
        out.append("A and B have no operation in common: these may be different programs.")
    for word, key in (("machine", "host"), ("number of cores", "cpus")):
        values = [run.trace.about.get(key) for run in (a, b)]
        if values[0] != values[1] and all(values):
            out.append(f"A and B differ in their {word} ({values[0]}, {values[1]}).")
    versions = [_versions(run) for run in (a, b)]
    changed = [n for n in sorted(versions[0].keys() & versions[1].keys()) if versions[0][n] != versions[1][n]]
    if changed:
        told = ", ".join(f"{n} {versions[0][n]} → {versions[1][n]}" for n in changed[:4])
        out.append(f"Versions differ: {told}.")
    return tuple(out)


def _versions(run: Run) -> dict[str, str]:
    told = [p.log.process.get("versions") for p in run.trace.processes]
    return {str(k): str(v) for one in told if isinstance(one, dict) for k, v in one.items()}
