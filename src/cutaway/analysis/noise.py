"""How much runs differ without any change to the program: the machine's part in a difference.

One run cannot tell how much the next one would differ. What is known: how long its threads waited for a core, and how much
other programs computed beside it. Several runs tell by how much they differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.processes import cpu_over_time, meters
from cutaway.analysis.utilisation import usage

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

RUN_TO_RUN = 0.04
"""By how much two runs of one program differ on a quiet machine (caches, placement, clock speed)."""
BESIDE = 0.45
"""Largest slow-down of a core while its neighbours compute for others (shared caches, memory, hyper-threads)."""
COLD = 0.6
WARM = 0.25
"""A thread that waits for a core most of the time computes this much more, because others empty its caches meanwhile; up to a share of
`WARM` spent waiting they stay filled."""
DISTURBED = 0.1
"""From this share of the time spent waiting for a core on, wall time says little about the program."""
POOLED = 0.1
"""From this share of the CPU time spent in pool threads on, CPU time says little either if the run is disturbed: the threads of a pool
spin until the last of them gets a core."""


@dataclass(frozen=True)
class Noise:
    """Of one run: `queued` is the share of the time its leading thread waited for a core, `others` the share of the
    cores that others used, `pooled` the share of the leading process's CPU time in threads without operations, `cpu_ns` what that
    process computed for each iteration."""

    queued: float = 0.0
    others: float | None = 0.0
    pooled: float = 0.0
    cpu_ns: float = 0.0

    @property
    def floor(self) -> float:
        """What a difference of one run on each side must exceed, relative; infinite where nothing can be said."""
        if self.queued >= DISTURBED and self.pooled >= POOLED:
            return math.inf
        unknown = (
            self.others is None
        )  # too short a run to measure it: others may have used every core
        if unknown or self.queued >= DISTURBED:
            crowded = 1.0
        else:
            crowded = self.others or 0.0
        return RUN_TO_RUN + BESIDE * crowded + COLD * max(0.0, self.queued - WARM)


def noise_of(run: Run, starts: NDArray[np.int64]) -> Noise:
    """From the sampled meters; zero where there are none (a recording of another tool). `starts` are those of the leading
    process's iterations."""
    steady = run.steady()
    used = usage(steady)
    metered = meters(run.trace, steady.edges)[run.main_process]
    own = leading_tids(run, run.main_process)
    queued = max((metered.get(tid, (0, 0))[1] for tid in own), default=0)
    computed = sum(cpu for cpu, _ in metered.values())
    pooled = computed - sum(metered.get(tid, (0, 0))[0] for tid in own)
    return Noise(
        queued=min(0.95, queued / max(1, used["span_ns"])),
        others=_others_share(used),
        pooled=pooled / max(1, computed),
        cpu_ns=_cpu_each(run, starts),
    )


def _others_share(used: dict[str, Any]) -> float | None:
    """Share of the cores that others used; None if processes were metered, but not long enough to tell."""
    if used["other_cores"] is None:
        if used["cpu_ns"] is not None:
            return None
        return 0.0
    return min(1.0, float(used["other_cores"]) / (used["cpus"] or 1))


def queued_shares(run: Run) -> list[float | None]:
    """Of each process, the share of this part of the run that its leading thread waited for a core; None where not sampled."""
    start = max(run.edges[0], run.span[0])
    end = min(run.edges[1], run.span[1])
    out: list[float | None] = []
    for index, metered in enumerate(meters(run.trace, run.edges)):
        own = [metered[tid][1] for tid in leading_tids(run, index) if tid in metered]
        out.append(min(1.0, max(own) / max(1, end - start)) if own else None)
    return out


def work_in_halves(run: Run) -> list[tuple[int, int] | None]:
    """CPU time of each process in the first and in the second half of this part of the run; None where not sampled."""
    start = max(run.edges[0], run.span[0])
    end = min(run.edges[1], run.span[1])
    middle = (start + end) // 2
    halves = [meters(run.trace, span) for span in ((start, middle), (middle, end))]
    found = [list(map(_cpu, half)) for half in halves]
    sampled = [bool(metered) for metered in halves[1]]
    return [
        (a, b) if known else None for a, b, known in zip(*found, sampled, strict=True)
    ]


def _cpu(metered: Mapping[int, tuple[int, int]]) -> int:
    return sum(cpu for cpu, _ in metered.values())


def leading_tids(run: Run, process: int) -> list[int]:
    """The threads that summarise a process, by their system thread ids."""
    threads = zip(run.swept.thread_names, run.swept.summary_threads, strict=True)
    return [
        name.tid for name, carries in threads if carries and name.process == process
    ]


def _cpu_each(run: Run, starts: NDArray[np.int64]) -> float:
    """CPU time of an iteration, between the first and the last sample that lie among them: a busy machine starves the meter."""
    time, used = cpu_over_time(run.trace.processes[run.main_process].log.samples)
    if len(starts):
        among = (time >= starts[0]) & (time <= starts[-1])
    else:
        among = np.zeros(len(time), bool)
    if among.sum() < 2:
        return 0.0
    time = time[among][[0, -1]]
    used = used[among][[0, -1]]
    units = float(np.diff(np.interp(time, starts, np.arange(len(starts))))[0])
    if units >= 1:
        return float(used[1] - used[0]) / units
    return 0.0


def doubts(a: Run, b: Run) -> tuple[str, ...]:
    """Reasons why the two may not be comparable."""
    out = []
    programs = [_program(run) for run in (a, b)]
    if programs[0] != programs[1] and all(programs):
        out.append(
            f"A ran {programs[0]}, B ran {programs[1]}; these may be different programs."
        )
    operations = [
        set(run.steady().breakdown(by="operation")["operation"].tolist()) - {""}
        for run in (a, b)
    ]
    if operations[0] and operations[1] and not operations[0] & operations[1]:
        out.append(
            "A and B have no operation in common; these may be different programs."
        )
    for word, key in (("machine", "host"), ("number of cores", "cpus")):
        values = [run.trace.about.get(key) for run in (a, b)]
        if values[0] != values[1] and all(values):
            out.append(f"A and B differ in their {word} ({values[0]}, {values[1]}).")
    before = versions(a)
    after = versions(b)
    changed = [
        name
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    ]
    if changed:
        listed = ", ".join(
            f"{name} {before[name]} → {after[name]}" for name in changed[:4]
        )
        out.append(f"Versions differ: {listed}.")
    return tuple(out)


def versions(run: Run) -> dict[str, str]:
    """Versions of packages in all processes."""
    logged = [p.log.process.get("versions") for p in run.trace.processes]
    found = {}
    for one in logged:
        if isinstance(one, dict):
            found.update({str(name): str(version) for name, version in one.items()})
    return found


def _program(run: Run) -> str:
    """What the first process ran."""
    for process in run.trace.processes:
        return str(process.log.process.get("program") or "")
    return ""
