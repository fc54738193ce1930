"""A microbenchmark of this machine's CPU: how fast its cores are together, and what SMT siblings yield.

Work is counted for each second of CPU time, so that other programs, which only take time away, disturb little.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.balance import limits
from cutaway.balance.machine import Machine, here

BURST = 0.12  # seconds of one measurement
ROUNDS = 11

# One burner: pinned, waits for the word, works for a while, prints work for a CPU second and its share of the CPU.
_BURN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print("ready", flush=True)
sys.stdin.readline()
seconds, done, used, start = float(sys.argv[2]), 0, time.thread_time(), time.monotonic()
while time.monotonic() < start + seconds:
    total = 0
    for i in range(2000):
        total += i * i
    done += 1
cpu = time.thread_time() - used
print(done / cpu, cpu / (time.monotonic() - start))
"""


@dataclass(frozen=True)
class Probed:
    """`turbo`: speed of a core with all cores busy, relative to one busy alone; `smt_yield`: what the threads of a core do together,
    relative to one alone, None without SMT; `share`: the part of the CPUs that we got, 1 on a quiet machine."""

    cores: int
    threads: int
    turbo: float
    smt_yield: float | None
    share: float

    @property
    def quiet(self) -> bool:
        return self.share > 0.9

    def lines(self) -> list[str]:
        """In words."""
        together = f"all {self.cores} cores busy: each at {self.turbo:.2f} of the speed of one alone"
        smt = (
            "SMT: none here, a hardware thread is a core"
            if self.smt_yield is None
            else f"SMT: the {self.threads // self.cores} threads of a core yield {self.smt_yield:.2f} of one alone"
        )
        head = f"{self.cores} cores, {self.threads} hardware threads"
        if self.cores == 1:
            together = "one core: nothing to compare its speed with"
        doubt = (
            []
            if self.quiet
            else [f"others were busy (we got {self.share:.0%} of the CPUs): not used, measure again"]
        )
        return [head, together, smt, *doubt]


def probe(rounds: int = ROUNDS, burst: float = BURST) -> Probed:
    """Measures this machine, in `rounds` of interleaved bursts; takes some seconds.

    >>> 0.2 < probe(rounds=1, burst=0.02).turbo <= 1
    True
    """
    order = limits.cpu_order()
    machine = here()
    first = order[0]
    cores = order[: machine.cores]
    pair = [cpu for cpu in limits.siblings(first) if cpu in order]
    turbo: list[float] = []
    smt: list[float] = []
    shares: list[float] = []

    def measure(cpus: Sequence[int]) -> float:
        speed, share = _burst(cpus, burst)
        shares.append(share)
        return speed

    for _ in range(rounds):  # compared within a round: the machine's own speed may drift
        alone = measure([first])
        turbo.append(measure(cores) / alone)
        if len(pair) > 1:
            smt.append(len(pair) * measure(pair) / alone)
    return Probed(
        machine.cores,
        machine.threads,
        min(1.0, statistics.median(turbo)),
        statistics.median(smt) if smt else None,
        statistics.median(shares),
    )


def _burst(cpus: Sequence[int], seconds: float) -> tuple[float, float]:
    """Speed of the first and mean share of all burners on these CPUs at the same time."""
    burners = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", _BURN, str(cpu), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for cpu in cpus
    ]
    for burner in burners:
        assert burner.stdout is not None
        burner.stdout.readline()
    for burner in burners:
        assert burner.stdin is not None
        burner.stdin.write("\n")
        burner.stdin.flush()
    results = [[float(v) for v in burner.communicate()[0].split()] for burner in burners]
    return results[0][0], statistics.mean(r[1] for r in results)


def machine(found: Probed) -> Machine:
    """This machine with what was measured, if it was quiet enough to believe it."""
    if not found.quiet:
        return here()
    smt = 1.0 if found.smt_yield is None else max(0.5, found.smt_yield)
    return dataclasses.replace(here(), turbo=round(found.turbo, 3), smt_yield=round(smt, 3))
