"""The last seconds of a run that is being recorded, summed up as its files grow. No drawing here."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.analysis.processes import thread_samples
from cutaway.errors import CutawayError
from cutaway.trace import format as fmt
from cutaway.trace.format import Kind

from .evidence import Evidence
from .gpu_tail import DeviceTail, busy, metered
from .lanes import Plane, cut
from .model import BUILT_IN
from .tail import ProcessTail
from .timeline import LAYER_BITS, NOT_ALIVE, Ints, ThreadState, nanoseconds
from .verdict import Verdict, judge

BIN_NS = 250_000_000
WINDOW_S = 10
BINS = WINDOW_S * 1_000_000_000 // BIN_NS
HISTORY = 40  # of steps/s, for the sparkline


@dataclass
class ThreadWindow:
    """What a thread did in each bin of the last seconds."""

    state: ThreadState
    bins: dict[int, dict[Plane, float]] = field(default_factory=dict)
    last: tuple[int, int] | None = None  # time and state of the last boundary

    def add(self, time: Ints, states: Ints) -> None:
        """Take in boundaries that follow those before."""
        if self.last is not None:
            time, states = np.concatenate([[self.last[0]], time]), np.concatenate([[self.last[1]], states])
        self.last = int(time[-1]), int(states[-1])
        first = int(time[0]) // BIN_NS
        count = int(time[-1]) // BIN_NS - first + 1
        if count > 4 * BINS:  # a long silence: only its end is still in the window
            first, count = first + count - 4 * BINS, 4 * BINS
        where, codes, lengths = cut(time, states, first * BIN_NS, BIN_NS, count)
        for code in np.unique(codes).tolist():
            if code == NOT_ALIVE:
                continue
            total = np.bincount(where[codes == code], lengths[codes == code], count)
            for i in np.flatnonzero(total).tolist():
                bin = self.bins.setdefault(first + i, {})
                bin[self.plane(code)] = bin.get(self.plane(code), 0.0) + float(total[i])

    def plane(self, code: int) -> Plane:
        """Operation and layer of a state."""
        return self.state.log.name(code >> LAYER_BITS), fmt.LAYERS[code & ((1 << LAYER_BITS) - 1)]

    def trim(self, first: int) -> None:
        """Forget bins before `first`."""
        for bin in [b for b in self.bins if b < first]:
            del self.bins[bin]

    def totals(self) -> dict[Plane, float]:
        """Nanoseconds by (operation, layer) in the window."""
        out: dict[Plane, float] = {}
        for bin in self.bins.values():
            for plane, ns in bin.items():
                out[plane] = out.get(plane, 0.0) + ns
        return out


@dataclass
class LiveProcess:
    """A process as the live view shows it."""

    tail: ProcessTail
    threads: dict[int, ThreadWindow] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    iterations: int = 0
    last_ns: int = 0
    devices: DeviceTail = field(init=False)

    def __post_init__(self) -> None:
        self.devices = DeviceTail(self.tail.folder / "device.bin")

    @property
    def name(self) -> str:
        """Its name, or its pid until it has one."""
        return str(self.tail.log.process.get("name") or f"pid {self.pid}")

    @property
    def pid(self) -> int:
        """As the operating system said."""
        return int(self.tail.log.process.get("pid") or self.tail.folder.name[1:].split("-")[0])

    @property
    def role(self) -> str:
        """learner, actor, …"""
        return str(self.tail.log.process.get("role") or "")

    @property
    def ended(self) -> bool:
        """Whether it has said good-bye."""
        return self.tail.log.exit is not None

    def main(self) -> ThreadWindow | None:
        """The thread with the most time in named operations; any, if none has."""
        return max(
            self.threads.values(), key=lambda t: sum(ns for (op, _), ns in t.totals().items() if op) + 1e-3 * bool(t.bins),
            default=None,
        )  # fmt: skip

    def totals(self) -> dict[Plane, float]:
        """Nanoseconds by (operation, layer) of its main thread in the window."""
        thread = self.main()
        return thread.totals() if thread else {}

    def now(self) -> Plane | None:
        """What its main thread was last seen doing."""
        thread = self.main()
        if self.ended or thread is None or thread.last is None or thread.last[1] == NOT_ALIVE:
            return None
        return thread.plane(thread.last[1])

    def cpu(self) -> float | None:
        """Cores used in the last seconds, from the samples."""
        time, used = meter(self.tail.log.samples)
        if self.ended or len(time) < 2:
            return None
        first = int(np.searchsorted(time, time[-1] - WINDOW_S * 1_000_000_000))
        first = min(first, len(time) - 2)
        return float((used[-1] - used[first]) / (time[-1] - time[first]))


def meter(samples: list[dict[str, Any]], column: int = 2) -> tuple[Ints, Ints]:
    """When samples were taken, and the CPU time (column 3: the time waited for a core) of all threads together
    since the first one. A sample names only the threads that ran since the one before; a thread that ended keeps
    what it used."""
    known: dict[int, int] = {}
    times: list[int] = []
    used: list[int] = []
    total = 0
    for sample in samples:
        for row in thread_samples(sample):
            t, tid, value = row[0], row[1], row[column]
            total += max(0, value - known.get(tid, value))
            known[tid] = value
            if not times or t > times[-1]:
                times.append(t)
                used.append(total)
            used[-1] = total
    return np.array(times, np.int64), np.array(used, np.int64)


class LiveRun:
    """A run folder that is being written."""

    def __init__(self, path: Path) -> None:
        if not (path / "run.json").is_file():
            raise CutawayError(f"{path} is not a Cutaway run; start one with `cutaway run train.py`.")
        self.path = path
        self.processes: dict[str, LiveProcess] = {}
        self.rates: deque[float] = deque(maxlen=HISTORY)
        self._rated = 0
        try:
            self.about = json.loads((path / "run.json").read_text(encoding="utf-8"))
        except ValueError:
            self.about = {}

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
        starts = [int(p.tail.log.process.get("t") or 0) for p in self.processes.values()]
        return max(0, self.now_ns - min((s for s in starts if s), default=self.now_ns))

    def refresh(self) -> None:
        """Read what was added since the last look."""
        for folder in sorted(self.path.glob("p*-*")):
            if folder.is_dir() and folder.name not in self.processes:
                self.processes[folder.name] = LiveProcess(ProcessTail(folder))
        for process in self.processes.values():
            self._read(process)
        first = self.now_ns // BIN_NS - BINS
        for process in self.processes.values():
            for thread in process.threads.values():
                thread.trim(first)
            process.devices.trim(first * BIN_NS)
        self._rate()

    def _read(self, process: LiveProcess) -> None:
        tail = process.tail
        tail.read_log()
        del tail.log.samples[: -20 * WINDOW_S]
        if tail.log.samples:
            process.last_ns = max(process.last_ns, int(tail.log.samples[-1].get("t", 0)))
        process.devices.read(tail.log)
        newest = max((a.mono for a in tail.log.anchors), default=0)
        for id, clock, records in tail.read_records(newest - WINDOW_S * 1_000_000_000):
            thread = process.threads.setdefault(id, ThreadWindow(ThreadState(tail.log)))
            kinds, map = fmt.kinds(records), tail.clock(clock)
            length = np.where(kinds == Kind.CALL, records["value"], 0).astype(np.uint64)
            start, end = nanoseconds(records["time"], map), nanoseconds(records["time"] + length, map)
            time, states = thread.state.read(records, start, end)
            thread.add(time, states)
            process.last_ns = max(process.last_ns, int(time[-1]))
            process.iterations += int((kinds == Kind.ITERATION).sum())
            steps = kinds == Kind.STEP
            for bin, count in zip(
                (start[steps] // BIN_NS).tolist(), records["value"][steps].tolist(), strict=True
            ):
                process.steps[bin] = process.steps.get(bin, 0) + count

    def main(self) -> LiveProcess | None:
        """The process the verdict is about: the learner, else the one with iterations, else the busiest."""

        def rank(process: LiveProcess) -> tuple[bool, int, float]:
            named = sum(ns for (operation, _), ns in process.totals().items() if operation)
            return process.role == "learner", process.iterations, named

        return max(self.processes.values(), key=rank, default=None)

    def _rate(self) -> None:
        """Steps a second of the bins that are complete; the newest two may still grow."""
        complete = self.now_ns // BIN_NS - 2
        source = self._steppers()
        for bin in range(max(self._rated + 1, complete - HISTORY + 1), complete + 1):
            self.rates.append(sum(p.steps.get(bin, 0) for p in source) * 1e9 / BIN_NS)
            self._rated = bin

    def _steppers(self) -> list[LiveProcess]:
        main = self.main()
        return [main] if main is not None and main.steps else list(self.processes.values())

    def steps_per_second(self) -> float | None:
        """Mean of the last ten seconds; None when no steps were ever marked."""
        if not any(p.steps for p in self.processes.values()):
            return None
        recent = list(self.rates)[-BINS:]
        return sum(recent) / len(recent) if recent else 0.0

    def gpu(self, *processes: LiveProcess) -> dict[int, float]:
        """Share of the last seconds in which each device was busy with work of these processes."""
        until = self.now_ns
        since = until - min(WINDOW_S * 1_000_000_000, self.up_ns)
        return busy([p.devices for p in processes], (since, until))

    def meters(self) -> dict[str, Any]:
        """The last readings of the accelerators' and the power meters; empty where there are none."""
        return metered(s for p in self.processes.values() for s in p.tail.log.samples)

    def verdict(self) -> Verdict:
        """The same rules as for a whole run, on the last ten seconds of the main process."""
        main = self.main()
        totals = main.totals() if main else {}
        total = sum(totals.values()) or 1.0
        operation: dict[str, float] = {}
        layer: dict[str, float] = {}
        for (name, kind), ns in totals.items():
            operation[name] = operation.get(name, 0.0) + ns / total
            layer[kind] = layer.get(kind, 0.0) + ns / total
        seconds = total / 1e9 if totals else 0.0
        cpu, queued, foreign = self._pressure()
        return judge(
            Evidence(
                seconds=seconds,
                unit="second",
                units=int(seconds),
                unit_ms=1000.0,
                operation=operation,
                layer=layer,
                cell={plane: ns / total for plane, ns in totals.items()},
                cores=int(self.about.get("cpus") or 1),
                processes=len(self.processes),
                threads=sum(len(p.threads) for p in self.processes.values()),
                cores_busy=cpu,
                runqueue=queued / (cpu + queued) if cpu + queued > 0 else 0.0,
                runnable=cpu + queued,
                foreign=foreign,
            )
        )

    def _pressure(self) -> tuple[float, float, float]:
        """Cores the run used, threads of it that waited for one, cores others used: means of the last seconds."""
        cpu = queued = 0.0
        foreign: list[float] = []
        for process in self.processes.values():
            recent = process.tail.log.samples[-10 * WINDOW_S :]
            for column in (2, 3):
                time, used = meter(recent, column)
                rate = (
                    (used[-1] - used[0]) / (time[-1] - time[0])
                    if len(time) > 1 and not process.ended
                    else 0.0
                )
                cpu, queued = (cpu + rate, queued) if column == 2 else (cpu, queued + rate)
            foreign += [float(v) for v in (s.get("foreign") for s in recent) if isinstance(v, (int, float))]
        return cpu, queued, sum(foreign) / len(foreign) if foreign else 0.0

    def operations(self) -> list[str]:
        """All operations seen in the window, the built-in ones first."""
        seen = {operation for p in self.processes.values() for operation, _ in p.totals() if operation}
        return [o for o in BUILT_IN if o in seen] + sorted(seen - set(BUILT_IN))


def newest_run(folder: Path) -> Path:
    """The run in this folder that was started last."""
    runs = [p for p in folder.glob("*.cutaway") if (p / "run.json").is_file()]
    if not runs:
        raise CutawayError(
            f"There is no run in {folder.resolve()}; name one, or start one with `cutaway run train.py`."
        )
    return max(runs, key=lambda p: (p / "run.json").stat().st_mtime)
