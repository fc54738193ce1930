"""What a recorded run tells about the workload: progress, power, and the service demands of a distributed trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway.balance.demands import Demands, Line, Time
from cutaway.balance.steady import Steady, steady
from cutaway.errors import CutawayError
from cutaway.trace.format import Kind
from cutaway.trace.reader import ProcessTrace, read_run

Array = NDArray[np.float64]
EMPTY: Array = np.zeros(0)


@dataclass
class Marks:
    """Times in seconds of one process: operations by name as (start, end), waits as (start, end, is it a sleep), steps and iterations."""

    process: ProcessTrace
    spans: dict[str, Array] = field(default_factory=dict)
    waits: Array = field(default_factory=lambda: np.zeros((0, 3)))
    steps: Array = field(default_factory=lambda: np.zeros((0, 2)))
    iterations: Array = field(default_factory=lambda: EMPTY)

    def within(self, name: str, window: Steady) -> Array:
        """Spans of an operation that lie in the window."""
        spans = self.spans.get(name, np.zeros((0, 2)))
        return spans[(spans[:, 0] >= window.start) & (spans[:, 1] <= window.end)]

    def sleeping(self, name: str, window: Steady) -> float:
        """Seconds asleep (time.sleep) inside an operation in the window: the emulated accelerator at work."""
        return _inside(self.waits[self.waits[:, 2] > 0], self.within(name, window))

    def cpu(self, window: Steady) -> float:
        """CPU seconds of the process in the window, from the meters."""
        samples = [s for s in self.process.log.samples if "threads" in s]
        if len(samples) < 2:
            return float("nan")
        t = np.array([s["t"] * 1e-9 for s in samples])
        used = np.array([sum(v[0] for v in s["threads"].values()) * 1e-9 for s in samples])
        return float(np.interp(window.end, t, used) - np.interp(window.start, t, used))


def marks(process: ProcessTrace) -> Marks:
    """Decodes what the models need of a process."""
    found = Marks(process)
    spans: dict[str, list[Array]] = {}
    sleeps = {
        i for i, call in process.log.calls.items() if call.layer == "wait" and call.fn.endswith("sleep")
    }
    waiting = {i for i, call in process.log.calls.items() if call.layer == "wait"}
    waits, steps, iterations = [found.waits], [found.steps], [EMPTY]
    for thread in process.threads:
        parts = [_seconds(process, thread, i, records) for i, records in enumerate(process.records(thread))]
        if not parts:
            continue
        time, value, kind, ident = (np.concatenate(column) for column in zip(*parts, strict=True))
        for name_id in np.unique(ident[kind == Kind.OP_ENTER]):
            name = process.log.name(int(name_id))
            spans.setdefault(name, []).append(
                _pairs(time, kind, ident == name_id, Kind.OP_ENTER, Kind.OP_EXIT)
            )
        waits.append(_waits(time, value, kind, ident, waiting, sleeps))
        stepped = (kind == Kind.STEP) | ((kind == Kind.RESUME) & (value > 0))  # those of an unrecorded unit
        steps.append(np.stack([time[stepped], value[stepped]], axis=1))
        iterations.append(time[kind == Kind.ITERATION])
    found.spans = {name: np.concatenate(v) for name, v in spans.items()}
    found.waits, found.steps, found.iterations = (
        np.concatenate(waits),
        np.concatenate(steps),
        np.sort(np.concatenate(iterations)),
    )
    return found


def _seconds(
    process: ProcessTrace, thread: int, index: int, records: NDArray[np.void]
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64]]:
    """Columns (seconds, value, kind, id); the value of a call is its duration in seconds."""
    map_ = process.maps[int(process.threads[thread][index]["clock"])]
    source, target = np.array(map_.source, float), np.array(map_.target, float)
    if len(source) == 1:
        source, target = np.append(source, source + 1e9), np.append(target, target + 1e9)
    raw = records["time"].astype(float)
    slope = (target[-1] - target[0]) / (source[-1] - source[0])
    ns = np.where(raw > source[-1], target[-1] + (raw - source[-1]) * slope, np.interp(raw, source, target))
    kind = (records["tag"] & 0xFF).astype(np.int64)
    value = records["value"].astype(float)
    value[kind == Kind.CALL] *= slope * 1e-9
    return ns * 1e-9, value, kind, (records["tag"] >> 8).astype(np.int64)


def _pairs(time: Array, kind: NDArray[np.int64], mine: NDArray[np.bool_], enter: int, leave: int) -> Array:
    starts, ends = time[mine & (kind == enter)], time[mine & (kind == leave)]
    n = min(len(starts), len(ends))
    return np.stack([starts[:n], ends[:n]], axis=1)


def _waits(
    time: Array,
    value: Array,
    kind: NDArray[np.int64],
    ident: NDArray[np.int64],
    waiting: set[int],
    sleeps: set[int],
) -> Array:
    rows = [np.zeros((0, 3))]
    for call in waiting:
        mine = ident == call
        short = mine & (kind == Kind.CALL)
        sleep = float(call in sleeps)
        rows.append(
            np.stack(
                [time[short], time[short] + value[short], np.full(np.count_nonzero(short), sleep)], axis=1
            )
        )
        long = _pairs(time, kind, mine, Kind.ENTER, Kind.EXIT)
        rows.append(np.column_stack([long, np.full(len(long), sleep)]))
    return np.concatenate(rows)


def _inside(waits: Array, spans: Array) -> float:
    """Seconds of the waits whose start lies in one of the spans."""
    if not len(spans) or not len(waits):
        return 0.0
    spans = spans[np.argsort(spans[:, 0])]
    index = np.searchsorted(spans[:, 0], waits[:, 0], side="right") - 1
    hit = (index >= 0) & (waits[:, 0] < spans[np.maximum(index, 0), 1])
    return float(np.sum(waits[hit, 1] - waits[hit, 0]))


def progress(path: Path) -> tuple[Array, Array, str]:
    """When environment steps were made in the run and how many, or iterations where no steps are known; times start with the run."""
    everything = [marks(process) for process in read_run(path).processes]
    return _progress(everything, path)


def _progress(everything: Sequence[Marks], path: Path) -> tuple[Array, Array, str]:
    steps = np.concatenate([m.steps for m in everything]) if everything else np.zeros((0, 2))
    unit = "steps"
    if not len(steps):
        times = np.concatenate([m.iterations for m in everything]) if everything else EMPTY
        steps, unit = np.stack([times, np.ones_like(times)], axis=1), "iterations"
    if len(steps) < 2:
        raise CutawayError(
            f"{path} has neither environment steps nor iterations: call cutaway.iteration() in the loop or give --metric."
        )
    steps = steps[np.argsort(steps[:, 0])]
    return steps[:, 0], steps[:, 1], unit


def power(path: Path) -> tuple[float | None, float | None]:
    """Mean watts of the GPUs and of the CPUs over the run; None where no meter was available."""
    gpu, cpu = [], []
    for process in read_run(path).processes:
        for sample in process.log.samples:
            watts = sample.get("power") or {}
            if isinstance(watts, dict):
                gpu += [watts["gpu"]] if isinstance(watts.get("gpu"), (int, float)) else []
                cpu += [watts["cpu"]] if isinstance(watts.get("cpu"), (int, float)) else []
    return (float(np.mean(gpu)) if gpu else None), (float(np.mean(cpu)) if cpu else None)


@dataclass(frozen=True)
class Observed:
    """One run of a distributed trainer, reduced to what the model needs."""

    actors: int
    batch: float
    env_step: Time
    overhead: Time
    host: float
    device: float
    train_host: Time
    train_device: Time
    steps_per_train: float
    latency: float
    steps_per_s: float


def observe(path: Path) -> Observed:
    """Service times of a run of `cutaway.workloads.r2d2`, or of any program with the same operations in processes of the same roles:
    actors with `simulation`, an inference server with `inference`, a learner with `backpropagation`."""
    everything = [marks(process) for process in read_run(path).processes]
    actors = [m for m in everything if "simulation" in m.spans and "backpropagation" not in m.spans]
    servers = [m for m in everything if "inference" in m.spans]
    learners = [m for m in everything if "backpropagation" in m.spans]
    if not actors or not servers:
        raise CutawayError(
            f"{path} does not show actors (operation simulation) and a server (operation inference) in processes of their own: "
            "the model needs them; use `balance predict` with throughput points instead."
        )
    times, amounts, _ = _progress(actors, path)
    window = steady(times, amounts)
    steps = float(np.sum(amounts[(times >= window.start) & (times <= window.end)]))
    env, overhead, wait = _actor_times(actors, window, steps)
    batches = sum(len(m.within("inference", window)) for m in servers)
    if not batches:
        raise CutawayError(f"{path} has no complete inference in its steady part: record for longer.")
    host = sum(m.cpu(window) for m in servers) / batches
    device = sum(m.sleeping("inference", window) for m in servers) / batches
    trains = sum(len(m.within("backpropagation", window)) for m in learners if m not in servers)
    train_host = sum(m.cpu(window) for m in learners if m not in servers) / trains if trains else 0.0
    train_device = sum(m.sleeping("backpropagation", window) for m in learners) / trains if trains else 0.0
    spread = _spread(
        np.concatenate([m.within("backpropagation", window) for m in learners])
        if learners
        else np.zeros((0, 2))
    )
    return Observed(
        len(actors), steps / batches, env, overhead, host, device,
        Time(train_host, *spread), Time(train_device, *spread), steps / trains if trains else 0.0,
        max(0.0, wait - host - device) if len(actors) == 1 else 0.0, window.rate,
    )  # fmt: skip


def _actor_times(actors: Sequence[Marks], window: Steady, steps: float) -> tuple[Time, Time, float]:
    """CPU of an environment step and of the rest of the actor's cycle, and the seconds a request takes from the actor's side.

    CPU clocks tell the sum, whatever the contention; the recorded times tell how it divides.
    """
    cpu = sum(m.cpu(window) for m in actors) / steps
    spans = np.concatenate([m.within("simulation", window) for m in actors])
    simulating = float(np.sum(spans[:, 1] - spans[:, 0]))
    lives = (window.end - window.start) * len(actors)
    blocked = sum(float(np.sum(np.diff(m.waits[_in(m.waits, window), :2], axis=1))) for m in actors)
    share = min(1.0, simulating / max(simulating, lives - blocked))
    cv, error = _spread(spans)
    return Time(cpu * share, cv, error), Time(cpu * (1 - share), cv, error), blocked / max(1.0, steps)


def _in(waits: Array, window: Steady) -> NDArray[np.bool_]:
    return np.asarray((waits[:, 0] >= window.start) & (waits[:, 1] <= window.end))


def _spread(spans: Array) -> tuple[float, float]:
    """Coefficient of variation (of the middle 98 %: preemption is the simulation's business) and relative error of the mean."""
    durations = np.sort(spans[:, 1] - spans[:, 0])
    if len(durations) < 3:
        return 0.0, 0.1
    middle = durations[len(durations) // 100 : len(durations) - len(durations) // 100]
    cv = float(np.std(middle) / np.mean(middle))
    return cv, cv / float(np.sqrt(len(middle)))


def demands(paths: Sequence[Path], **fixed: object) -> Demands:
    """Demands from one or more runs, best with different numbers of actors: the cost of a batch as a + b·n needs two sizes."""
    seen = sorted((observe(path) for path in paths), key=lambda o: o.actors)
    host, device = (
        _line([o.batch for o in seen], [getattr(o, key) for o in seen]) for key in ("host", "device")
    )
    notes = (
        ()
        if len({round(o.batch) for o in seen}) > 1
        else ("one batch size only: its cost is taken as constant",)
    )
    learning = [o for o in seen if o.steps_per_train]
    return Demands(
        env_step=_mean([o.env_step for o in seen]),
        actor_overhead=_mean([o.overhead for o in seen]),
        host=host,
        device=device,
        latency=min((o.latency for o in seen if o.latency), default=0.0),
        train_host=_mean([o.train_host for o in learning]),
        train_device=_mean([o.train_device for o in learning]),
        steps_per_train=float(np.mean([o.steps_per_train for o in learning])) if learning else 0.0,
        measured_at=tuple(o.actors for o in seen),
        notes=notes,
        **fixed,  # type: ignore[arg-type]
    )


def _mean(times: Sequence[Time]) -> Time:
    """One time from several runs; what they disagree by is its error."""
    if not times:
        return Time()
    means = np.array([t.mean for t in times])
    scatter = (
        float(np.std(means, ddof=1) / np.mean(means) / np.sqrt(len(means)))
        if len(means) > 1 and np.mean(means) > 0
        else 0.0
    )
    return Time(
        float(np.mean(means)),
        float(np.mean([t.cv for t in times])),
        max(scatter, *(t.error for t in times), 0.0),
    )


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """a + b·n with a, b ≥ 0; constant where only one size was seen."""
    n, y = np.asarray(sizes), np.asarray(seconds)
    if len(np.unique(np.round(n))) < 2:
        return Line(float(np.mean(y)), 0.0)
    b, a = np.polyfit(n, y, 1)
    if b < 0:
        return Line(float(np.mean(y)), 0.0)
    if a < 0:
        return Line(0.0, float(np.sum(n * y) / np.sum(n * n)))
    return Line(float(a), float(b))
