"""The digest of a run: the one model that terminal, page, JSON and live view are made from. Plain frozen values, without a
reference to the run they came from; `gather.py` fills it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cutaway.analysis.table import totals

SCHEMA = "cutaway.show/2"
Rows = tuple[dict[str, Any], ...]


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
    short_ns: int = 0


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

    @property
    def life_ns(self) -> int:
        """How long it was recorded."""
        return max(0, self.end_ns - self.start_ns)

    @property
    def cpu_share(self) -> float | None:
        """Of one core; None where it was not sampled."""
        return self.cpu_ns / self.life_ns if self.life_ns and self.cpu_ns else None

    @property
    def wait_share(self) -> float:
        """Share of the time of its operation-carrying threads spent blocked."""
        total = sum(self.layers.values())
        return self.layers.get("wait", 0) / total if total else 0.0

    @property
    def mostly(self) -> str:
        """The operation it is busiest with."""
        return largest({name: ns for name, ns in self.operations.items() if name})


@dataclass(frozen=True)
class Wait:
    """Time the threads with operations of one process spent blocked. `for_process` is -1 when nobody knows for whom;
    `among` are those who may have ended the waits, `partner` names them."""

    process: int
    for_process: int
    operation: str
    on: str
    ns: int
    count: int
    among: tuple[int, ...] = ()
    partner: str = ""


@dataclass(frozen=True)
class Hotspot:
    """A line of Python and the native function it called. `your_file` and `your_line`: the line of the user's own that led
    there most often, if samples show it."""

    operation: str
    layer: str
    function: str
    file: str
    line: int
    caller: str
    ns: int
    count: int
    transitions: int
    your_file: str = ""
    your_line: int = 0


@dataclass(frozen=True)
class Machine:
    """What the samples say about cores and devices; None where nothing was sampled."""

    cores: int
    cores_busy: float | None = None
    foreign: float | None = None  # cores used by other programs
    runqueue_share: float | None = None
    runnable: float | None = None
    device_busy: float | None = None
    nvidia_smi: float | None = None
    device_copies: float = 0.0  # share of the time a device copied
    watts: float | None = None


@dataclass(frozen=True)
class Correction:
    """The recorder's own cost as removed from the figures. Shares are of the raw time.

    `units` were left unrecorded to measure it. `short` is what could not be removed: cells with less time than their correction.
    `background` is the share of a core that the recorder's own threads took beside the program.
    """

    removed: float
    error: float
    units: int = 0
    short: float = 0.0
    background: float = 0.0


@dataclass(frozen=True)
class Stretch:
    """A stretch of the run, counted from its start: the pace, and the shares of the main process's operations."""

    start_ns: int
    end_ns: int
    steps_per_second: float
    iterations_per_second: float
    steady: bool  # not in the start-up
    shares: Mapping[str, float]


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
    warnings: tuple[str, ...] = ()  # what to know before believing the rest, the worst first

    @property
    def expected(self) -> str:
        """The expected gain in a phrase, or nothing."""
        if self.speedup is None or self.speedup < 1.01:
            return ""
        most = "at most " if self.at_most else ""
        return f"estimate: {most}{(self.speedup - 1) * 100:+.0f} % throughput {self.given}"


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
    units: float  # an iteration counts by the share of it that was recorded
    iterations: int
    steps: int
    tokens: int
    startup_ns: int
    shutdown_ns: int
    steady_ns: int
    processes: tuple[Process, ...]
    main_process: int
    cells: tuple[Cell, ...]
    device_time: Rows  # of the devices: operation that launched it, layer, ns
    machine: Machine
    waits: tuple[Wait, ...]
    hotspots: tuple[Hotspot, ...]
    transitions: Rows  # from a layer into a lower one: operation, origin, target, count, per_unit
    lines: Rows  # the user's own, with what is below them: operation, layer, function, file, line, ns
    packages: Mapping[str, float]  # share of the sampled time with code of a package on the stack
    correction: Correction | None
    losses: Mapping[str, int]
    stopped: Rows  # where the recorder gave up: process, name, why, kept_ns, missed_ns
    hangs: Rows  # what killed processes were in the middle of: process, name, where, ns
    notes: tuple[str, ...]
    events: int
    stretches: tuple[Stretch, ...]
    verdict: Verdict

    @property
    def main(self) -> Process:
        """The process the figures are about."""
        return self.processes[self.main_process]

    @property
    def total_ns(self) -> int:
        """Time of the main process's operation-carrying threads that the cells add up to."""
        return sum(c.ns for c in self.cells)

    @property
    def each(self) -> float:
        """Divide by this for per-unit figures."""
        return self.units or 1

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps a second of steady state."""
        return self._rate(self.steps)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that language models generated, a second of steady state."""
        return self._rate(self.tokens)

    def _rate(self, count: int) -> float | None:
        return count / (self.steady_ns / 1e9) if count and self.steady_ns else None

    @property
    def device_ns(self) -> dict[str, int]:
        """Device time by the operation that launched it."""
        return totals((d["operation"], d["ns"]) for d in self.device_time)

    def operations(self) -> dict[str, int]:
        """Nanoseconds by operation, largest first, time outside operations last; operations with device time only
        (unattributed work among them) are there with none."""
        device = self.device_ns
        total = {**dict.fromkeys(device, 0), **totals((c.operation, c.ns) for c in self.cells)}
        return dict(sorted(total.items(), key=lambda kv: (kv[0] == "", -kv[1], -device.get(kv[0], 0))))

    def roles(self) -> dict[str, int]:
        """How many processes have each role, in order of appearance."""
        return totals((process.role or "process", 1) for process in self.processes)

    def folded(self, most: int) -> Digest:
        """The same with the smallest operations made one, so that at most `most` have a name."""
        own, device = self.operations(), self.device_ns
        named = sorted((n for n in own if n), key=lambda n: -max(own[n], device.get(n, 0)))
        if len(named) <= most:
            return self
        rest = set(named[most - 1 :])
        other = f"({len(rest)} more)"
        cells = tuple(replace(c, operation=other) if c.operation in rest else c for c in self.cells)
        launched = tuple(d | {"operation": other} if d["operation"] in rest else d for d in self.device_time)
        return replace(self, cells=cells, device_time=launched)

    def plain(self) -> dict[str, Any]:
        """The JSON of `cutaway show --json`. docs/show.md describes the schema; its number grows when a key changes its
        meaning or goes."""
        rates = {name: getattr(self, name) for name in ("steps_per_second", "tokens_per_second")}
        return {"schema": SCHEMA, **asdict(self), **rates}
