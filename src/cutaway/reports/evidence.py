"""Reduces a digest to the few shares that the verdict's rules look at. Arithmetic only, no judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import Any, TypeVar

from cutaway.analysis.counters import Use
from cutaway.analysis.noise import DISTURBED
from cutaway.analysis.rollouts import Rollouts
from cutaway.analysis.table import totals
from cutaway.record.frameworks import cards
from cutaway.vocabulary import THREAD_LAYERS, whole

from .digest import Digest, Process, largest
from .family import OneByOne, family, one_by_one
from .groups import workforce
from .progress import drift
from .rollouts import generators_idle, sample_makers, sample_wait, sync_steps
from .text import duration, percent, place
from .threads import gil_error, gil_holder, waits_for_gil

K = TypeVar("K")
BACKENDS = (
    "torch",
    "jax",
    "tensorflow",
)  # often imported by a framework that uses another one
RUNS_THE_LOOP = 0.3
NO_ROLE = "process"
WORTH_NAMING = 0.02
HANG_NS = 3_000_000_000
WAITS_FOR_OTHERS = 0.3
SLOW_STEP_US = 200.0  # below this a step in another process costs more in pipes (about 100 µs) than it saves
MUCH_MORE = 2.0  # times the CPU time
STARVED = 0.6
FEW_CALLS = 3  # a call made so rarely is not the body of a loop


@dataclass(frozen=True)
class Blocked:
    """Whom the main process waits for: `share` of its time, and what that role itself mostly does.

    `slowest_ratio` is by how much more the slowest of them computes than the median, in both halves of the run. `simulated` is what
    all of them together simulate, as a share of the main process's time; `busy` is what the busiest of them does at `busy_with`, as
    such a share. `peers`: they do the same as the main process for the same parent, so nobody hands work to anybody (ranks, workers
    of a pool).
    """

    role: str
    count: int
    share: float
    busy_with: str
    slowest: str = ""
    slowest_ratio: float = 1.0
    simulated: float = 0.0
    busy: float = 1.0
    peers: bool = False

    @property
    def idle(self) -> bool:
        """Whether they mostly wait, too, while they are waited for."""
        return self.busy < self.share / 3


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
    use: Use | None = None  # how well kernels use the device, by hardware counters
    blocked: Blocked | None = None
    waits_for: str = ""  # who ends the longest wait, if that is known
    waits_at: str = ""  # your own line that waits most
    busiest: str = ""  # which other process computes most, where the main one mostly waits for nobody known
    sample_makers: int = 0  # processes that simulate, where the main one only learns
    gil: float = 0.0  # waiting for the interpreter lock, in Python or
    gil_in_calls: float = 0.0  # inside native calls, which count as their layer
    gil_error: float = (
        0.0  # half of the 95 % interval: most such waits are known by samples
    )
    gil_thread: str = ""  # which other thread holds the lock most of that time
    gil_at: str = ""  # where that runs Python then
    runqueue: float = 0.0  # of the time threads wanted a core, the part they had none
    runnable: float = 0.0  # threads that wanted a core, on average
    threads: int = 0
    processes: int = 1
    cores: int = 1
    cores_busy: float | None = None
    other_cores: float | None = None  # cores used by other programs; None: not measured
    queued: float = 0.0  # of the time, the part in which the main thread (or the workers it waits for) wanted a core and had none
    workers_queued: float = 0.0  # the same of the workers it waits for, if it does
    step_us: float | None = (
        None  # simulation time of one environment step, in microseconds
    )
    lines: Mapping[str, str] = field(
        default_factory=dict
    )  # your own line with the most time, by operation
    one_call: tuple[str, float] = (
        "",
        0.0,
    )  # a native function called a few times only, and its share
    libraries: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)  # of packages
    family: str = ""  # of the algorithm, see family.py
    update_call_us: float | None = None  # mean time of the update's native calls
    one_by_one: OneByOne | None = None
    failure: str = ""  # how the program failed, in a sentence
    drift: str = ""  # how its pace changed, in a sentence
    memory: tuple[str, ...] = ()  # sentences about memory that grows or is scarce
    rollouts: Rollouts = field(default_factory=Rollouts)
    tail: float = (
        0.0  # of the main process's time, while few sequences of a batch are left
    )
    sync_steps: Mapping[str, float] = field(default_factory=dict)
    generators_idle: float = 0.0  # of the steady state, in which processes that generate neither work nor are asked for more
    sample_wait: float = 0.0  # the main process, which trains, waits for samples
    hang: str = ""  # what the main process was stuck in when it was killed

    @property
    def per(self) -> str:
        """What shares are of."""
        return "the run" if self.unit == "run" else f"each {self.unit}"

    @property
    def top(self) -> str:
        """The named operation with the most time, if any."""
        return largest({name: share for name, share in self.operation.items() if name})

    @property
    def top_share(self) -> float:
        """Its share."""
        return self.operation.get(self.top, 0.0) if self.top else 0.0

    def largest_in(self, layer: str) -> str:
        """The operation with the most time in a layer; empty for time outside any."""
        return largest(
            {
                operation: share
                for (operation, kind), share in self.cell.items()
                if kind == layer
            }
        )

    @property
    def unnamed(self) -> float:
        """Share outside any operation."""
        return self.operation.get("", 0.0)

    @property
    def shared(self) -> bool:
        """Whether other programs took the cores this run wanted."""
        return self.queued >= DISTURBED and (self.other_cores or 0.0) >= max(
            0.5, 0.25 * self.cores
        )

    @property
    def waits(self) -> float:
        """Share of waiting; where other programs took the cores, of the time that they left."""
        wait = self.layer.get("wait", 0.0)
        return min(1.0, wait / max(0.01, 1 - self.queued)) if self.shared else wait

    @property
    def for_workers(self) -> float:
        """Share of waiting for workers; where other programs took the cores, without the time in which the workers wanted one."""
        if self.blocked is None:
            return 0.0
        queued = self.workers_queued if self.shared else 0.0
        return max(0.0, self.blocked.share - queued)

    @property
    def workers_lack_cores(self) -> bool:
        """Whether the wait for workers may be their wait for cores that other programs have. The median of them says how long that
        takes, but who waits for all of them waits for the last; with steps that are worth a process, so may a quarter of the wait."""
        if self.blocked is None or not self.shared:
            return False
        if self.for_workers <= self.blocked.share / 2:
            return True
        slow = (self.step_us or 0.0) >= SLOW_STEP_US
        return slow and self.workers_queued >= self.blocked.share / 4

    @property
    def starved(self) -> bool:
        """Whether other programs took the cores for most of the time."""
        return self.shared and self.queued >= STARVED

    @property
    def idle_cores(self) -> int:
        """Whole cores nobody used; 0 when nothing was sampled."""
        if self.cores_busy is None or self.other_cores is None:
            return 0
        return max(0, int(self.cores - self.cores_busy - self.other_cores + 0.25))

    @property
    def idle_share(self) -> float:
        """Share of the cores open to this run that it left idle: no rearranging of work can save more than that."""
        open_to_us = self.cores - (self.other_cores or 0.0)
        if self.cores_busy is None or open_to_us <= 0:
            return 1.0
        return max(0.0, 1.0 - self.cores_busy / open_to_us)


def evidence(digest: Digest) -> Evidence:
    """Reduce a digest to shares."""
    total = digest.total_ns or 1
    machine = digest.machine
    cells = [
        replace(c, operation=whole(c.operation))
        for c in digest.spent.cells
        if c.layer in THREAD_LAYERS
    ]
    blocked = _blocked(digest, total)
    workers_queued = _workers_queued(digest, blocked)
    simulated = sum(p.operations.get("simulation", 0) for p in digest.processes)
    holder, holds_at = gil_holder(digest)
    return Evidence(
        seconds=digest.pace.steady_ns / 1e9,
        unit=digest.pace.unit,
        units=digest.pace.iterations or round(digest.pace.units),
        unit_ms=total / (digest.pace.units or 1) / 1e6,
        operation=_shares(totals((c.operation, c.ns) for c in cells), total),
        layer=_shares(totals((c.layer, c.ns) for c in cells), total),
        cell=_shares(totals(((c.operation, c.layer), c.ns) for c in cells), total),
        gpu_bound=sum(c.ns for c in digest.spent.cells if c.resource == "gpu") / total,
        copies=machine.device_copies,
        device_busy=machine.device_busy,
        nvidia_smi=machine.nvidia_smi,
        use=machine.use,
        blocked=blocked,
        waits_for=_waits_for(digest, total),
        waits_at=_waits_at(digest),
        busiest=_busiest(digest),
        sample_makers=sample_makers(digest),
        gil=waits_for_gil(digest) / total,
        gil_in_calls=digest.spent.gil_in_calls_ns / total,
        gil_error=gil_error(digest, total),
        gil_thread=holder,
        gil_at=holds_at,
        runqueue=machine.runqueue_share or 0.0,
        runnable=machine.runnable or 0.0,
        threads=sum(p.threads for p in digest.processes),
        processes=len(digest.processes),
        cores=machine.cores,
        cores_busy=machine.cores_busy,
        other_cores=machine.other_cores,
        queued=max(digest.main.queued_share or 0.0, workers_queued),
        workers_queued=workers_queued,
        step_us=_step_us(digest, simulated),
        lines=_lines(digest),
        one_call=_one_call(digest, total),
        libraries=_libraries(digest),
        versions=digest.program.versions,
        family=family(digest.code.callsites, digest.program.name),
        update_call_us=_update_call_us(digest),
        one_by_one=one_by_one(digest),
        failure=digest.ending.failure,
        drift=drift(digest.stretches) or "",
        memory=digest.memory.warnings,
        rollouts=digest.rollouts,
        tail=digest.rollouts.tail_ns / (digest.pace.steady_ns or 1),
        sync_steps=sync_steps(digest, total),
        generators_idle=generators_idle(digest),
        sample_wait=sample_wait(digest, total),
        hang=_hang(digest),
    )


def _step_us(digest: Digest, simulated: int) -> float | None:
    """Microseconds of simulation for each environment step."""
    if not digest.pace.steps or not simulated:
        return None
    return simulated / digest.pace.steps / 1e3


def _shares(spent: dict[K, int], total: int) -> dict[K, float]:
    return {key: ns / total for key, ns in spent.items()}


def _workers_queued(digest: Digest, blocked: Blocked | None) -> float:
    """What the median of the workers that the main process waits for waited for a core; 0 if it hardly waits for them."""
    if blocked is None or blocked.share < WAITS_FOR_OTHERS:
        return 0.0
    members = [
        p.queued_share or 0.0
        for p in digest.processes
        if (p.role or NO_ROLE) == blocked.role
    ]
    return median(members or [0.0])


def _hang(digest: Digest) -> str:
    """A call that took a quarter of the main process's life, and more than a few seconds, and never returned."""
    for hang in digest.ending.hangs if digest.ending.state != "recording" else ():
        if hang["process"] == digest.main_process and hang["ns"] >= max(
            HANG_NS, digest.main.life_ns / 4
        ):
            return f"{hang['name']} was still inside {hang['where']} for {duration(hang['ns'])} when it was killed"
    return ""


