"""Machines: cores, threads, what they yield together, and the accelerator beside them. Values only; `probe` measures them."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cutaway.balance.limits import siblings
from cutaway.errors import CutawayError

MACHINES = Path(__file__).with_name("machines")
_toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
T = TypeVar("T")


@dataclass(frozen=True)
class Machine:
    """A computer as the models see it.

    `smt_yield` is what the hardware threads of a core do together, relative to one alone; `turbo` is the speed of a core
    when all cores are busy, relative to one busy alone. `wake` is how many seconds a thread loses when it wakes on a CPU that was
    asleep. `cpu_speed` and `gpu_speed` are relative to the machine the service times were measured on. `foreign` is how many cores'
    worth of CPU time other programs take. Watts are of the whole CPU or of one GPU.

    >>> Machine("desk", cores=8, threads=16, smt_yield=1.2).capacity(16)
    9.6
    """

    name: str
    cores: int
    threads: int
    smt_yield: float = 1.2
    turbo: float = 1.0
    wake: float = 0.0
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
        if k <= self.cores:
            return k * self._clock(k)
        second = (k - self.cores) / (self.threads - self.cores)
        return self._clock(k) * self.cores * (1 + (self.smt_yield - 1) * second)

    def _clock(self, busy: float) -> float:
        """Speed of a core when `busy` threads run, relative to one busy alone."""
        if self.cores == 1:
            return 1.0
        return 1 - (1 - self.turbo) * max(0.0, min(busy, self.cores) - 1) / (self.cores - 1)

    def unshared(self) -> Machine:
        """The same with every hardware thread as fast as one alone: as an environment feels it that burns CPU time, not work."""
        return dataclasses.replace(self, turbo=1.0, smt_yield=self.threads / self.cores)

    def limited_to(self, cpus: int | None) -> Machine:
        """The machine as a program sees it that may use so many of its CPUs, physical cores first."""
        if cpus is None or cpus >= self.threads:
            return self
        cores = min(self.cores, cpus)
        second = (cpus - cores) / max(1, self.threads - self.cores)
        whole = 1 + (self.smt_yield - 1) * second
        return dataclasses.replace(self, threads=cpus, cores=cores, smt_yield=whole, turbo=self._clock(cores))

    @property
    def ratio(self) -> float | None:
        """CPU hardware threads for each GPU SM; None without a GPU."""
        return self.threads / (self.gpus * self.sms) if self.gpus and self.sms else None

    def watts(self, cpu_busy: float, device_busy: float) -> float | None:
        """Power with so many busy CPU threads and such a share of the device: the idle floor plus the busy part; None if unknown."""
        if self.cpu_idle_w is None or self.cpu_busy_w is None:
            return None
        total = self.cpu_idle_w + (self.cpu_busy_w - self.cpu_idle_w) * min(1.0, cpu_busy / self.threads)
        if self.gpus and self.gpu_idle_w is not None and self.gpu_busy_w is not None:
            dynamic = (self.gpu_busy_w - self.gpu_idle_w) * min(1.0, device_busy)
            total += self.gpus * self.gpu_idle_w + dynamic
        return total


def read_toml(name: str, folder: Path, what: str, make: Callable[[dict[str, Any], str], T]) -> T:
    """A description by the path of its TOML file, or by the name of one in `folder` that comes with Cutaway."""
    path = Path(name)
    if not path.exists():
        path = folder / (name.lower().removesuffix(".toml") + ".toml")
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.toml")))
        raise CutawayError(f"There is no {what} {name!r}; use one of {known}, or the path of a TOML file.")
    try:
        return make(_toml.loads(path.read_text()), path.stem)
    except (TypeError, ValueError, KeyError) as error:
        raise CutawayError(f"{path} does not describe a {what}: {error}.") from error


def load(name: str) -> Machine:
    """A machine by the path of its TOML file or the name of one that comes with Cutaway (`dgx1`, `dgx-a100`, `desktop`)."""
    return read_toml(name, MACHINES, "machine", _from)


def _from(values: dict[str, Any], name: str) -> Machine:
    known = {field.name for field in dataclasses.fields(Machine)}
    if unknown := set(values) - known:
        raise ValueError(f"unknown key {min(unknown)!r}; known are {', '.join(sorted(known))}")
    machine = Machine(**{"name": name, **values})
    if not 1 <= machine.cores <= machine.threads:
        raise ValueError("cores must be at least 1 and at most threads")
    return machine


def save(machine: Machine, path: Path) -> None:
    values = {k: v for k, v in dataclasses.asdict(machine).items() if v is not None}
    path.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items()))


def here() -> Machine:
    """This machine: the CPUs this process may use, and which of them share a core."""
    cpus = os.sched_getaffinity(0)
    cores = {siblings(cpu) for cpu in cpus}
    smt_yield = 1.2 if len(cpus) > len(cores) else 1.0
    return Machine(os.uname().nodename, cores=len(cores), threads=len(cpus), smt_yield=smt_yield)
