"""The GPU bottleneck stack: kernels of a run, and by idealising one thing after the other, what each one's time is spent on.

The order is that of the study: DRAM bandwidth, then latency and on-chip memory (which a trace cannot tell apart), then SM
utilisation; what is left when all is ideal is math. The parts of a kernel add up to its duration.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.analysis.table import totals
from cutaway.errors import CutawayError
from cutaway.machines.gpu import Gpu
from cutaway.machines.gpu import load as load_gpu
from cutaway.trace.imports import import_files
from cutaway.trace.reader import ProcessTrace, Trace, read_run
from cutaway.vocabulary import DeviceKind
from cutaway_balance.measured import measured_work, with_measured_work
from cutaway_balance.operators import Cost, Operator, cost

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
    counted: bool = False  # by hardware counters, at least in part


def idealise(kernel: Kernel, gpu: Gpu) -> dict[str, float] | None:
    """The parts of one kernel's duration; None when its work is not known.

    >>> k = Kernel("sgemm", 2_000_000, blocks=40, threads=256, cost=Cost(15.7e9, 1e6, "float32", True))
    >>> {part: round(ns) for part, ns in idealise(k, load_gpu("v100")).items()}
    {'math': 1000000, 'sm_utilisation': 1000000, 'latency_and_on_chip': 0, 'dram_bandwidth': 0}
    """
    if kernel.cost is None:
        return None
    left = float(kernel.ns)
    math = min(
        left, 1e9 * kernel.cost.flops / gpu.peak(kernel.cost.dtype, kernel.cost.matrix)
    )
    utilisation = gpu.sm_utilisation(
        kernel.blocks, kernel.threads, kernel.registers, kernel.shared
    )
    compute = min(left, math / utilisation)
    dram = max(0.0, min(left, 1e9 * kernel.cost.bytes / gpu.bandwidth) - compute)
    return dict(
        zip(PARTS, (math, compute - math, left - compute - dram, dram), strict=True)
    )


@dataclass(frozen=True)
class Stack:
    """Nanoseconds by part over the covered kernels; `covered_ns` of `total_ns` have known work."""

    ns: dict[str, float]
    covered_ns: int
    total_ns: int

    @property
    def shares(self) -> dict[str, float]:
        """Parts of the covered time; they add up to one."""
        return {
            part: value / self.covered_ns if self.covered_ns else 0.0
            for part, value in self.ns.items()
        }

    @property
    def coverage(self) -> float:
        """Share of the time whose work is known."""
        if self.total_ns:
            return self.covered_ns / self.total_ns
        return 0.0


def stack(kernels: Iterable[Kernel], gpu: Gpu) -> Stack:
    """All kernels together."""
    ns = dict.fromkeys(PARTS, 0.0)
    covered = 0
    total = 0
    for kernel in kernels:
        total += kernel.ns
        parts = idealise(kernel, gpu)
        if parts is not None:
            covered += kernel.ns
            ns = {part: ns[part] + parts[part] for part in PARTS}
    return Stack(ns, covered, total)


def explain(path: Path, name: str) -> tuple[dict[str, Any], list[str]]:
    """The stack of a run or a trace on a GPU, for scripts and for people, who also see the kernels that take longest."""
    device = load_gpu(name)
    kernels = read(path)
    if not kernels:
        raise CutawayError(f"{path} has no kernels; record while the device works.")
    whole = stack(kernels, device)
    groups = dict[str, list[Kernel]]()
    known = f"the work of {whole.coverage:.0%} of that time is known"
    lines = [f"{whole.total_ns / 1e6:.2f} ms of kernels on {device.name}; {known}", ""]
    counted_ns = sum(kernel.ns for kernel in kernels if kernel.counted)
    if counted_ns:
        share = counted_ns / max(1, whole.total_ns)
        lines.insert(1, f"Hardware counters measured the work of {share:.0%} of it.")
    if not whole.covered_ns:
        lines += [
            "Operators have no shapes; record with `cutaway run --collector kineto --shapes`.",
            "",
        ]
    for part, share in whole.shares.items():
        lines.append(
            f"{part.replace('_', ' '):22} {share:6.1%}  {'█' * round(40 * share)}"
        )
    lines += [
        "",
        "kernel                                              ms  math    SM  latency  DRAM",
    ]
    for kernel in kernels:
        groups.setdefault(kernel.name, []).append(kernel)
    stacks = [(title, stack(group, device)) for title, group in groups.items()]
    for title, one in sorted(stacks, key=lambda item: -item[1].total_ns)[:12]:
        if one.covered_ns:
            values = [f"{share:5.0%}" for share in one.shares.values()]
        else:
            values = ["  unknown work"]
        lines.append(f"{title[:46]:46} {one.total_ns / 1e6:8.3f} {'  '.join(values)}")
    found = {
        "shares": whole.shares,
        "coverage": whole.coverage,
        "total_ns": whole.total_ns,
        "counted_ns": counted_ns,
    }
    return {**found, "gpu": device.name}, lines


@contextmanager
def opened(path: Path) -> Iterator[Trace]:
    """The run at this path, or one made from the trace file of another tool."""
    if path.is_dir():
        yield read_run(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        import_files([path], Path(folder) / "run.cutaway")
        yield read_run(Path(folder) / "run.cutaway")


def operators(process: ProcessTrace) -> list[Operator]:
    """The operators in a log, as far as their entries are complete."""
    keys = ("name", "dims", "types", "concrete", "calls")
    entries = [
        e
        for e in process.log.others
        if e["k"] == "operator" and all(key in e for key in keys)
    ]
    return [
        Operator(*(e[key] for key in keys))
        for e in entries
        if isinstance(e["calls"], list)
    ]


def read(path: Path) -> list[Kernel]:
    """All kernels of a run or a trace; a kernel belongs to the operator that launched it. Its work is what hardware counters
    measured, or else what the shapes of the operator's inputs let expect."""
    with opened(path) as run:
        kernels = chain.from_iterable(map(_kernels, run.processes))
        return list(with_measured_work(kernels, measured_work(run)))


def _kernels(process: ProcessTrace) -> Iterator[Kernel]:
    """The kernels of a process. An operator that launched several shares its work out by their time."""
    records = process.device()
    records = records[records["kind"] == DeviceKind.KERNEL]
    launches = records["correlation"].tolist()
    lengths = (records["end"] - records["start"]).tolist()
    total = totals(
        zip(launches, lengths, strict=True)
    )  # nanoseconds of the kernels of one launch
    # By launch: what the whole call of its operator costs, and how long all its kernels ran.
    costs: dict[int, tuple[Cost | None, int]] = {}
    for operator in operators(process):
        whole = cost(operator)
        for call in operator.calls if whole is not None else ():
            costs |= dict.fromkeys(
                call, (whole, sum(total.get(launch, 0) for launch in call))
            )
    for record, launch, ns in zip(records, launches, lengths, strict=True):
        whole, together = costs.get(launch, (None, 0))
        if whole is not None and together > 0:
            whole = whole._replace(
                flops=whole.flops * ns / together, bytes=whole.bytes * ns / together
            )
        blocks, threads = (
            int(np.prod(record[size].astype(np.int64))) for size in ("grid", "block")
        )
        shared = int(record["shared_static"]) + int(record["shared_dynamic"])
        name = process.log.name(int(record["name"]))
        yield Kernel(name, ns, blocks, threads, int(record["registers"]), shared, whole)
