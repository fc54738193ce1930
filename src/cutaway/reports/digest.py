"""The digest of a run: the one model that terminal, page, JSON and live view are made from. `gather.py` fills it.

Many processes are shown as few: as groups by host and role, and by name only the odd ones out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median, mode
from typing import Any

from cutaway.analysis.counters import Use
from cutaway.analysis.processes import HELPER
from cutaway.analysis.table import totals

from .memory import Memory

SCHEMA = "cutaway.show/3"
Rows = tuple[dict[str, Any], ...]
MANY = 12  # more processes than this are grouped
FEW = 3  # a group so small is shown one by one
FAR = 0.15  # of a core, or of the time: what is nearer to the median is like the rest
SPREADS = 4  # and so many times the usual distance from it
MOST_ODD = 4
WELL = ("ok", "", "by parent")


def largest(values: Mapping[str, float]) -> str:
    """The name with the largest value, empty if there is none.

    >>> largest({"a": 1, "b": 2})
    'b'
    """
    return max(values, key=lambda name: values[name], default="")


@dataclass(frozen=True)
class Cell:
    """Exact time of one (operation, layer, resource) of the main process."""

    operation: str
    layer: str
    resource: str
    ns: int
    raw_ns: int
    low_ns: int
    high_ns: int
    calls: int
    uncorrected_ns: int = 0


@dataclass(frozen=True)
class Process:
    """One process of the run. `operations` (without waiting) and `layers` are nanoseconds of its threads with operations."""

    id: int
    pid: int
    parent: int  # the id of its parent, -1 when that is no part of the run
    name: str
    role: str
    start_ns: int
    end_ns: int
    exit: str
    threads: int
    cpu_ns: int
    events: int
    lost: int
    operations: Mapping[str, int] = field(default_factory=dict)
    layers: Mapping[str, int] = field(default_factory=dict)
    host: str = ""
    work_ns: tuple[int, int] | None = (
        None  # CPU time in the two halves of the steady state
    )
    queued_share: float | None = (
        None  # of the steady state, in which its leading thread waited for a core
    )

    @property
    def life_ns(self) -> int:
        """How long it was recorded."""
        return max(0, self.end_ns - self.start_ns)

    @property
    def cpu_share(self) -> float | None:
        """Of one core; None where it was not sampled."""
        if self.life_ns and self.cpu_ns:
            return self.cpu_ns / self.life_ns
        return None

    @property
    def wait_share(self) -> float:
        """Share of the time of its operation-carrying threads spent blocked."""
        return self.layers.get("wait", 0) / (sum(self.layers.values()) or 1)

    @property
    def mostly(self) -> str:
        """The operation it is busiest with."""
        return largest({name: ns for name, ns in self.operations.items() if name})


@dataclass(frozen=True)
class Group:
    """Processes of one role on one host. Its figures are the medians of its members, or what most of them have."""

    name: str
    host: str
    role: str
    exit: str
    life_ns: int
    cpu_share: float | None
    wait_share: float
    mostly: str
    members: tuple[Process, ...]
    pid: None = None

    @classmethod
    def of(cls, members: Sequence[Process]) -> Group:
        """A group of these processes, which have one role and one host."""
        first = members[0]
        sampled = [m.cpu_share for m in members if m.cpu_share is not None]
        return cls(
            name=f"{len(members)} × {first.role or 'other'}",
            host=first.host,
            role=first.role,
            exit=mode(m.exit for m in members),
            life_ns=int(median(m.life_ns for m in members)),
            cpu_share=median(sampled) if sampled else None,
            wait_share=median(m.wait_share for m in members),
            mostly=mode(m.mostly for m in members),
            members=tuple(members),
        )

    def odd(self) -> list[Process]:
        """The odd ones out: those that failed, then those whose CPU time or waits are far from what is usual here."""
        far = dict.fromkeys(
            (m.id for m in self.members), 0.0
        )  # 1 is the limit of what is usual
        for key in ("cpu_share", "wait_share"):
            known = {
                m.id: value
                for m in self.members
                if (value := getattr(m, key)) is not None
            }
            middle = median(known.values() or [0.0])
            usual = median([abs(value - middle) for value in known.values()] or [0.0])
            for id, value in known.items():
                far[id] = max(far[id], abs(value - middle) / max(FAR, SPREADS * usual))
        found = [m for m in self.members if m.exit not in WELL or far[m.id] > 1]
        return sorted(found, key=lambda m: (m.exit in WELL, -far[m.id]))[:MOST_ODD]


def workforce(processes: Sequence[Process]) -> tuple[list[Process], list[Process]]:
    """The processes that do the program's work, and its helpers."""
    helpers = [process for process in processes if process.role == HELPER]
    return [process for process in processes if process.role != HELPER], helpers


