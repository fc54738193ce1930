"""From a digest to the handful of shares the verdict rules look at. Pure arithmetic, no opinions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .model import DEVICE_LAYERS, Digest, Process


@dataclass(frozen=True)
class Blocked:
    """Whom the main process waits for: `share` of its time, and what that role itself mostly does."""

    role: str
    count: int
    share: float
    busy_with: str
    slowest: str = ""
    slowest_ratio: float = 1.0


@dataclass(frozen=True)
class Evidence:
    """Shares (0 … 1) of the main process's steady-state time, unless a field says otherwise."""

    seconds: float
    unit: str = "iteration"
    units: int = 0
    unit_ms: float = 0.0
    operation: Mapping[str, float] = field(default_factory=dict)
    layer: Mapping[str, float] = field(default_factory=dict)
    cell: Mapping[tuple[str, str], float] = field(default_factory=dict)
    gpu_bound: float = 0.0  # blocked while the device was busy
    copies: float = 0.0  # device busy with copies
    device_busy: float | None = None
    nvidia_smi: float | None = None
    blocked: Blocked | None = None
    runqueue: float = 0.0  # of the time threads wanted a core, the part they had none
    runnable: float = 0.0  # threads that wanted a core, on average
    threads: int = 0
    processes: int = 1
    cores: int = 1
    cores_busy: float | None = None
    foreign: float = 0.0  # cores used by other programs
    hottest: str = ""  # the call site with the most time

    @property
    def per(self) -> str:
        """What shares are of, in words."""
        return "the run" if self.unit == "run" else f"each {self.unit}"

    @property
    def idle_cores(self) -> int:
        """Whole cores nobody used; 0 when nothing was sampled."""
        return (
            0 if self.cores_busy is None else max(0, int(self.cores - self.cores_busy - self.foreign + 0.25))
        )


def evidence(digest: Digest) -> Evidence:
    """Reduce a digest to shares."""
    total = digest.total_ns or 1
    machine = digest.machine
    operation, layer, cell = _shares(digest, total)
    return Evidence(
        seconds=digest.steady_ns / 1e9,
        unit=digest.unit,
        units=digest.iterations or round(digest.units),
        unit_ms=total / (digest.units or 1) / 1e6,
        operation=operation,
        layer=layer,
        cell=cell,
        gpu_bound=sum(c.ns for c in digest.cells if c.resource == "gpu") / total,
        copies=machine.device_copies,
        device_busy=machine.device_busy,
        nvidia_smi=machine.nvidia_smi,
        blocked=_blocked(digest, total),
        runqueue=machine.runqueue_share or 0.0,
        runnable=machine.runnable or 0.0,
        threads=sum(p.threads for p in digest.processes),
        processes=len(digest.processes),
        cores=machine.cores,
        cores_busy=machine.cores_busy,
        foreign=machine.foreign or 0.0,
        hottest=_hottest(digest),
    )


def _shares(
    digest: Digest, total: int
) -> tuple[dict[str, float], dict[str, float], dict[tuple[str, str], float]]:
    operation: dict[str, float] = {}
    layer: dict[str, float] = {}
    cell: dict[tuple[str, str], float] = {}
    for c in digest.cells:
        if c.layer in DEVICE_LAYERS:
            continue
        share = c.ns / total
        operation[c.operation] = operation.get(c.operation, 0.0) + share
        layer[c.layer] = layer.get(c.layer, 0.0) + share
        cell[c.operation, c.layer] = cell.get((c.operation, c.layer), 0.0) + share
    return operation, layer, cell


def _blocked(digest: Digest, total: int, hops: int = 3) -> Blocked | None:
    """Follow the chain main → whom it waits for → whom that one waits for, to the role that is busy."""
    process, share = digest.main, 0.0
    result: Blocked | None = None
    seen = {process.id}
    for hop in range(hops):
        by_role: dict[str, int] = {}
        for wait in digest.waits:
            other = digest.process(wait.for_process)
            if wait.process == process.id and other is not None and other.id not in seen:
                role = other.role or "process"
                by_role[role] = by_role.get(role, 0) + wait.ns
        if not by_role:
            break
        role, ns = max(by_role.items(), key=lambda kv: kv[1])
        share = ns / total if hop == 0 else share
        members = [p for p in digest.processes if (p.role or "process") == role and p.id != digest.main.id]
        if not members or share <= 0:
            break
        result = _describe(role, share, members)
        process = max(members, key=lambda p: p.life_ns)
        seen.add(process.id)
        if process.wait_share < 0.5:
            break
    return result


def _describe(role: str, share: float, members: list[Process]) -> Blocked:
    busy: dict[str, int] = {}
    for member in members:
        for name, ns in member.operations.items():
            if name:
                busy[name] = busy.get(name, 0) + ns
    name, ratio = _straggler(members)
    return Blocked(role, len(members), share, max(busy, key=lambda k: busy[k]) if busy else "", name, ratio)


def _straggler(members: list[Process]) -> tuple[str, float]:
    """The sibling that works most, against the median; waiting is not work."""
    work = sorted((sum(p.layers.values()) - p.layers.get("wait", 0), p.name) for p in members)
    if len(work) < 3:
        return "", 1.0
    median = work[len(work) // 2][0]
    return (work[-1][1], work[-1][0] / median) if median > 0 else ("", 1.0)


def _hottest(digest: Digest) -> str:
    spots = [h for h in digest.hotspots if h.file and h.layer != "wait"]
    if not spots:
        return ""
    top = max(spots, key=lambda h: h.ns)
    return f"{top.function} at {top.file.rsplit('/', 1)[-1]}:{top.line}"
