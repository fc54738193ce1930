"""The values every report is made of: plain, frozen, without a reference to the run they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

LAYERS = (
    "python",
    "native",
    "simulator",
    "backend",
    "accelerator_api",
    "wait",
    "kernel",
    "memcpy",
    "memset",
    "collective",
)
DEVICE_LAYERS = frozenset(("kernel", "memcpy", "memset", "collective"))
BUILT_IN = (
    *("simulation", "inference", "backpropagation", "replay", "sync", "evaluation", "checkpoint"),
    *("compile", "search", "generation", "reward", "reference"),
)
NONE = "(none)"  # shown for time outside any operation


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
    count: int
    short_ns: int = 0


@dataclass(frozen=True)
class Process:
    """One process of the run. `operations` and `layers` are its own nanoseconds, by name."""

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

    @property
    def life_ns(self) -> int:
        """How long it was recorded."""
        return max(0, self.end_ns - self.start_ns)

    @property
    def wait_share(self) -> float:
        """Share of the time of its operation-carrying threads spent blocked."""
        total = sum(self.layers.values())
        return self.layers.get("wait", 0) / total if total else 0.0


@dataclass(frozen=True)
class Wait:
    """Time the threads with operations of one process spent blocked. `for_process` is -1 when it is not known for whom;
    `among` are those who may have ended the waits, `partner` says it in words."""

    process: int
    for_process: int
    operation: str
    on: str
    ns: int
    count: int
    among: tuple[int, ...] = ()
    partner: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the user's own in the main process, with the time spent in it and below it."""

    operation: str
    layer: str
    function: str
    file: str
    line: int
    ns: int


@dataclass(frozen=True)
class Hotspot:
    """A line of Python and the native function it called; `your_file` and `your_line`: the line of the user's own that led
    there most often, if samples tell."""

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
class Transition:
    """Crossings from one layer into a lower one."""

    operation: str
    origin: str
    target: str
    count: int
    per_iteration: float


@dataclass(frozen=True)
class Machine:
    """What the samples say about cores and devices; None where nothing was sampled."""

    cores: int
    cores_busy: float | None = None
    foreign: float | None = None
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
class Stopped:
    """A process whose recorder gave up: it recorded `kept_ns` from its start, and not the `missed_ns` after that."""

    process: int
    name: str
    why: str
    kept_ns: int
    missed_ns: int


@dataclass(frozen=True)
class Hang:
    """What a killed process was in the middle of, and for how long."""

    process: int
    name: str
    where: str  # in words: `time.sleep (train.py:7)`
    ns: int


@dataclass(frozen=True)
class Digest:
    """Everything the summary, the page and the verdict say about a run."""

    path: str
    program: str
    command: str
    title: str  # the command without the interpreter and the way to the script
    created: str
    host: str
    python: str
    clock: str
    source: str
    versions: Mapping[str, str]
    facts: Mapping[str, Any]  # what the program told with cutaway.describe
    state: str  # complete, stopped (the recorder gave up), recording or killed
    processes: tuple[Process, ...]
    main: Process
    devices: tuple[str, ...]
    startup_ns: int
    steady_ns: int
    unit: str  # what per-unit times are given for: iteration, step or run
    units: float  # an iteration counts by the share of it that was recorded
    iterations: int
    steps: int
    cells: tuple[Cell, ...]
    device_cells: Mapping[tuple[str, str], int]  # device time by launching operation and kind of work
    machine: Machine
    waits: tuple[Wait, ...]
    hotspots: tuple[Hotspot, ...]
    transitions: tuple[Transition, ...]
    correction: Correction | None
    losses: Mapping[str, int]
    stopped: tuple[Stopped, ...]
    hangs: tuple[Hang, ...]
    notes: tuple[str, ...]
    events: int
    lines: tuple[Line, ...] = ()
    failure: str = ""  # how the program failed or was killed, in a sentence
    tokens: int = 0

    @property
    def total_ns(self) -> int:
        """Time of the main process's operation-carrying threads that the cells add up to."""
        return sum(c.ns for c in self.cells)

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps a second of steady state."""
        return self.steps / (self.steady_ns / 1e9) if self.steps and self.steady_ns else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that language models generated, a second of steady state."""
        return self.tokens / (self.steady_ns / 1e9) if self.tokens and self.steady_ns else None

    @property
    def device_ns(self) -> dict[str, int]:
        """Device time by the operation that launched it."""
        total: dict[str, int] = {}
        for (operation, _), ns in self.device_cells.items():
            total[operation] = total.get(operation, 0) + ns
        return total

    def operations(self) -> dict[str, int]:
        """Nanoseconds by operation, largest first, time outside operations last; operations that had only
        device time (unattributed work among them) are there with none."""
        total: dict[str, int] = {}
        for cell in self.cells:
            total[cell.operation] = total.get(cell.operation, 0) + cell.ns
        device = self.device_ns
        for operation in device:
            total.setdefault(operation, 0)
        return dict(sorted(total.items(), key=lambda kv: (kv[0] == "", -kv[1], -device.get(kv[0], 0))))

    def process(self, id: int) -> Process | None:
        """The process with this id."""
        return next((p for p in self.processes if p.id == id), None)

    def roles(self) -> dict[str, int]:
        """How many processes have each role, in order of appearance."""
        count: dict[str, int] = {}
        for process in self.processes:
            role = process.role or "process"
            count[role] = count.get(role, 0) + 1
        return count

    def folded(self, most: int) -> Digest:
        """The same with the smallest operations made one, so that at most `most` have a name."""
        own, device = self.operations(), self.device_ns
        named = sorted((n for n in own if n), key=lambda n: -max(own[n], device.get(n, 0)))
        if len(named) <= most:
            return self
        rest = set(named[most - 1 :])
        other = f"({len(rest)} more)"
        launched: dict[tuple[str, str], int] = {}
        for (name, layer), ns in self.device_cells.items():
            key = other if name in rest else name, layer
            launched[key] = launched.get(key, 0) + ns
        cells = tuple(replace(c, operation=other) if c.operation in rest else c for c in self.cells)
        return replace(self, cells=cells, device_cells=launched)