def outline(processes: Sequence[Process]) -> Iterator[Process | Group]:
    """What to show of many processes: groups, each before its odd ones out, and the members of small groups."""
    found: dict[tuple[str, str], list[Process]] = {}
    for process in processes:
        found.setdefault((process.host, process.role), []).append(process)
    for members in found.values():
        if len(members) <= FEW:
            yield from members
        else:
            yield (group := Group.of(members))
            yield from group.odd()


@dataclass(frozen=True)
class Wait:
    """Time the threads with operations of one process spent blocked."""

    process: int
    for_process: int  # -1 when nobody knows
    operation: str
    on: str
    ns: int
    count: int
    among: tuple[int, ...] = ()  # who may have ended the waits
    partner: str = ""  # their name


@dataclass(frozen=True)
class CallSite:
    """A line of Python and the native function it called."""

    operation: str
    layer: str
    function: str
    file: str
    line: int
    caller: str
    ns: int
    count: int
    transitions: int
    your_file: str = (
        ""  # the line of the user's own that led there most often, if samples show it
    )
    your_line: int = 0


@dataclass(frozen=True)
class Machine:
    """What the samples say about cores and devices; None where nothing was sampled."""

    cores: int
    cores_busy: float | None = None
    other_cores: float | None = None  # cores used by other programs
    runqueue_share: float | None = None
    runnable: float | None = None
    device_busy: float | None = None
    nvidia_smi: float | None = None
    device_copies: float = 0.0  # share of the time a device copied
    watts: float | None = None
    use: Use | None = None  # how well kernels use the device, by hardware counters


@dataclass(frozen=True)
class Correction:
    """The recorder's own cost as removed from the figures. Shares are of the raw time."""

    removed: float
    error: float
    units: int = 0  # were left unrecorded to measure it
    short: float = (
        0.0  # could not be removed: cells with less time than their correction
    )
    background: float = 0.0  # of a core, taken by the recorder's own threads


@dataclass(frozen=True)
class Stretch:
    """A stretch of the run, counted from its start: the pace, and the shares of the main process's operations."""

    start_ns: int
    end_ns: int
    steps_per_second: float
    iterations_per_second: float
    steady: bool  # not in the start-up
    shares: Mapping[str, float]

    def rate(self, what: str) -> float:
        """Steps or iterations a second."""
        if what == "steps":
            return self.steps_per_second
        return self.iterations_per_second


@dataclass(frozen=True)
class Verdict:
    """What bounds a run. `certain` is False when the evidence was too thin for a verdict."""

    rule: str
    label: str
    because: str
    advice: str
    speedup: float | None
    given: str
    then: str
    look: str
    certain: bool = True
    at_most: bool = False
    warnings: tuple[
        str, ...
    ] = ()  # what to know before believing the rest, the worst first

    @property
    def expected(self) -> str:
        """The expected gain in a phrase, or nothing."""
        if self.speedup is None or self.speedup < 1.01:
            return ""
        bound = "at most " if self.at_most else ""
        return f"estimate: {bound}{(self.speedup - 1) * 100:+.0f} % throughput {self.given}"


@dataclass(frozen=True)
class Thread:
    """A thread that works: for which share of the steady state, and mostly at which operation."""

    name: str
    busy: float
    mostly: str


