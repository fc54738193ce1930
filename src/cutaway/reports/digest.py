"""The digest of a run: the one model that terminal, page, JSON and live view are made from. `digests.py` makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cutaway.analysis.counters import Use
from cutaway.analysis.rollouts import Rollouts
from cutaway.analysis.table import totals

from .memory import Memory

SCHEMA = "cutaway.show/3"
Rows = tuple[dict[str, Any], ...]
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
class Program:
    """What was run, where and with what."""

    path: str
    name: str
    command: str
    title: str  # the command without the interpreter and the path of the script
    created: str
    host: str
    python: str
    clock: str
    source: str
    versions: Mapping[str, str]
    facts: Mapping[str, Any]  # what the program announced with cutaway.describe
    devices: tuple[str, ...]


@dataclass(frozen=True)
class Ending:
    """How the run ended."""

    state: str  # complete, stopped (the recorder gave up), recording or killed
    failure: str  # how the program failed or was killed, in a sentence
    stopped: Rows  # where the recorder gave up: process, name, why, kept_ns, missed_ns
    hangs: Rows  # what killed processes were in the middle of: process, name, where, ns


@dataclass(frozen=True)
class Pace:
    """How long the stages of the run took, and what per-unit figures are divided by."""

    unit: str  # iteration, step or run
    units: float
    """Divide by it; an iteration counts by the share of it that was recorded."""
    iterations: int
    steps: int
    tokens: int
    startup_ns: int
    unrecorded_ns: int  # around the steady state
    shutdown_ns: int
    steady_ns: int

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps a second of steady state."""
        return self._rate(self.steps)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that language models generated, a second of steady state."""
        return self._rate(self.tokens)

    def _rate(self, count: int) -> float | None:
        if count and self.steady_ns:
            return count / (self.steady_ns / 1e9)
        return None


@dataclass(frozen=True)
class Spent:
    """Where the time of the main process went."""

    threads: tuple[Thread, ...]  # those that work; the cells are about the first
    cells: tuple[Cell, ...]
    gil_in_calls_ns: int  # of these, native calls that waited for the interpreter lock
    samples: int  # of the stack of the thread that the cells are about
    gil_holders: Rows  # the other threads' lines that ran Python meanwhile
    device_time: Rows  # of the devices: operation that launched it, layer, ns


@dataclass(frozen=True)
class Code:
    """Which code the time goes into."""

    callsites: tuple[CallSite, ...]
    transitions: Rows
    """From a layer into a lower one: operation, from, to, count, per_unit."""
    lines: Rows
    """The user's own, with what is below them: operation, layer, function, file, line, ns."""
    packages: Mapping[str, float]
    """Share of the sampled time with code of a package on the stack."""


@dataclass(frozen=True)
class Trust:
    """How far the figures can be trusted."""

    correction: Correction | None
    losses: Mapping[str, int]
    notes: tuple[str, ...]
    events: int


@dataclass(frozen=True)
class Digest:
    """Everything the reports say about a run. Times are those of the steady state."""

    program: Program
    ending: Ending
    pace: Pace
    processes: tuple[Process, ...]
    main_process: int
    spent: Spent
    machine: Machine
    waits: tuple[Wait, ...]
    code: Code
    trust: Trust
    stretches: tuple[Stretch, ...]
    memory: Memory
    verdict: Verdict
    rollouts: Rollouts = field(default_factory=Rollouts)

    @property
    def main(self) -> Process:
        """The process the figures are about."""
        return self.processes[self.main_process]

    @property
    def total_ns(self) -> int:
        """What the cells add up to."""
        return sum(cell.ns for cell in self.spent.cells)

    @property
    def device_ns(self) -> dict[str, int]:
        """Device time by the operation that launched it."""
        return totals((row["operation"], row["ns"]) for row in self.spent.device_time)

    def operations(self) -> dict[str, int]:
        """Nanoseconds by operation, the largest first, time outside operations last; 0 where only the device worked."""
        device = self.device_ns
        total = dict.fromkeys(device, 0)
        total |= totals((cell.operation, cell.ns) for cell in self.spent.cells)

        def rank(name: str) -> tuple[bool, int, int]:
            return name == "", -total[name], -device.get(name, 0)

        return {name: total[name] for name in sorted(total, key=rank)}

    def roles(self) -> dict[str, int]:
        """How many processes have each role, in order of appearance."""
        return totals((process.role or "process", 1) for process in self.processes)

    def folded(self, most: int) -> Digest:
        """The same with the smallest operations made one, so that at most `most` have a name."""
        own = self.operations()
        device = self.device_ns
        named = [name for name in own if name]
        named.sort(key=lambda name: -max(own[name], device.get(name, 0)))
        if len(named) <= most:
            return self
        rest = set(named[most - 1 :])
        return replace(self, spent=_folded(self.spent, rest))

    def plain(self) -> dict[str, Any]:
        """The JSON of `cutaway show --json`, which docs/show.md describes. The schema's number grows when a key changes or goes."""
        found: dict[str, Any] = {"schema": SCHEMA}
        for name, value in asdict(self).items():
            found |= value if name in FLAT else {name: value}
        found["program"] = found.pop("name")
        found["steps_per_second"] = self.pace.steps_per_second
        found["tokens_per_second"] = self.pace.tokens_per_second
        return found


FLAT = ("program", "ending", "pace", "spent", "code", "trust")
"""Groups of a digest whose fields stand at the top of the JSON."""


def _folded(spent: Spent, rest: set[str]) -> Spent:
    """The same with some operations made one."""
    other = f"({len(rest)} more)"
    cells = []
    for cell in spent.cells:
        folds = cell.operation in rest
        cells.append(replace(cell, operation=other) if folds else cell)
    launched = []
    for row in spent.device_time:
        folds = row["operation"] in rest
        launched.append(row | {"operation": other} if folds else row)
    return replace(spent, cells=tuple(cells), device_time=tuple(launched))
