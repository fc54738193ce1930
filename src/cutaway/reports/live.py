"""The last seconds of a run while it is recorded, summed up as its files grow; its verdict so far. No drawing here."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis.devices import nvidia_smi
from cutaway.analysis.intervals import length, union
from cutaway.analysis.processes import (
    HELPER,
    UNKNOWN,
    cpu_over_time,
    parents_of,
    role_of,
)
from cutaway.analysis.utilisation import KERNELS
from cutaway.errors import CutawayError
from cutaway.trace import format as fmt
from cutaway.trace.log import Log
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.trace.sources import MAY_GROW, NOWHERE, as_bytes
from cutaway.vocabulary import (
    DEVICE_LAYERS,
    OPERATIONS,
    THREAD_LAYERS,
    Stream,
)

from .digest import Verdict
from .digests import digest_at

BIN_NS = 250_000_000
WINDOW_S = 10
WINDOW_NS = WINDOW_S * 1_000_000_000
BINS = WINDOW_NS // BIN_NS
HISTORY = 40  # of steps/s, for the sparkline
BINS_KEPT = 2 * BINS  # processes may tell of different moments
JUDGING = 0.05  # share of the time that goes into the verdict
ANCHORS_S = 60  # of clocks that are kept

Plane = tuple[str, str]  # operation, layer


class ThreadWindow:
    """What a thread did in each bin of the last seconds, and the steps it made: its sweep, continued at each look."""

    def __init__(self, process: ProcessTrace, thread: int) -> None:
        self._log = process.log
        self._thread = thread
        self._sweep = _sweep.LiveThread(
            process.native(), self._sources(process), BIN_NS, BINS_KEPT
        )
        self.totals: Counter[Plane] = Counter()
        """Nanoseconds by (operation, layer) in the window."""
        self.read(process)

    def _sources(self, process: ProcessTrace) -> NDArray[np.uint8]:
        return as_bytes(process.written.get(self._thread, NOWHERE))

    def read(self, process: ProcessTrace) -> None:
        """Take in what is new."""
        self._sweep.follow(process.native(), self._sources(process))
        found = self._sweep.window()
        self._first: int = found["first"]
        self._steps: list[int] = found["steps"].tolist()
        self._ns = found["ns"].reshape(-1, BINS_KEPT)
        states = zip(found["operation"].tolist(), found["layer"].tolist(), strict=True)
        self._planes = [self._plane(*state) for state in states]

    def _plane(self, operation: int, layer: int) -> Plane:
        return self._log.name(operation), THREAD_LAYERS[layer]

    def trim(self, first: int) -> None:
        """The window begins with the bin `first`."""
        inside = self._ns[:, max(0, first - self._first) :].sum(axis=1)
        self.totals = Counter()
        for plane, ns in zip(self._planes, inside.tolist(), strict=True):
            if ns:
                self.totals[plane] += ns

    def steps_in(self, bin: int) -> int:
        """How many steps it made in a bin."""
        at = bin - self._first
        if 0 <= at < len(self._steps):
            return self._steps[at]
        return 0

    @property
    def operations(self) -> set[str]:
        """All that it has been in."""
        return {operation for operation, _ in self._planes if operation}

    @property
    def stepped(self) -> bool:
        """Whether it has made steps."""
        return self._sweep.steps > 0

    @property
    def iteration(self) -> int:
        """The number of the newest."""
        return self._sweep.iteration

    @property
    def last_ns(self) -> int:
        """When something about it was known last; 0: never."""
        return self._sweep.last

    def now(self) -> Plane | None:
        """What it was last seen doing."""
        state = self._sweep.now
        if state:
            return self._plane(*state)
        return None


@dataclass
class LiveProcess:
    """A process as the live view shows it."""

    trace: ProcessTrace
    threads: dict[int, ThreadWindow] = field(default_factory=dict)
    last_ns: int = 0
    stepped: bool = False
    name: str = ""  # its pid until it has one
    role: str = ""
    ended: bool = False
    iterations: int = 0  # the number of the newest one
    spans: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    """Work of the devices that reaches into the window: device, start, end, whether a kernel."""
    shared: int = 0  # bytes of its memory that count for others, as last measured
    _opened: set[str] = field(default_factory=set)  # the operations seen so far
    _taken: dict[int, int] = field(
        default_factory=dict
    )  # device records read, by where their block starts

    def read(self, root: bool, roots: int) -> None:
        """Take in what was added since the last look; see `role_of`."""
        log = self.trace.log
        self.name = str(log.process.get("name") or f"pid {self.trace.pid}")
        self.ended = log.exit is not None
        for sample in log.samples:
            if _is_size(sample.get("pss")) and _is_size(sample.get("rss")):
                self.shared = max(0, sample["rss"] - sample["pss"])
        _forget_read(log)
        if log.samples:
            self.last_ns = max(self.last_ns, int(log.samples[-1].get("t", 0)))
        self._read_devices()
        for id in self.trace.threads:
            if id in self.threads:
                self.threads[id].read(self.trace)
            else:
                self.threads[id] = ThreadWindow(self.trace, id)
            thread = self.threads[id]
            self.last_ns = max(self.last_ns, thread.last_ns)
            self.stepped |= thread.stepped
            self.iterations = max(self.iterations, thread.iteration)
            self._opened |= thread.operations
        self.role = role_of(log, self._opened, root=root, roots=roots)

    def _read_devices(self) -> None:
        """device.bin grows in place, chunk by chunk: only the newest can have changed since the last look."""
        known = self.trace.device_sources
        sources = known[known["stream"] == Stream.DEVICE][-MAY_GROW:]
        new = [self.spans]
        for at, (block, count) in enumerate(sources[["offset", "count"]].tolist()):
            taken = self._taken.get(block, 0)
            if count > taken:
                records = self.trace.device_part(
                    sources[at : at + 1], fmt.DEVICE_DTYPE
                )[0][taken:]
                self._taken[block] = taken + len(records)
                records = records[np.isin(records["kind"], list(DEVICE_LAYERS))]
                columns = [
                    records[n].astype(np.int64) for n in ("device", "start", "end")
                ]
                new.append(
                    np.stack([*columns, np.isin(records["kind"], KERNELS)], axis=1)
                )
        self.spans = np.concatenate(new)

    def trim(self, first: int) -> None:
        """Forget what ended before the bin `first`."""
        self.spans = self.spans[self.spans[:, 2] > first * BIN_NS]
        for thread in self.threads.values():
            thread.trim(first)

    def main(self) -> ThreadWindow | None:
        """The thread with the most time in named operations; any, if none has."""
        return max(
            self.threads.values(),
            key=lambda t: (named_ns(t.totals), bool(t.totals)),
            default=None,
        )

    def totals(self) -> Counter[Plane]:
        """Nanoseconds by (operation, layer) of its main thread in the window."""
        thread = self.main()
        if thread:
            return thread.totals
        return Counter()

    def now(self) -> Plane | None:
        """What its main thread was last seen doing."""
        thread = self.main()
        if self.ended or thread is None:
            return None
        return thread.now()

    def resident(self) -> int | None:
        """Bytes of memory it has now."""
        told = [s["rss"] for s in self.trace.log.samples if _is_size(s.get("rss"))]
        if self.ended or not told:
            return None
        return int(told[-1])

    def cpu(self) -> float | None:
        """Cores used in the last seconds it lived, from the samples."""
        time, used = cpu_over_time(self.trace.log.samples)
        if len(time) < 2:
            return None
        first = min(int(np.searchsorted(time, time[-1] - WINDOW_NS)), len(time) - 2)
        return float((used[-1] - used[first]) / (time[-1] - time[first]))


def _forget_read(log: Log) -> None:
    """Forgets what a log says of long ago, so that reading on does not take longer and longer."""
    del log.samples[: -20 * WINDOW_S]
    newest = max((anchor.mono for anchor in log.anchors), default=0)
    since = newest - ANCHORS_S * 1_000_000_000
    log.anchors[1:] = [anchor for anchor in log.anchors[1:] if anchor.mono >= since]


def _is_size(value: object) -> bool:
    return isinstance(value, int) and value > 0


def named_ns(totals: Counter[Plane]) -> int:
    """Nanoseconds in named operations."""
    return sum(ns for (operation, _), ns in totals.items() if operation)


class Judge:
    """The verdict on the run so far, found by a thread from time to time: the view stays quick and the machine free."""

    def __init__(self, path: Path) -> None:
        self.verdict: Verdict | None = None
        self._path = path
        self._due = 0.0
        self._final = False
        self._thread = threading.Thread()

    def look(self, finished: bool, wait: bool = False) -> Verdict | None:
        """The newest verdict; None until there is one."""
        if (
            not self._thread.is_alive()
            and not self._final
            and (finished or monotonic() >= self._due)
        ):
            self._final = finished
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        if wait and self._thread.is_alive():
            self._thread.join()
        return self.verdict

    @property
    def busy(self) -> bool:
        """Whether a verdict is computed right now."""
        return self._thread.is_alive()

    def _work(self) -> None:
        start = monotonic()
        try:
            self.verdict = digest_at(self._path).verdict
        except CutawayError:  # nothing is recorded yet
            pass
        end = monotonic()
        self._due = end + (end - start) / JUDGING


class LiveRun:
    """The folder of a run that is still recording."""

    def __init__(self, path: Path) -> None:
        if not (path / "run.json").is_file():
            raise CutawayError(
                f"{path} is not a Cutaway run; start one with `cutaway run train.py`."
            )
        self.path = path
        self.trace = read_run(path)
        self.processes: dict[str, LiveProcess] = {}
        self.rates: deque[float] = deque(maxlen=HISTORY)
        self._rated = 0
        self.judge = Judge(path)
        self.finished = False
        self.now_ns = 0  # the time of the newest event or sample
        self.up_ns = 0  # how long the run has been going

    def refresh(self) -> None:
        """Read what was added since the last look."""
        self.trace.refresh()
        parents = parents_of(self.trace)
        for trace, parent in zip(self.trace.processes, parents, strict=True):
            process = self.processes.setdefault(trace.folder.name, LiveProcess(trace))
            process.read(parent == UNKNOWN, parents.count(UNKNOWN))
        self.now_ns = max((p.last_ns for p in self.processes.values()), default=0)
        self.up_ns = max(0, self.now_ns - self._started())
        self.finished = (self.path / "exit.json").is_file()
        for process in self.processes.values():
            process.trim(self.now_ns // BIN_NS - BINS)
        self._rate()

    def _started(self) -> int:
        """When the first process started, as far as logs say."""
        logs = [trace.log.process for trace in self.trace.processes]
        starts = [int(about.get("t") or 0) for about in logs]
        return min(filter(None, starts), default=self.now_ns)

    def _rate(self) -> None:
        """The steps a second of each bin that is complete now; the newest two may still grow."""
        complete = self.now_ns // BIN_NS - 2
        oldest = max(self._rated + 1, complete - HISTORY + 1)
        threads = self._stepping()
        for bin in range(oldest, complete + 1):
            steps = sum(thread.steps_in(bin) for thread in threads)
            self.rates.append(steps * 1e9 / BIN_NS)
            self._rated = bin

    def _stepping(self) -> list[ThreadWindow]:
        """The threads whose steps count: those of the main process, if it steps environments itself."""
        main = self.main()
        if main is not None and main.stepped:
            return list(main.threads.values())
        found: list[ThreadWindow] = []
        for process in self.processes.values():
            found += process.threads.values()
        return found

    def main(self) -> LiveProcess | None:
        """The process the verdict is about: the learner, else the one with iterations, else the busiest."""

        def rank(process: LiveProcess) -> tuple[bool, int, int]:
            return (
                process.role == "learner",
                process.iterations,
                named_ns(process.totals()),
            )

        return max(self.processes.values(), key=rank, default=None)

    def working(self) -> list[LiveProcess]:
        """The processes without helpers."""
        return [
            process for process in self.processes.values() if process.role != HELPER
        ]

    def steps_per_second(self) -> float | None:
        """Mean of the last ten seconds; None when no steps were ever marked."""
        if not any(p.stepped for p in self.processes.values()):
            return None
        recent = list(self.rates)[-BINS:]
        if recent:
            return sum(recent) / len(recent)
        return 0.0

    def gpu(self, *processes: LiveProcess) -> dict[int, tuple[float, float]]:
        """Share of the last seconds in which each device was busy with work of these processes, and what nvidia-smi would show."""
        span = self.now_ns - max(1, min(WINDOW_NS, self.up_ns)), self.now_ns
        spans = np.concatenate(
            [np.zeros((0, 4), np.int64), *(p.spans for p in processes)]
        )
        spans = spans[(spans[:, 2] > span[0]) & (spans[:, 1] < span[1])]
        spans[:, 1:3] = spans[:, 1:3].clip(*span)
        out = {}
        for device in np.unique(spans[:, 0]).tolist():
            own = spans[spans[:, 0] == device]
            busy = length(union(own[:, 1], own[:, 2])) / (span[1] - span[0])
            kernels = union(*own[own[:, 3] == 1, 1:3].T)
            starts, ends = kernels.T.copy()
            ran = _sweep.periods(starts, ends, *span)
            out[device] = busy, nvidia_smi(ran, span[1] - span[0])["1/6 s"]
        return out

    def meters(self) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
        """The last readings of the accelerators' meters by device, and of power in watts; empty where there are none."""
        gpus: dict[int, dict[str, Any]] = {}
        power: dict[str, Any] = {}
        for process in self.processes.values():
            for sample in process.trace.log.samples:
                for gpu in sample.get("gpu") or []:
                    if isinstance(gpu, dict) and isinstance(gpu.get("id"), int):
                        gpus[gpu["id"]] = gpu
                if isinstance(sample.get("power"), dict):
                    power = sample["power"]
        return gpus, power

    def operations(self) -> list[str]:
        """All operations seen in the window, the built-in ones first."""
        seen: set[str] = set()
        for process in self.processes.values():
            seen |= {operation for operation, _ in process.totals()}
        seen.discard("")
        built_in = [name for name in OPERATIONS if name in seen]
        return built_in + sorted(seen - set(OPERATIONS))


def newest_run(folder: Path) -> Path:
    """The run in this folder that was started last."""
    runs = [p for p in folder.glob("*.cutaway") if (p / "run.json").is_file()]
    if not runs:
        remedy = "name one, or start one with `cutaway run train.py`"
        raise CutawayError(f"There is no run in {folder.resolve()}; {remedy}.")
    return max(runs, key=lambda p: (p / "run.json").stat().st_mtime)
