"""The GPU bottleneck stack: by idealising one thing after the other, what each kernel's time is spent on.

The order is that of the study: DRAM bandwidth, then latency and on-chip memory (which a trace cannot tell apart), then SM
utilisation; what is left when all is ideal is math. The parts of a kernel add up to its duration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutaway.balance.gpu import Gpu
from cutaway.balance.operators import Cost

PARTS = ("math", "sm_utilisation", "latency_and_on_chip", "dram_bandwidth")


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

    >>> from cutaway.balance.gpu import load
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
    """The stack of many kernels."""
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


def duration(kernel: Kernel, gpu: Gpu, math_efficiency: float, memory_efficiency: float) -> int:
    """Modelled nanoseconds of a kernel whose duration is not known: the roofline, wave quantisation and a launch floor."""
    if kernel.cost is None:
        raise ValueError("a kernel without known work has no modelled duration")
    utilisation = gpu.sm_utilisation(kernel.blocks, kernel.threads, kernel.registers, kernel.shared)
    math = kernel.cost.flops / (
        gpu.peak(kernel.cost.dtype, kernel.cost.matrix) * math_efficiency * utilisation
    )
    memory = kernel.cost.bytes / (gpu.bandwidth * memory_efficiency)
    return round(1e9 * (max(math, memory) + 1e-6 * gpu.launch_floor_us))


def by_name(kernels: Sequence[Kernel], gpu: Gpu) -> list[tuple[str, Stack]]:
    """A stack for each kernel name, longest first."""
    groups: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.name, []).append(kernel)
    stacks = [(name, stack(group, gpu)) for name, group in groups.items()]
    return sorted(stacks, key=lambda item: -item[1].total_ns)
