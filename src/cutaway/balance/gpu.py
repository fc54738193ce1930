"""The GPU bottleneck stack: by idealising one thing after the other, what each kernel's time is spent on.

The order is that of the study: DRAM bandwidth, then latency and on-chip memory (which a trace cannot tell apart), then SM
utilisation; what is left when all is ideal is math. The parts of a kernel add up to its duration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutaway.balance.machine import read_toml
from cutaway.balance.operators import Cost

GPUS = Path(__file__).with_name("gpus")
PARTS = ("math", "sm_utilisation", "latency_and_on_chip", "dram_bandwidth")


@dataclass(frozen=True)
class Gpu:
    """One device. `tflops` maps a type (`float32`, `float16`, `float8`) to the dense peak of matrices, `vector` to that of the
    ordinary units.

    >>> load("v100").peak("float32") / 1e12
    15.7
    """

    name: str
    sms: int
    bandwidth_gbs: float
    tflops: Mapping[str, float]
    max_threads_per_sm: int = 2048
    max_blocks_per_sm: int = 32
    registers_per_sm: int = 65536
    shared_per_sm: int = 65536
    launch_floor_us: float = 2.0

    def peak(self, dtype: str, matrix: bool = True) -> float:
        """Peak operations in a second."""
        if not matrix:
            return 1e12 * self.tflops.get("vector", self.tflops["float32"])
        kinds = (("float8", ("float8", "fp8")), ("float16", ("half", "float16")))
        stored = next((kind for kind, names in kinds if any(n in dtype.lower() for n in names)), "float32")
        return 1e12 * self.tflops.get(stored, self.tflops["float32"])

    @property
    def bandwidth(self) -> float:
        return 1e9 * self.bandwidth_gbs

    def resident_blocks(self, threads: int, registers: int, shared: int) -> int:
        """Blocks of a kernel that fit on one SM at once."""
        if threads <= 0:
            return 1
        fit = min(self.max_blocks_per_sm, self.max_threads_per_sm // threads)
        if registers:
            fit = min(fit, self.registers_per_sm // (registers * threads))
        if shared:
            fit = min(fit, self.shared_per_sm // shared)
        return max(1, fit)

    def sm_utilisation(self, blocks: int, threads: int, registers: int = 0, shared: int = 0) -> float:
        """Share of the SMs that have work, on average over the waves of a grid.

        >>> load("v100").sm_utilisation(blocks=40, threads=256)
        0.5
        """
        if blocks <= 0:
            return 1.0
        slots = self.sms * self.resident_blocks(threads, registers, shared)
        full, rest = divmod(blocks, slots)
        tail = min(rest, self.sms) / self.sms
        waves = full + (1 if rest else 0)
        return (full + tail) / waves


def load(name: str) -> Gpu:
    """A GPU by the path of its TOML file or the name of one that comes with Cutaway."""
    return read_toml(name, GPUS, "GPU", lambda values, _: Gpu(**values))


@dataclass(frozen=True)
class Kernel:
    """One kernel: how long it ran, how it was launched, what it had to do (None: unknown)."""

    name: str
    ns: int
    blocks: int = 0
    threads: int = 0
    registers: int = 0
    shared: int = 0
    cost: Cost | None = None


@dataclass(frozen=True)
class Stack:
    """Nanoseconds by part over the covered kernels; `covered_ns` of `total_ns` have known work."""

    ns: dict[str, float]
    covered_ns: int
    total_ns: int

    @property
    def shares(self) -> dict[str, float]:
        """Parts of the covered time; they add up to one."""
        return {part: value / self.covered_ns if self.covered_ns else 0.0 for part, value in self.ns.items()}

    @property
    def coverage(self) -> float:
        return self.covered_ns / self.total_ns if self.total_ns else 0.0


def idealise(kernel: Kernel, gpu: Gpu) -> dict[str, float] | None:
    """The parts of one kernel's duration; None when its work is not known.

    >>> k = Kernel("sgemm", 2_000_000, blocks=40, threads=256, cost=Cost(15.7e9, 1e6, "float32", True))
    >>> {part: round(ns) for part, ns in idealise(k, load("v100")).items()}
    {'math': 1000000, 'sm_utilisation': 1000000, 'latency_and_on_chip': 0, 'dram_bandwidth': 0}
    """
    if kernel.cost is None:
        return None
    left = float(kernel.ns)
    math = min(left, 1e9 * kernel.cost.flops / gpu.peak(kernel.cost.dtype, kernel.cost.matrix))
    utilisation = gpu.sm_utilisation(kernel.blocks, kernel.threads, kernel.registers, kernel.shared)
    compute = min(left, math / utilisation)
    memory = min(left, 1e9 * kernel.cost.bytes / gpu.bandwidth)
    dram = max(0.0, memory - compute)
    return {
        "math": math,
        "sm_utilisation": compute - math,
        "latency_and_on_chip": left - compute - dram,
        "dram_bandwidth": dram,
    }


def stack(kernels: Iterable[Kernel], gpu: Gpu) -> Stack:
    ns = dict.fromkeys(PARTS, 0.0)
    covered = total = 0
    for kernel in kernels:
        total += kernel.ns
        parts = idealise(kernel, gpu)
        if parts is None:
            continue
        covered += kernel.ns
        for part, value in parts.items():
            ns[part] += value
    return Stack(ns, covered, total)


def by_name(kernels: Sequence[Kernel], gpu: Gpu) -> list[tuple[str, Stack]]:
    """A stack for each kernel name, longest first."""
    groups: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.name, []).append(kernel)
    stacks = [(name, stack(group, gpu)) for name, group in groups.items()]
    return sorted(stacks, key=lambda item: -item[1].total_ns)
