"""What a machine is to a prediction: cores, threads, what they yield together, the accelerator beside them."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from cutaway.machines.files import read_toml

HOSTS = Path(__file__).with_name("hosts")


@dataclass(frozen=True)
class Machine:
    """A computer as predictions see it.

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

    def __post_init__(self) -> None:
        if not 1 <= self.cores <= self.threads:
            raise ValueError("cores must be at least 1 and at most threads")

    def capacity(self, busy: float) -> float:
        """Work that `busy` runnable threads get done in a second, in seconds of one thread running alone."""
        k = min(busy, self.threads)
        second = max(0.0, k - self.cores) / max(1, self.threads - self.cores)
        quiet = (
            self._clock(k) * min(k, self.cores) * (1 + (self.smt_yield - 1) * second)
        )
        if self.foreign <= 0:
            return quiet
        whole = dataclasses.replace(self, foreign=0.0).capacity(self.threads)
        return min(quiet, max(0.02 * self.threads, whole - self.foreign))

    def _clock(self, busy: float) -> float:
        """Speed of a core when `busy` threads run, relative to one busy alone."""
        others = max(0.0, min(busy, self.cores) - 1)
        return 1 - (1 - self.turbo) * others / max(1, self.cores - 1)

    def unshared(self) -> Machine:
        """The same with every hardware thread as fast as one alone: as an environment feels it that burns CPU time, not work."""
        return dataclasses.replace(self, turbo=1.0, smt_yield=self.threads / self.cores)

    def wider(self) -> Machine:
        """The same with one more CPU thread: of a core that has room for it, else with a core."""
        cores = self.cores + (self.cores == self.threads)
        return dataclasses.replace(self, threads=self.threads + 1, cores=cores)

    def limited_to(self, cpus: int | None) -> Machine:
        """The machine as a program sees it that may use so many of its CPUs, physical cores first."""
        if cpus is None or cpus >= self.threads:
            return self
        cores = min(self.cores, cpus)
        whole = 1 + (self.smt_yield - 1) * (cpus - cores) / max(
            1, self.threads - self.cores
        )
        return dataclasses.replace(
            self, threads=cpus, cores=cores, smt_yield=whole, turbo=self._clock(cores)
        )

    @property
    def ratio(self) -> float | None:
        """CPU hardware threads for each GPU SM; None without a GPU."""
        if self.gpus and self.sms:
            return self.threads / (self.gpus * self.sms)
        return None

    def watts(self, cpu_busy: float, device_busy: float) -> float | None:
        """Power with so many busy CPU threads and such a share of the device: the idle floor plus the busy part; None if unknown."""
        if self.cpu_idle_w is None or self.cpu_busy_w is None:
            return None
        total = self.cpu_idle_w + (self.cpu_busy_w - self.cpu_idle_w) * min(
            1.0, cpu_busy / self.threads
        )
        if self.gpus and self.gpu_idle_w is not None and self.gpu_busy_w is not None:
            dynamic = (self.gpu_busy_w - self.gpu_idle_w) * min(1.0, device_busy)
            total += self.gpus * self.gpu_idle_w + dynamic
        return total


def load(name: str) -> Machine:
    """A machine by the path of its TOML file or the name of one that comes with Cutaway (`dgx1`, `dgx-a100`, `desktop`)."""
    return read_toml(name, HOSTS, "machine", Machine)


def save(machine: Machine, path: Path) -> None:
    """Writes a machine file."""
    values = {k: v for k, v in dataclasses.asdict(machine).items() if v is not None}
    path.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items()))