def _blocked(digest: Digest, total: int, hops: int = 3) -> Blocked | None:
    """Follow the chain of waits from the main process to the role that is busy."""
    process = digest.main
    share = 0.0
    result: Blocked | None = None
    seen = {process.id}
    for hop in range(hops):
        own = [wait for wait in digest.waits if wait.process == process.id]
        ends = []
        for wait in own:
            others = [digest.processes[i] for i in wait.among if i not in seen]
            ends.append(({other.role or NO_ROLE for other in others}, wait.ns))
        # One, or several of a role.
        by_role = totals((roles.pop(), ns) for roles, ns in ends if len(roles) == 1)
        role = largest(by_role)
        share = by_role.get(role, 0) / total if hop == 0 else share
        others = [p for p in digest.processes if p.id != digest.main_process]
        members = [p for p in others if (p.role or NO_ROLE) == role]
        if not by_role or not members or share <= 0:
            break
        result = _describe(role, share, members, total)
        result = replace(result, peers=peers(digest.main, members))
        process = max(members, key=lambda p: p.life_ns)
        seen.add(process.id)
        if process.wait_share < 0.5:
            break
    return result


def peers(main: Process, members: list[Process]) -> bool:
    """Whether they have the same parent and the same role as the main process."""
    return all((p.parent, p.role) == (main.parent, main.role) for p in members)


