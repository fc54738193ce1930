"""From a digest to the handful of shares the verdict rules look at. Pure arithmetic, no opinions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .model import DEVICE_LAYERS, Digest, Process
from .words import duration, place

WORTH_NAMING = 0.02
HANG_NS = 3_000_000_000
FEW_CALLS = 3  # a call made so rarely is not the body of a loop


@dataclass(frozen=True)
class Blocked:
    """Whom the main process waits for: `share` of its time, and what that role itself mostly does.

    `excess` is how much longer the slowest of them works than their mean, as a share of the main process's time.
    """

    role: str
    count: int
    share: float
    busy_with: str
    slowest: str = ""
    slowest_ratio: float = 1.0
    excess: float = 0.0


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
    waits_for: str = ""  # who ends the longest wait, if that is known
    runqueue: float = 0.0  # of the time threads wanted a core, the part they had none
    runnable: float = 0.0  # threads that wanted a core, on average
    threads: int = 0
    processes: int = 1
    cores: int = 1
    cores_busy: float | None = None
    foreign: float = 0.0  # cores used by other programs
    step_us: float | None = None  # simulation time of one environment step, in microseconds
    lines: Mapping[str, str] = field(
        default_factory=dict
    )  # the user's own line with the most time, by operation
    one_call: tuple[str, float] = ("", 0.0)  # a native function called a few times only, and its share
    libraries: frozenset[str] = frozenset()
    failure: str = ""  # how the program failed, in a sentence
    hang: str = ""  # what the main process was stuck in when it was killed, in words

    @property
    def per(self) -> str:
        """What shares are of, in words."""
        return "the run" if self.unit == "run" else f"each {self.unit}"

    @property
    def unnamed(self) -> float:
        """Share outside any operation."""
        return self.operation.get("", 0.0)

    @property
    def shared(self) -> bool:
        """Whether other programs took the cores this run wanted."""
        return self.runqueue >= 0.15 and self.foreign >= max(0.5, 0.25 * self.cores)

    @property
    def idle_cores(self) -> int:
        """Whole cores nobody used; 0 when nothing was sampled."""
        return (
            0 if self.cores_busy is None else max(0, int(self.cores - self.cores_busy - self.foreign + 0.25))
        )

    @property
    def idle_share(self) -> float:
        """Share of the cores open to this run that it left idle: no rearranging of work can save more than that."""
        open_to_us = self.cores - self.foreign
        if self.cores_busy is None or open_to_us <= 0:
            return 1.0
        return max(0.0, 1.0 - self.cores_busy / open_to_us)


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
        waits_for=_waits_for(digest, total),
        runqueue=machine.runqueue_share or 0.0,
        runnable=machine.runnable or 0.0,
        threads=sum(p.threads for p in digest.processes),
        processes=len(digest.processes),
        cores=machine.cores,
        cores_busy=machine.cores_busy,
        foreign=machine.foreign or 0.0,
        step_us=_step_us(digest),
        lines=_lines(digest),
        one_call=_one_call(digest, total),
        libraries=frozenset(digest.versions),
        failure=digest.failure,
        hang=_hang(digest),
    )


def _hang(digest: Digest) -> str:
    """A call that took a quarter of the main process's life, and more than a few seconds, and never returned."""
    for hang in digest.hangs if digest.state != "recording" else ():
        if hang.process == digest.main.id and hang.ns >= max(HANG_NS, digest.main.life_ns / 4):
            return f"{hang.name} was still inside {hang.where} for {duration(hang.ns)} when it was killed"
    return ""


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
            roles = {p.role or "process" for p in digest.processes if p.id in wait.among and p.id not in seen}
            if wait.process == process.id and len(roles) == 1:  # one of several of a role, or one
                role = roles.pop()
                by_role[role] = by_role.get(role, 0) + wait.ns
        if not by_role:
            break
        role, ns = max(by_role.items(), key=lambda kv: kv[1])
        share = ns / total if hop == 0 else share
        members = [p for p in digest.processes if (p.role or "process") == role and p.id != digest.main.id]
        if not members or share <= 0:
            break
        result = _describe(role, share, members, total)
        process = max(members, key=lambda p: p.life_ns)
        seen.add(process.id)
        if process.wait_share < 0.5:
            break
    return result


def _describe(role: str, share: float, members: list[Process], total: int) -> Blocked:
    busy: dict[str, int] = {}
    for member in members:
        for name, ns in member.operations.items():
            if name:
                busy[name] = busy.get(name, 0) + ns
    busy_with = max(busy, key=lambda k: busy[k]) if busy else ""
    work = sorted((sum(p.layers.values()) - p.layers.get("wait", 0), p.name) for p in members)
    median = work[len(work) // 2][0]
    if len(work) < 3 or median <= 0:
        return Blocked(role, len(members), share, busy_with)
    longest, slowest = work[-1]
    excess = (longest - sum(ns for ns, _ in work) / len(work)) / total
    return Blocked(role, len(members), share, busy_with, slowest, longest / median, excess)


def _waits_for(digest: Digest, total: int) -> str:
    """Who ends the longest waits of the main process, in words, if one end stands out."""
    found: dict[str, int] = {}
    for wait in digest.waits:
        if wait.process == digest.main.id and wait.partner:
            found[wait.partner] = found.get(wait.partner, 0) + wait.ns
    partner = max(found, key=lambda k: found[k], default="")
    return partner if found.get(partner, 0) >= 0.3 * total else ""


def _step_us(digest: Digest) -> float | None:
    spent = sum(p.operations.get("simulation", 0) for p in digest.processes)
    return spent / digest.steps / 1e3 if digest.steps and spent else None


def _lines(digest: Digest) -> dict[str, str]:
    """For each operation the user's own line with the most time that is not waiting."""
    spent: dict[tuple[str, str], int] = {}
    for line in digest.lines:
        if line.layer != "wait":
            name = line.function.rpartition(".")[2]
            where = place(line.file, line.line) + (f" ({name})" if name.isidentifier() else "")
            spent[line.operation, where] = spent.get((line.operation, where), 0) + line.ns
    best: dict[str, str] = {}
    for (operation, where), _ in sorted(spent.items(), key=lambda kv: -kv[1]):
        best.setdefault(operation, where)
    # One line that runs several operations, such as model.learn(), says nothing.
    least = WORTH_NAMING * sum(spent.values())
    large = [where for operation, where in best.items() if spent[operation, where] >= least]
    return {} if len(large) > 1 and len(set(large)) == 1 else best


def _one_call(digest: Digest, total: int) -> tuple[str, float]:
    rare = [h for h in digest.hotspots if h.layer == "backend" and h.count <= FEW_CALLS]
    top = max(rare, key=lambda h: h.ns, default=None)
    return (top.function, top.ns / total) if top else ("", 0.0)