@dataclass(frozen=True)
class Digest:
    """Everything the reports say about a run. Times are those of the steady state."""

    path: str
    program: str
    command: str
    title: str  # the command without the interpreter and the path of the script
    created: str
    host: str
    python: str
    clock: str
    source: str
    versions: Mapping[str, str]
    facts: Mapping[str, Any]  # what the program announced with cutaway.describe
    state: str  # complete, stopped (the recorder gave up), recording or killed
    failure: str  # how the program failed or was killed, in a sentence
    devices: tuple[str, ...]
    unit: str  # what per-unit times are given for: iteration, step or run
    units: (
        float  # divide by it; an iteration counts by the share of it that was recorded
    )
    iterations: int
    steps: int
    tokens: int
    startup_ns: int
    unrecorded_ns: int  # around the steady state
    shutdown_ns: int
    steady_ns: int
    processes: tuple[Process, ...]
    main_process: int
    threads: tuple[
        Thread, ...
    ]  # of the main process, those that work; the figures are about the first
    cells: tuple[Cell, ...]
    gil_in_calls_ns: int  # of these, native calls that waited for the interpreter lock
    device_time: Rows  # of the devices: operation that launched it, layer, ns
    machine: Machine
    waits: tuple[Wait, ...]
    callsites: tuple[CallSite, ...]
    transitions: (
        Rows  # from a layer into a lower one: operation, from, to, count, per_unit
    )
    lines: Rows  # the user's own, with what is below them: operation, layer, function, file, line, ns
    packages: Mapping[
        str, float
    ]  # share of the sampled time with code of a package on the stack
    correction: Correction | None
    losses: Mapping[str, int]
    stopped: Rows  # where the recorder gave up: process, name, why, kept_ns, missed_ns
    hangs: Rows  # what killed processes were in the middle of: process, name, where, ns
    notes: tuple[str, ...]
    events: int
    stretches: tuple[Stretch, ...]
    memory: Memory
    verdict: Verdict

    @property
    def main(self) -> Process:
        """The process the figures are about."""
        return self.processes[self.main_process]

    @property
    def total_ns(self) -> int:
        """What the cells add up to."""
        return sum(c.ns for c in self.cells)

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps a second of steady state."""
        if self.steps and self.steady_ns:
            return self.steps / (self.steady_ns / 1e9)
        return None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that language models generated, a second of steady state."""
        if self.tokens and self.steady_ns:
            return self.tokens / (self.steady_ns / 1e9)
        return None

    @property
    def device_ns(self) -> dict[str, int]:
        """Device time by the operation that launched it."""
        return totals((d["operation"], d["ns"]) for d in self.device_time)

    def operations(self) -> dict[str, int]:
        """Nanoseconds by operation, the largest first, time outside operations last; 0 where only the device worked."""
        device = self.device_ns
        total = {
            **dict.fromkeys(device, 0),
            **totals((c.operation, c.ns) for c in self.cells),
        }
        return dict(
            sorted(
                total.items(),
                key=lambda kv: (kv[0] == "", -kv[1], -device.get(kv[0], 0)),
            )
        )

    def roles(self) -> dict[str, int]:
        """How many processes have each role, in order of appearance."""
        return totals((process.role or "process", 1) for process in self.processes)

    def folded(self, most: int) -> Digest:
        """The same with the smallest operations made one, so that at most `most` have a name."""
        own = self.operations()
        device = self.device_ns
        named = sorted(
            (n for n in own if n), key=lambda n: -max(own[n], device.get(n, 0))
        )
        if len(named) <= most:
            return self
        rest = set(named[most - 1 :])
        other = f"({len(rest)} more)"
        cells = tuple(
            replace(c, operation=other) if c.operation in rest else c
            for c in self.cells
        )
        launched = tuple(
            d | {"operation": other} if d["operation"] in rest else d
            for d in self.device_time
        )
        return replace(self, cells=cells, device_time=launched)

    def plain(self) -> dict[str, Any]:
        """The JSON of `cutaway show --json`, which docs/show.md describes. The schema's number grows when a key changes or goes."""
        rates = {
            name: getattr(self, name)
            for name in ("steps_per_second", "tokens_per_second")
        }
        return {"schema": SCHEMA, **asdict(self), **rates}