def _describe(role: str, share: float, members: list[Process], total: int) -> Blocked:
    spent = chain.from_iterable(member.operations.items() for member in members)
    busy = totals((whole(name), ns) for name, ns in spent if name)
    # Processes that nothing is known of do not do the same work.
    slowest, ratio = _straggler(members) if role != NO_ROLE else ("", 1.0)
    simulated = sum(_simulated(member) for member in members) / total
    most = largest(busy)
    busiest = max(_spent(member, most) for member in members) / total
    return Blocked(role, len(members), share, most, slowest, ratio, simulated, busiest)


def _spent(process: Process, operation: str) -> int:
    """On an operation and its parts."""
    spent = process.operations.items()
    return sum(ns for name, ns in spent if whole(name) == operation)


def _simulated(process: Process) -> int:
    """For how long it simulated: no longer than it computed, whoever used the cores in between."""
    spent = process.operations.get("simulation", 0)
    return min(spent, sum(process.work_ns)) if process.work_ns else spent


def _straggler(members: list[Process]) -> tuple[str, float]:
    """The one that computes most, and how many times the median: the smaller figure of two halves of the run, because a worker that
    is slow once is no straggler. None where CPU time is unknown or there are too few processes to compare."""
    work = {p.id: p.work_ns for p in members if p.work_ns}
    if len(work) < max(3, len(members)):
        return "", 1.0
    slowest = max(members, key=lambda p: sum(work[p.id]))
    first, second = zip(*work.values(), strict=True)
    middles = [median(first), median(second)]
    ratios = [
        work[slowest.id][half] / middle
        for half, middle in enumerate(middles)
        if middle > 0
    ]
    return slowest.name, min(ratios, default=1.0)


