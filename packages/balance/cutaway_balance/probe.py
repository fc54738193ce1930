"""A microbenchmark of this machine.

The benchmark counts work for each second of CPU time, so that other programs, which only take time away, disturb little.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from cutaway.machines.machine import Machine
from cutaway_balance.limits import cpu_order, siblings

BURST, ROUNDS = 0.12, 11  # seconds of one measurement, and how often each is made

# Burns time on all the CPUs given at once. Each prints its work for a CPU second, its share of the CPU, and whether it is the first.
_BURN = """
import os, sys, time
seconds, cpus, (gate, opener) = float(sys.argv[1]), sys.argv[2:], os.pipe()
for cpu in cpus:
    if not os.fork():
        os.sched_setaffinity(0, {int(cpu)})
        os.read(gate, 1)
        done, used, start = 0, time.thread_time(), time.monotonic()
        while time.monotonic() < start + seconds:
            total = 0
            for i in range(2000):
                total += i * i
            done += 1
        used = time.thread_time() - used
        os.write(1, f"{done / used} {used / (time.monotonic() - start)} {cpu == cpus[0]}\\n".encode())
        os._exit(0)
os.write(opener, bytes(len(cpus)))
for _ in cpus:
    os.wait()
"""
# Two processes take turns, on the CPUs given. While one works, the CPU of the other sleeps. Prints the median seconds of a turn of both.
_TURNS = """
import os, statistics, sys, time
seconds, (first, second) = float(sys.argv[1]), map(int, sys.argv[2:])
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


def here() -> Machine:
    """This machine: the CPUs this process may use, and which of them share a core."""
    cpus = os.sched_getaffinity(0)
    cores = {siblings(cpu) for cpu in cpus}
    if len(cpus) > len(cores):
        smt_yield = 1.2
    else:
        smt_yield = 1.0
    return Machine(
        os.uname().nodename, cores=len(cores), threads=len(cpus), smt_yield=smt_yield
    )


@dataclass(frozen=True)
class Probed:
    """`turbo`: speed of a core with all cores busy, relative to one busy alone; `smt_yield`: what the threads of a core do together,
    relative to one alone, None without SMT; `wake`: seconds lost by waking on a CPU that sleeps; `share`: the part of the CPUs
    that the benchmark got, 1 on a quiet machine."""

    cores: int
    threads: int
    turbo: float
    smt_yield: float | None
    wake: float
    share: float

    def machine(self) -> Machine:
        """This machine with what was measured, if it was quiet enough to believe it."""
        if self.share <= 0.9:
            return here()
        if self.smt_yield is None:
            smt = 1.0
        else:
            smt = max(0.5, self.smt_yield)
        turbo = round(self.turbo, 3)
        smt = round(smt, 3)
        wake = round(self.wake, 6)
        return dataclasses.replace(here(), turbo=turbo, smt_yield=smt, wake=wake)

    def lines(self) -> list[str]:
        """For people."""
        speed = "one core: nothing to compare its speed with"
        if self.cores > 1:
            speed = f"all {self.cores} cores busy: each at {self.turbo:.2f} of the speed of one alone"
        smt = "SMT: none here, a hardware thread is a core"
        if self.smt_yield is not None:
            each = self.threads // self.cores
            smt = f"SMT: the {each} threads of a core yield {self.smt_yield:.2f} of one alone"
        wake = f"waking a CPU that sleeps costs {1e6 * self.wake:.0f} µs"
        lines = [
            f"{self.cores} cores, {self.threads} hardware threads",
            speed,
            smt,
            wake,
        ]
        if self.share <= 0.9:
            got = f"the benchmark got {self.share:.0%} of the CPUs"
            lines.append(
                f"other programs were busy ({got}), so this is not used; measure again"
            )
        return lines


def probe(rounds: int = ROUNDS, burst: float = BURST) -> Probed:
    """Measures this machine, in `rounds` of interleaved bursts; takes some seconds.

    >>> 0.2 < probe(rounds=1, burst=0.02).turbo <= 1
    True
    """

    def output(script: str, cpus: Sequence[int]) -> list[str]:
        command = [sys.executable, "-S", "-c", script, str(burst), *map(str, cpus)]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    def speed(*cpus: int) -> float:
        rows = [line.split() for line in output(_BURN, cpus)]
        shares.append(mean(float(row[1]) for row in rows))
        return next(float(row[0]) for row in rows if row[2] == "True")

    def turn(*cpus: int) -> float:
        return float(output(_TURNS, cpus)[0])

    order = cpu_order()
    machine = here()
    first = order[0]
    cores = order[: machine.cores]
    pair = [cpu for cpu in siblings(first) if cpu in order]
    turbo = list[float]()
    smt = list[float]()
    wake = list[float]()
    shares = list[float]()
    for _ in range(
        rounds
    ):  # compared within a round: the machine's own speed may drift
        alone = speed(first)
        turbo.append(speed(*cores) / alone)
        if len(pair) > 1:
            smt.append(len(pair) * speed(*pair) / alone)
        if len(cores) > 1:
            wake.append((turn(first, cores[1]) - turn(first, first)) / 2)
    together = median(smt) if smt else None
    if wake:
        lost = max(0.0, median(wake))
    else:
        lost = 0.0
    return Probed(
        machine.cores,
        machine.threads,
        min(1.0, median(turbo)),
        together,
        lost,
        median(shares),
    )
