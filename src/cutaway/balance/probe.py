"""A microbenchmark of this machine's CPU: cores busy together, SMT siblings, and waking a CPU that sleeps.

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

# Pinned to a CPU; starts on a line of input, works for a while, prints work for a CPU second and its share of the CPU.
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
# Two processes take turns, on the CPUs given. While one works, the CPU of the other sleeps. Prints the median seconds of a turn of both.
_TURNS = """
import os, statistics, sys, time
first, second, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
to, back = os.pipe(), os.pipe()
def work():
    total = 0
    for i in range(15000):  # long enough for the other CPU to fall asleep
        total += i * i
if not os.fork():
    os.sched_setaffinity(0, {second})
    while os.read(to[0], 1) == b"1":
        work()
        os.write(back[1], b"1")
    os._exit(0)
os.sched_setaffinity(0, {first})
turns, end = [], time.monotonic() + seconds
while time.monotonic() < end:
    start = time.monotonic()
    work()
    os.write(to[1], b"1")
    os.read(back[0], 1)
    turns.append(time.monotonic() - start)
os.write(to[1], b"0")
print(statistics.median(turns))
"""


@dataclass(frozen=True)
class Probed:
    """`turbo`: speed of a core with all cores busy, relative to one busy alone; `smt_yield`: what the threads of a core do together,
    relative to one alone, None without SMT; `wake`: seconds lost by waking on a CPU that sleeps; `share`: the part of the CPUs
    that we got, 1 on a quiet machine."""

    cores: int
    threads: int
    turbo: float
    smt_yield: float | None
    wake: float
    share: float

    @property
    def quiet(self) -> bool:
        return self.share > 0.9

    def lines(self) -> list[str]:
        lines = [f"{self.cores} cores, {self.threads} hardware threads"]
        if self.cores == 1:
            lines.append("one core: nothing to compare its speed with")
        else:
            lines.append(f"all {self.cores} cores busy: each at {self.turbo:.2f} of the speed of one alone")
        if self.smt_yield is None:
            lines.append("SMT: none here, a hardware thread is a core")
        else:
            each = self.threads // self.cores
            lines.append(f"SMT: the {each} threads of a core yield {self.smt_yield:.2f} of one alone")
        lines.append(f"waking a CPU that sleeps costs {1e6 * self.wake:.0f} µs")
        if not self.quiet:
            lines.append(
                f"other programs were busy (we got {self.share:.0%} of the CPUs), so this is not used; measure again"
            )
        return lines


def probe(rounds: int = ROUNDS, burst: float = BURST) -> Probed:
    """Measures this machine, in `rounds` of interleaved bursts; takes some seconds.

    >>> 0.2 < probe(rounds=1, burst=0.02).turbo <= 1
    True
    """
    order, machine = limits.cpu_order(), here()
    first, cores = order[0], order[: machine.cores]
    pair = [cpu for cpu in limits.siblings(first) if cpu in order]
    turbo, smt, wake, shares = [], [], [0.0], []
    for _ in range(rounds):  # compared within a round: the machine's own speed may drift
        alone, share = _burst([first], burst)
        together, busy = _burst(cores, burst)
        turbo.append(together / alone)
        shares += [share, busy]
        if len(pair) > 1:
            smt.append(len(pair) * _burst(pair, burst)[0] / alone)
        if len(cores) > 1:
            wake.append((_turn(first, cores[1], burst) - _turn(first, first, burst)) / 2)
    return Probed(
        machine.cores,
        machine.threads,
        min(1.0, statistics.median(turbo)),
        statistics.median(smt) if smt else None,
        max(0.0, statistics.median(wake[1:] or wake)),
        statistics.median(shares),
    )


def _burst(cpus: Sequence[int], seconds: float) -> tuple[float, float]:
    """Speed of the first and mean share of all burners on these CPUs at the same time."""
    pipe = subprocess.PIPE
    burners = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", _BURN, str(cpu), str(seconds)], stdin=pipe, stdout=pipe, text=True
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


def _turn(first: int, second: int, seconds: float) -> float:
    command = [sys.executable, "-S", "-c", _TURNS, str(first), str(second), str(seconds)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def machine(found: Probed) -> Machine:
    """This machine with what was measured, if it was quiet enough to believe it."""
    if not found.quiet:
        return here()
    smt = 1.0 if found.smt_yield is None else max(0.5, found.smt_yield)
    return dataclasses.replace(
        here(), turbo=round(found.turbo, 3), smt_yield=round(smt, 3), wake=round(found.wake, 6)
    )