def _update_call_us(digest: Digest) -> float | None:
    cells = [
        c
        for c in digest.spent.cells
        if (c.operation, c.layer) == ("backpropagation", "backend")
    ]
    calls = sum(c.calls for c in cells)
    return sum(c.ns for c in cells) / calls / 1e3 if calls else None


def _waits_for(digest: Digest, total: int) -> str:
    """Who ends the longest waits of the main process, if one end stands out."""
    own = [
        wait
        for wait in digest.waits
        if wait.process == digest.main_process and wait.partner
    ]
    found = totals((wait.partner, wait.ns) for wait in own)
    partner = largest(found)
    return partner if found.get(partner, 0) >= 0.3 * total else ""


def _waits_at(digest: Digest) -> str:
    """The user's own line that waits most; empty where a framework runs the loop, because its one line tells nothing."""
    waits = [line for line in digest.code.lines if line["layer"] == "wait"]
    return (
        "" if _loops(digest) else largest(totals((_where(w), w["ns"]) for w in waits))
    )


def _busiest(digest: Digest) -> str:
    """The process that computes most, if it computes much more than the main one: the main process may be waiting for it through a queue
    in native code."""
    others = [p for p in workforce(digest.processes)[0] if p.id != digest.main_process]
    first = max(others, key=lambda p: p.cpu_share or 0.0, default=None)
    share = (first.cpu_share if first else None) or 0.0
    if first is None or share < MUCH_MORE * (digest.main.cpu_share or share):
        return ""
    mostly = f", mostly {first.mostly}" if first.mostly else ""
    return f"{first.name} ({percent(share)} of a core{mostly})"


def _lines(digest: Digest) -> dict[str, str]:
    """For each operation the user's own line with the most time that is not waiting."""
    busy = [line for line in digest.code.lines if line["layer"] != "wait"]
    spent = totals(
        ((whole(line["operation"]), _where(line)), line["ns"]) for line in busy
    )
    best: dict[str, str] = {}
    for (operation, where), _ in sorted(spent.items(), key=lambda kv: -kv[1]):
        best.setdefault(operation, where)
    # One line that runs several operations, or a framework's loop, such as model.learn(), says nothing.
    least = WORTH_NAMING * sum(spent.values())
    large = [
        where for operation, where in best.items() if spent[operation, where] >= least
    ]
    if _loops(digest) and len(set(large)) == 1:
        return {}
    return {name: where for name, where in best.items() if large.count(where) < 2}


def _libraries(digest: Digest) -> frozenset[str]:
    """The libraries in use. A framework counts only if it runs the training loop: some programs import one just for its replay
    buffer."""
    imported = frozenset(name.replace("-", "_") for name in digest.program.versions)
    if not digest.code.packages:
        return imported
    shares = {
        name: digest.code.packages.get(name, 0.0)
        for name in BACKENDS
        if name in imported
    }
    most = max(shares.values(), default=0.0)
    unused = {name for name, share in shares.items() if share < most / 10}
    return imported - _own_loops().keys() - unused | _loops(digest)


def _own_loops() -> dict[str, str]:
    """The package each framework's loop is in. Packages that share a card are one framework, named after that package."""
    cards_by_package = cards.every().items()
    return {
        name: card.loop
        for name, card in cards_by_package
        if card.loop.partition(".")[0] == name
    }


def _loops(digest: Digest) -> frozenset[str]:
    """The frameworks whose training loop runs."""
    return frozenset(
        name
        for name, package in _own_loops().items()
        if digest.code.packages.get(package, 0.0) >= RUNS_THE_LOOP
    )


def _where(line: dict[str, Any]) -> str:
    name = line["function"].rpartition(".")[2]
    return place(line["file"], line["line"]) + (
        f" ({name})" if name.isidentifier() else ""
    )


def _one_call(digest: Digest, total: int) -> tuple[str, float]:
    rare = [
        h
        for h in digest.code.callsites
        if h.layer == "backend" and h.count <= FEW_CALLS
    ]
    top = max(rare, key=lambda h: h.ns, default=None)
    return (top.function, top.ns / total) if top else ("", 0.0)
