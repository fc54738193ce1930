"""The last seconds of a run that is being recorded, summed up as its files grow; its verdict so far. No drawing here."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis.intervals import length, union
from cutaway.analysis.processes import cpu_over_time
from cutaway.analysis.utilisation import KERNELS, PERIODS_NS, smi_share
from cutaway.errors import CutawayError
from cutaway.trace import format as fmt
from cutaway.trace.format import Structured
from cutaway.trace.log import Log
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import DEVICE_LAYERS, OPERATIONS, THREAD_LAYERS, Kind, RowFlag, Stream

from .digest import Verdict
from .gather import gather

BIN_NS = 250_000_000
WINDOW_S = 10
WINDOW_NS = WINDOW_S * 1_000_000_000
BINS = WINDOW_NS // BIN_NS
HISTORY = 40  # of steps/s, for the sparkline
_LAYER_BITS = 3
NOT_ALIVE = -1
JUDGING = 0.05  # share of the time that goes into the verdict
# Blocks of device.bin before its end that may still grow, and how far back the first look goes.
LOOK_BACK = 256

Ints = NDArray[np.int64]
Plane = tuple[str, str]  # operation, layer


@dataclass
class ThreadWindow:
    """What a thread did in each bin of the last seconds, and the steps it made."""

    log: Log
    reader: _sweep.Reader
    bins: defaultdict[int, Counter[Plane]] = field(default_factory=lambda: defaultdict(Counter))
    steps: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    iteration: int = 0
    last: tuple[int, int] | None = None  # time and state of the last boundary
    _paused_at: int = 0

    def read(self, process: ProcessTrace, thread: int, since: int) -> None:
        """Take in what is new."""
        for events in process.events(thread, since=since, reader=self.reader):
            self._add(*_boundaries(events))
            marks = events[np.isin(events["kind"], (Kind.ITERATION, Kind.STEP, Kind.PAUSE, Kind.RESUME))]
            for kind, time, value in marks[["kind", "time", "value"]].tolist():
                if kind == Kind.ITERATION:
                    self.iteration = value
                elif kind == Kind.STEP:
                    self._step(time, time, value)
                elif kind == Kind.PAUSE:
                    self._paused_at = time
                elif value:
                    self._step(self._paused_at or time, time, value)

    def _step(self, start: int, end: int, count: int) -> None:
        """Steps made in this stretch of time, spread evenly over its bins."""
        first, last = start // BIN_NS, end // BIN_NS
        for bin in range(max(first, last - 4 * BINS), last + 1):
            self.steps[bin] += count / (last - first + 1)

    def _add(self, time: Ints, states: Ints) -> None:
        if self.last is not None:
            time, states = np.concatenate([[self.last[0]], time]), np.concatenate([[self.last[1]], states])
        self.last = int(time[-1]), int(states[-1])
        newest = int(time[-1]) // BIN_NS
        first = max(int(time[0]) // BIN_NS, newest + 1 - 4 * BINS)  # of a long silence only the end counts
        edges = BIN_NS * np.arange(first, newest + 1)
        cuts = np.sort(np.concatenate([time, edges[edges > time[0]]]))
        start, lengths = cuts[:-1], np.diff(cuts)
        states = states[np.searchsorted(time, start, "right") - 1]
        counts = (lengths > 0) & (start >= edges[0]) & (states != NOT_ALIVE)
        keys, of = np.unique((((start // BIN_NS - first) << 40) | states)[counts], return_inverse=True)
        for key, ns in zip(keys.tolist(), np.bincount(of, lengths[counts]).tolist(), strict=True):
            self.bins[first + (key >> 40)][self.plane(key & ((1 << 40) - 1))] += int(ns)

    def plane(self, code: int) -> Plane:
        """Operation and layer of a state."""
        return self.log.name(code >> _LAYER_BITS), THREAD_LAYERS[code & ((1 << _LAYER_BITS) - 1)]

    def trim(self, first: int) -> None:
        """Forget bins before `first`."""
        for by_bin in (self.bins, self.steps):
            for bin in [b for b in by_bin if b < first]:
                del by_bin[bin]

    def totals(self) -> Counter[Plane]:
        """Nanoseconds by (operation, layer) in the window."""
        out: Counter[Plane] = Counter()
        for bin in self.bins.values():
            out.update(bin)
        return out

    def named(self) -> int:
        """Nanoseconds in named operations."""
        return sum(ns for (operation, _), ns in self.totals().items() if operation)


def _boundaries(events: Structured) -> tuple[Ints, Ints]:
    """Where what the thread does may change, and its state from each boundary on."""
    row = np.repeat(np.arange(len(events)), 1 + (events["kind"] == Kind.CALL))
    second = np.append(False, row[1:] == row[:-1])
    time = np.where(second, events["end"][row], events["time"][row])
    layer = np.where(second, events["after"][row], events["layer"][row])
    state = events["operation"][row].astype(np.int64) << _LAYER_BITS | layer
    return time, np.where(events["flags"][row] & RowFlag.RECORDED, state, NOT_ALIVE)


class DeviceTail:
    """The device work of one process, read forward; keeps what reaches into the window. device.bin grows in place, chunk by
    chunk: only the newest chunks can have changed since the last look."""

    def __init__(self) -> None:
        self.spans: NDArray[np.int64] = np.zeros((0, 4), np.int64)  # device, start, end, whether a kernel
        self._taken: dict[int, int] = {}  # records read, by where their block starts

    def read(self, process: ProcessTrace) -> None:
        """Take in the records that were added. A block that is being written right now can wait."""
        sources = process.device_sources[process.device_sources["stream"] == Stream.DEVICE][-LOOK_BACK:]
        new = [self.spans]
        for at in range(len(sources)):
            block = int(sources["offset"][at])
            taken = self._taken.get(block, 0)
            if int(sources["count"][at]) > taken:
                records = process.device_part(sources[at : at + 1], fmt.DEVICE_DTYPE)[0][taken:]
                self._taken[block] = taken + len(records)
                records = records[np.isin(records["kind"], list(DEVICE_LAYERS))]
                columns = [records[n].astype(np.int64) for n in ("device", "start", "end")]
                new.append(np.stack([*columns, np.isin(records["kind"], KERNELS)], axis=1))
        self.spans = np.concatenate(new)

    def trim(self, first: int) -> None:
        """Forget what ended before `first`."""
        self.spans = self.spans[self.spans[:, 2] > first]


@dataclass
class LiveProcess:
    """A process as the live view shows it."""

    trace: ProcessTrace
    threads: dict[int, ThreadWindow] = field(default_factory=dict)
    last_ns: int = 0
    stepped: bool = False
    devices: DeviceTail = field(default_factory=DeviceTail)

    @property
    def iterations(self) -> int:
        """The number of the newest one."""
        return max((t.iteration for t in self.threads.values()), default=0)

    def read(self) -> None:
        """Take in what was added since the last look."""
        log = self.trace.log
        del log.samples[: -20 * WINDOW_S]
        if log.samples:
            self.last_ns = max(self.last_ns, int(log.samples[-1].get("t", 0)))
        self.devices.read(self.trace)
        newest = max((a.mono for a in log.anchors), default=0)
        for id in self.trace.threads:
            if id not in self.threads:
                self.threads[id] = ThreadWindow(log, self.trace.reader(id))
            thread = self.threads[id]
            thread.read(self.trace, id, newest - WINDOW_NS)
            self.last_ns = max(self.last_ns, thread.last[0] if thread.last else 0)
            self.stepped |= bool(thread.steps)

    def steps(self, bin: int) -> float:
        """Steps made in a bin."""
        return sum(thread.steps.get(bin, 0.0) for thread in self.threads.values())

    @property
    def name(self) -> str:
        """Its name, or its pid until it has one."""
        return str(self.trace.log.process.get("name") or f"pid {self.trace.pid}")

    @property
    def role(self) -> str:
        """learner, actor, …"""
        return str(self.trace.log.process.get("role") or "")

    @property
    def ended(self) -> bool:
        """Whether it has said good-bye."""
        return self.trace.log.exit is not None

    def main(self) -> ThreadWindow | None:
        """The thread with the most time in named operations; any, if none has."""
        return max(self.threads.values(), key=lambda t: (t.named(), bool(t.bins)), default=None)

    def totals(self) -> Counter[Plane]:
        """Nanoseconds by (operation, layer) of its main thread in the window."""
        thread = self.main()
        return thread.totals() if thread else Counter()

    def now(self) -> Plane | None:
        """What its main thread was last seen doing."""
        thread = self.main()
        if self.ended or thread is None or thread.last is None or thread.last[1] == NOT_ALIVE:
            return None
        return thread.plane(thread.last[1])

    def cpu(self) -> float | None:
        """Cores it uses now; None when it has ended."""
        return None if self.ended else self.cores()

    def cores(self) -> float | None:
        """Cores used in the last seconds it lived, from the samples."""
        time, used = cpu_over_time(self.trace.log.samples)
        if len(time) < 2:
            return None
        first = min(int(np.searchsorted(time, time[-1] - WINDOW_NS)), len(time) - 2)
        return float((used[-1] - used[first]) / (time[-1] - time[first]))


class Judge:
    """The verdict on the run so far: what `cutaway show` says about it at this moment. A thread of its own finds it, from time
    to time, so that the view stays quick and the machine free."""

    def __init__(self, path: Path) -> None:
        self.verdict: Verdict | None = None
        self._path = path
        self._due = 0.0
        self._final = False
        self._thread: threading.Thread | None = None

    def look(self, finished: bool, wait: bool = False) -> Verdict | None:
        """The newest verdict; None until there is one."""
        idle = self._thread is None or not self._thread.is_alive()
        if idle and not self._final and (finished or monotonic() >= self._due):
            self._final = finished
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        if wait and self._thread:
            self._thread.join()
        return self.verdict

    def _work(self) -> None:
        start = monotonic()
        try:
            self.verdict = gather(self._path).verdict
        except CutawayError:  # nothing is recorded yet
            pass
        end = monotonic()
        self._due = end + (end - start) / JUDGING


class LiveRun:
    """A run folder that is being written."""

    def __init__(self, path: Path) -> None:
        if not (path / "run.json").is_file():
            raise CutawayError(f"{path} is not a Cutaway run; start one with `cutaway run train.py`.")
        self.path = path
        self.trace = read_run(path)
        self.about = self.trace.about
        self.processes: dict[str, LiveProcess] = {}
        self.rates: deque[float] = deque(maxlen=HISTORY)
        self._rated = 0
        self.judge = Judge(path)

    @property
    def finished(self) -> bool:
        """Whether the whole run has ended."""
        return (self.path / "exit.json").is_file()

    @property
    def now_ns(self) -> int:
        """The time of the newest event or sample."""
        return max((p.last_ns for p in self.processes.values()), default=0)

    @property
    def up_ns(self) -> int:
        """How long the run has been going."""
        starts = [int(p.trace.log.process.get("t") or 0) for p in self.processes.values()]
        return max(0, self.now_ns - min((s for s in starts if s), default=self.now_ns))

    def refresh(self) -> None:
        """Read what was added since the last look."""
        self.trace.refresh()
        for trace in self.trace.processes:
            self.processes.setdefault(trace.folder.name, LiveProcess(trace)).read()
        first = self.now_ns // BIN_NS - BINS
        for process in self.processes.values():
            for thread in process.threads.values():
                thread.trim(first)
            process.devices.trim(first * BIN_NS)
        self._rate()

    def main(self) -> LiveProcess | None:
        """The process the verdict is about: the learner, else the one with iterations, else the busiest."""

        def rank(process: LiveProcess) -> tuple[bool, int, int]:
            named = max((thread.named() for thread in process.threads.values()), default=0)
            return process.role == "learner", process.iterations, named

        return max(self.processes.values(), key=rank, default=None)

    def _rate(self) -> None:
        """Steps a second of the bins that are complete; the newest two may still grow."""
        complete = self.now_ns // BIN_NS - 2
        main = self.main()
        source = [main] if main is not None and main.stepped else list(self.processes.values())
        for bin in range(max(self._rated + 1, complete - HISTORY + 1), complete + 1):
            self.rates.append(sum(p.steps(bin) for p in source) * 1e9 / BIN_NS)
            self._rated = bin

    def steps_per_second(self) -> float | None:
        """Mean of the last ten seconds; None when no steps were ever marked."""
        if not any(p.stepped for p in self.processes.values()):
            return None
        recent = list(self.rates)[-BINS:]
        return sum(recent) / len(recent) if recent else 0.0

    def gpu(self, *processes: LiveProcess) -> dict[int, tuple[float, float]]:
        """Share of the last seconds in which each device was busy with work of these processes, and what nvidia-smi would show."""
        span = self.now_ns - max(1, min(WINDOW_NS, self.up_ns)), self.now_ns
        spans = np.concatenate([np.zeros((0, 4), np.int64), *(p.devices.spans for p in processes)])
        spans = spans[(spans[:, 2] > span[0]) & (spans[:, 1] < span[1])]
        spans[:, 1:3] = spans[:, 1:3].clip(*span)
        return {
            device: (
                length(union(own[:, 1], own[:, 2])) / (span[1] - span[0]),
                smi_share(own[own[:, 3] == 1, 1:3], span, PERIODS_NS["1/6 s"]),
            )
            for device in np.unique(spans[:, 0]).tolist()
            for own in [spans[spans[:, 0] == device]]
        }

    def meters(self) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
        """The last readings of the accelerators' meters by device, and of power in watts; empty where there are none."""
        gpus: dict[int, dict[str, Any]] = {}
        power: dict[str, Any] = {}
        for sample in (s for p in self.processes.values() for s in p.trace.log.samples):
            listed = [gpu for gpu in sample.get("gpu") or [] if isinstance(gpu, dict)]
            gpus |= {gpu["id"]: gpu for gpu in listed if isinstance(gpu.get("id"), int)}
            power = sample["power"] if isinstance(sample.get("power"), dict) else power
        return gpus, power

    def operations(self) -> list[str]:
        """All operations seen in the window, the built-in ones first."""
        seen = {operation for p in self.processes.values() for operation, _ in p.totals() if operation}
        return [o for o in OPERATIONS if o in seen] + sorted(seen - set(OPERATIONS))


def newest_run(folder: Path) -> Path:
    """The run in this folder that was started last."""
    runs = [p for p in folder.glob("*.cutaway") if (p / "run.json").is_file()]
    if not runs:
        raise CutawayError(
            f"There is no run in {folder.resolve()}; name one, or start one with `cutaway run train.py`."
        )
    return max(runs, key=lambda p: (p / "run.json").stat().st_mtime)
