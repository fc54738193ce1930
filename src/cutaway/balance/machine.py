"""Machines: cores, threads, what they yield together, and the accelerator beside them. Values only; no measurement here."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutaway.balance import toml
from cutaway.balance.limits import siblings
from cutaway.errors import CutawayError

MACHINES = Path(__file__).with_name("machines")


@dataclass(frozen=True)
class Machine:
    """A computer as the models see it.

    `smt_yield` is what the hardware threads of a core do together, relative to one alone; `turbo` is the speed of a core
    when all cores are busy, relative to one busy alone. `cpu_speed` and `gpu_speed` are relative to the machine the service times were
    measured on. `foreign` is how many cores' worth of CPU time other programs take. Watts are of the whole CPU or of one GPU.

    >>> Machine("desk", cores=8, threads=16, smt_yield=1.2).capacity(16)
    9.6
    """

    name: str
    cores: int
    threads: int
    smt_yield: float = 1.2
    turbo: float = 1.0
    cpu_speed: float = 1.0
    foreign: float = 0.0
    gpus: int = 0
    sms: int = 0
    gpu: str = ""
    gpu_speed: float = 1.0
    cpu_idle_w: float | None = None
    cpu_busy_w: float | None = None
    gpu_idle_w: float | None = None
    gpu_busy_w: float | None = None

    def capacity(self, busy: float) -> float:
        """Work that `busy` runnable threads get done in a second, in seconds of one thread running alone."""
        if self.foreign > 0:
            quiet = dataclasses.replace(self, foreign=0.0)
            left = max(0.02 * self.threads, quiet.capacity(self.threads) - self.foreign)
            return min(quiet.capacity(busy), left)
        k = min(busy, self.threads)
        on_cores = min(k, self.cores)
        clock = 1.0 if self.cores == 1 else 1 - (1 - self.turbo) * max(0.0, on_cores - 1) / (self.cores - 1)
        if k <= self.cores:
            return k * clock
        second = (k - self.cores) / (self.threads - self.cores)
        return clock * self.cores * (1 + (self.smt_yield - 1) * second)

    @property
    def ratio(self) -> float | None:
        """CPU hardware threads for each GPU SM; None without a GPU."""
        return self.threads / (self.gpus * self.sms) if self.gpus and self.sms else None


def load(name: str) -> Machine:
    """A machine by the path of its TOML file or the name of one that comes with Cutaway (`dgx1`, `dgx-a100`, `desktop`)."""
    path = Path(name)
    if not path.exists():
        path = MACHINES / (name.removesuffix(".toml") + ".toml")
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in MACHINES.glob("*.toml")))
        raise CutawayError(
            f"There is no machine file {name!r}: give the path of a TOML file or one of {known}."
        )
    try:
        return _from(toml.read(path), path.stem)
    except (TypeError, ValueError) as error:
        raise CutawayError(f"{path} does not describe a machine: {error}.") from error


def save(machine: Machine, path: Path) -> None:
    """Writes a machine file."""
    values = {k: v for k, v in dataclasses.asdict(machine).items() if v is not None}
    lines = [f"{k} = {json.dumps(v)}" for k, v in values.items()]
    path.write_text("\n".join(lines) + "\n")


def _from(values: dict[str, Any], name: str) -> Machine:
    known = {field.name for field in dataclasses.fields(Machine)}
    unknown = set(values) - known
    if unknown:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r}; known are {', '.join(sorted(known))}")
    machine = Machine(**{"name": name, **values})
    if not 1 <= machine.cores <= machine.threads:
        raise ValueError("cores must be at least 1 and at most threads")
    return machine


def here() -> Machine:
    """This machine: the CPUs this process may use, paired into cores as the kernel tells."""
    cpus = os.sched_getaffinity(0)
    cores = {siblings(cpu) for cpu in cpus}
    return Machine(
        os.uname().nodename,
        cores=len(cores),
        threads=len(cpus),
        smt_yield=1.2 if len(cpus) > len(cores) else 1.0,
    )
