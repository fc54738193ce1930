"""Service times of one recorded run of a distributed trainer, in the steady part of the run.

CPU clocks say how much CPU time a process used, whatever the contention. The medians of the recorded times say how that divides
between the parts of its cycle; a preemption now and then does not move them. Nothing is taken from the throughput.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.processes import cpu_over_time
from cutaway.errors import CutawayError
from cutaway.trace.format import Structured
from cutaway.trace.reader import ProcessTrace, Trace, read_run
from cutaway.vocabulary import THREAD_LAYERS, Kind
from cutaway_balance.demands import Observed, Server, Time

Array = NDArray[np.float64]
BINS = 60
MINIMUM = 8  # bins that must be left to call anything steady
FULL = (
    0.8  # share of the CPUs in use above which a thread that wakes mostly waits for one
)
# Which quantile of sleeps, and of wake-ups, lasts as when the thread gets a core at once: the simulation adds the wait for a core.
# No sleep ends early; where the cores are mostly taken, most sleeps and wake-ups end late.
PROMPT = (0.25, 0.5)
PROMPT_FULL = (0.1, 0.25)
_NONE = np.zeros((0, 2))
_WAIT = THREAD_LAYERS.index("wait")


@dataclass(frozen=True)
class Steady:
    """Rate in a second over [start, end), both in seconds of the input, with a 95 % interval; `enough` tells whether to trust it."""

    rate: float = 0.0
    low: float = 0.0
    high: float = 0.0
    start: float = 0.0
    end: float = 0.0
    enough: bool = False


def steady(times: Array, amounts: Array) -> Steady:
    """The steady rate of something that happened at `times` in these `amounts` (steps).

    Start-up is cut by the marginal standard error rule (MSER): the cut that makes the mean of the rest most certain, in the first half.
    The interval uses batch means, because neighbouring bins are correlated.

    >>> t = np.concatenate([np.arange(5.0), 5 + np.arange(2000) / 100])
    >>> s = steady(t, np.ones_like(t))
    >>> 98 < s.rate < 102 and s.start >= 4 and s.enough
    True
    """
    if len(times) < 2 or times[-1] <= times[0]:
        return Steady()
    first = float(times[0])
    last = float(times[-1])
    edges = np.linspace(first, last, BINS + 1)
    rates = np.histogram(times, edges, weights=amounts)[0] / ((last - first) / BINS)
    cut = int(np.argmin([np.var(rates[c:]) / (BINS - c) for c in range(BINS // 2 + 1)]))
    inside = times >= edges[cut]
    count = int(np.count_nonzero(inside))
    if count > 1:
        rate = float(np.sum(amounts[inside][1:]) / (last - times[inside][0]))
    else:
        rate = 0.0
    batches = min(
        10, (BINS - cut) // 4
    )  # seven or more: at least half of the bins are left
    means = [np.mean(part) for part in np.array_split(rates[cut:], batches)]
    half = float(
        2.26 * np.std(means, ddof=1) / np.sqrt(batches)
    )  # t for 9 degrees of freedom
    enough = BINS - cut >= MINIMUM and count >= MINIMUM and rate > 0
    return Steady(
        rate, max(0.0, rate - half), rate + half, float(edges[cut]), last, enough
    )


@dataclass(frozen=True)
class Marks:
    """Times in seconds of one process: operations by name as (start, end), waits in order as (start, end, is it a sleep), steps,
    iterations; and the CPU seconds it used, NaN if that is not known."""

    process: ProcessTrace
    spans: dict[str, Array]
    waits: Array
    steps: Array
    iterations: Array
    cpu: float = float("nan")

    def inside(self, window: Steady) -> Marks:
        """Only the operations that lie in the window, and the CPU time in it, if the meters cover half of it."""
        spans = {
            k: s[(s[:, 0] >= window.start) & (s[:, 1] <= window.end)]
            for k, s in self.spans.items()
        }
        t, used = (values * 1e-9 for values in cpu_over_time(self.process.log.samples))
        length = window.end - window.start
        cpu = float("nan")
        if len(t):
            start, end = np.clip((window.start, window.end), t[0], t[-1])
        else:
            start = 0.0
            end = 0.0
        if end > start and end - start >= 0.5 * length:
            rate = (np.interp(end, t, used) - np.interp(start, t, used)) / (end - start)
            cpu = float(rate * length)
        return dataclasses.replace(self, spans=spans, cpu=cpu)

    def of(self, name: str) -> Array:
        """(start, end) of an operation, each time it ran."""
        return self.spans.get(name, _NONE)

    def first_sleeps(self, spans: Array) -> Array:
        """(start, end) of the first sleep in each span, which is the emulated accelerator at work; NaN where there is none."""
        sleeps = np.vstack([self.waits[self.waits[:, 2] > 0, :2], [np.inf, np.inf]])
        found = sleeps[np.searchsorted(sleeps[:, 0], spans[:, 0])]
        found[found[:, 1] > spans[:, 1]] = np.nan
        return found

    def working(self, spans: Array) -> Array:
        """Seconds of each span, without the waits that begin in it."""
        waited = np.append(0.0, np.cumsum(_length(self.waits)))
        before, until = (
            waited[np.searchsorted(self.waits[:, 0], edge)] for edge in spans.T
        )
        return np.asarray(_length(spans) - (until - before))


def read(trace: Trace) -> list[Marks]:
    """The marks of all processes of a run."""
    return [_marks(process) for process in trace.processes]


def _marks(process: ProcessTrace) -> Marks:
    spans: dict[str, list[Array]] = {}
    waits = [np.zeros((0, 3))]
    steps = [_NONE]
    iterations = [np.zeros(0)]
    sleeping = {
        n: call.fn.endswith("sleep")
        for n, call in process.log.calls.items()
        if call.layer == "wait"
    }
    for thread in process.threads:
        # Of the calls only those that wait.
        blocks = [
            b[(b["kind"] != Kind.CALL) | (b["layer"] == _WAIT)]
            for b in process.events(thread)
        ]
        if not blocks:
            continue
        events = np.concatenate(blocks)
        time = events["time"] * 1e-9
        kind = events["kind"]
        value = events["value"]
        for name in np.unique(events["id"][kind == Kind.OP_ENTER]).tolist():
            pairs = _pairs(events[events["id"] == name], Kind.OP_ENTER, Kind.OP_EXIT)
            spans.setdefault(process.log.name(name), []).append(pairs)
        for number in sleeping.keys() & set(np.unique(events["id"]).tolist()):
            mine = events[events["id"] == number]
            short = mine[mine["kind"] == Kind.CALL]
            plain = np.stack([short["time"], short["end"]], axis=1) * 1e-9
            both = np.concatenate([plain, _pairs(mine, Kind.ENTER, Kind.EXIT)])
            waits.append(
                np.column_stack([both, np.full(len(both), float(sleeping[number]))])
            )
        # A unit that was left unrecorded says at its end how many steps it made.
        stepped = (kind == Kind.STEP) | ((kind == Kind.RESUME) & (value > 0))
        steps.append(np.stack([time[stepped], value[stepped]], axis=1))
        iterations.append(time[kind == Kind.ITERATION])
    joined = {name: np.concatenate(v) for name, v in spans.items()}
    waited = np.concatenate(waits)
    passes = np.sort(np.concatenate(iterations))
    return Marks(
        process, joined, waited[np.argsort(waited[:, 0])], np.concatenate(steps), passes
    )


def _pairs(events: Structured, enter: int, leave: int) -> Array:
    starts, ends = (
        events["time"][events["kind"] == kind] * 1e-9 for kind in (enter, leave)
    )
    n = min(len(starts), len(ends))
    return np.stack([starts[:n], ends[:n]], axis=1)


def progress(everything: Sequence[Marks], path: Path) -> tuple[Array, Array, str]:
    """When steps were made and how many, or iterations where no steps are known, and which of the two it is."""
    steps = np.concatenate([_NONE, *(m.steps for m in everything)])
    unit = "steps"
    if not len(steps):
        times = np.concatenate([np.zeros(0), *(m.iterations for m in everything)])
        steps = np.stack([times, np.ones_like(times)], axis=1)
        unit = "iterations"
    if len(steps) < 2:
        remedy = "call cutaway.iteration() in the loop or use --metric"
        raise CutawayError(
            f"{path} has neither environment steps nor iterations; {remedy}."
        )
    steps = steps[np.argsort(steps[:, 0])]
    return steps[:, 0], steps[:, 1], unit


def foreign(everything: Sequence[Marks], window: Steady) -> float:
    """Cores' worth of CPU time that went to other programs in the window: the median of what the processes saw."""
    seen = []
    for m in everything:
        inside = [
            s
            for s in m.process.log.samples
            if window.start <= s.get("t", 0) * 1e-9 <= window.end
        ]
        if (found := mean(s.get("foreign") for s in inside)) is not None:
            seen.append(found)
    if seen:
        return float(np.median(seen))
    return 0.0


def power(trace: Trace) -> tuple[float | None, float | None]:
    """Mean watts of the GPUs and of the CPUs over the run; None where no meter was available."""
    samples = []
    for process in trace.processes:
        powers = [sample.get("power") for sample in process.log.samples]
        samples += [power for power in powers if isinstance(power, dict)]
    return mean(s.get("gpu") for s in samples), mean(s.get("cpu") for s in samples)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known; None if none is."""
    known = [v for v in values if v is not None]
    if known:
        return float(np.mean(known))
    return None


class Roles(NamedTuple):
    """Processes by what they do."""

    actors: list[Marks]
    servers: list[Marks]
    learners: list[Marks]


def observe(path: Path) -> Observed:
    """Service times of a run of `cutaway_workloads.r2d2`, or of any program with the same operations in processes of the same roles:
    actors with `simulation`, an inference server with `inference`, a learner with `backpropagation`."""
    trace = read_run(path)
    whole = read(trace)
    every = _roles(whole)
    if not every.actors or not every.servers:
        raise CutawayError(
            f"{path} does not have actors (operation simulation) and an inference server (operation inference) in separate processes, "
            "as the model needs; use `balance predict` with throughput points instead."
        )
    times, amounts, _ = progress(every.actors, path)
    envs = max(1, int(np.median(amounts)))  # what an actor counts at once

    window = steady(times, amounts)
    inside = [m.inside(window) for m in whole]
    kept = _roles(inside)
    steps = float(np.sum(amounts[(times >= window.start) & (times <= window.end)]))
    batches = len(_all(kept.servers, "inference"))
    _check_enough(path, kept, steps, batches)
    others = foreign(inside, window)
    busy = _cores_busy(inside, window) + others
    if _is_full(trace, busy):
        slept, woken = PROMPT_FULL
    else:
        slept, woken = PROMPT

    kernels = _kernels(path, whole)
    simulated = _length(_all(kept.actors, "simulation")) / envs
    cpu = sum(m.cpu for m in kept.actors) / steps
    step = min(_quantile(simulated, 0.25), cpu)  # time without a core is no CPU time
    cv, error = _spread(simulated)
    of_batch = sum(m.cpu for m in kept.servers) / batches
    return Observed(
        actors=len(kept.actors),
        envs_per_actor=envs,
        batch=steps / batches,
        env_step=Time(step, cv, error),
        overhead=Time((cpu - step) * envs, 0.0, error),
        server=_server(kept.servers, of_batch, kernels.get("inference"), slept),
        latency=_latency(kept.actors, kept.servers, woken),
        train_host=_train_host(kept.learners),
        train_device=_train_device(kept.learners, kernels, slept),
        steps_per_train=_steps_per_train(every.learners, times, amounts),
        steps_per_s=window.rate,
        busy=busy,
        foreign=others,
    )


def _roles(everything: Sequence[Marks]) -> Roles:
    """Actors, inference servers and learners, by the operations they have."""
    found = Roles([], [], [])
    for marks in everything:
        if "backpropagation" in marks.spans:
            found.learners.append(marks)
        elif "inference" in marks.spans:
            found.servers.append(marks)
        elif "simulation" in marks.spans:
            found.actors.append(marks)
    return found


def _check_enough(path: Path, kept: Roles, steps: float, batches: int) -> None:
    if not batches or not steps:
        raise CutawayError(
            f"{path} has no complete inference in its steady part; record longer."
        )
    if any(np.isnan(m.cpu) for m in (*kept.actors, *kept.servers)):
        raise CutawayError(
            f"{path} has too few samples of the CPU clocks; record longer."
        )


def _cores_busy(inside: Sequence[Marks], window: Steady) -> float:
    """How many cores the program itself kept busy."""
    used = float(np.nansum([m.cpu for m in inside]))
    return used / (window.end - window.start)


def _is_full(trace: Trace, busy: float) -> bool:
    """Whether hardly a core was free."""
    cpus = trace.about.get("cpus")
    if not isinstance(cpus, int):
        cpus = os.cpu_count() or 1
    return busy > FULL * cpus


def _steps_per_train(learners: Sequence[Marks], times: Array, amounts: Array) -> float:
    """Counted between the first training and the last one, so that it does not matter how many fit into the window."""
    trained = np.sort(_all(learners, "backpropagation")[:, 0])
    if len(trained) < 2:
        return 0.0
    between = amounts[(times > trained[0]) & (times <= trained[-1])]
    return float(np.sum(between)) / (len(trained) - 1)


def _train_host(learners: Sequence[Marks]) -> Time:
    training = _length(_all(learners, "backpropagation"))
    if not len(training):
        return Time()
    used = sum(m.cpu for m in learners)
    return Time(used / len(training), *_spread(training))


def _train_device(
    learners: Sequence[Marks], kernels: Mapping[str, float], slept: float
) -> Time:
    """The kernels of a training step; without a GPU the sleep that stands for them."""
    if "backpropagation" in kernels:
        return Time(kernels["backpropagation"])
    sleeps = [_NONE]
    for marks in learners:
        sleeps.append(marks.first_sleeps(marks.of("backpropagation")))
    asleep = np.concatenate(sleeps)
    asleep = _length(asleep[~np.isnan(asleep[:, 0])])
    if not len(asleep):
        return Time()
    return Time(_quantile(asleep, slept), *_spread(asleep))


def _kernels(path: Path, everything: Sequence[Marks]) -> dict[str, float]:
    """Seconds of GPU work that each operation launched, for each time it ran, over the whole run; nothing without a GPU."""
    if not any(m.process.log.devices for m in everything):
        return {}
    from cutaway.analysis import run

    table = run.open(path).device_time(layers=False)
    found: dict[str, float] = {}
    for name in ("inference", "backpropagation"):
        spent = int(np.sum(table.where(operation=name)["ns"]))
        count = len(_all(everything, name))
        if spent and count:
            found[name] = 1e-9 * spent / count
    return found


def _server(
    servers: Sequence[Marks], cpu: float, kernels: float | None, slept: float
) -> Server:
    """How the server's CPU time of a batch divides into before, answering and after; and the device's time."""
    before = []
    device = []
    answering = []
    after = 0.0
    for m in servers:
        spans = m.of("inference")
        sleeps = m.first_sleeps(spans)
        asleep = ~np.isnan(sleeps[:, 0])
        until = np.where(asleep, sleeps[:, 0], spans[:, 1])
        before.append(m.working(np.column_stack([spans[:, 0], until])))
        answering.append(np.where(asleep, spans[:, 1] - sleeps[:, 1], 0.0))
        device.append(_length(sleeps[asleep]))
        after += sum(
            _quantile(m.working(m.of(name)), 0.5) for name in ("replay", "batch_wait")
        ) / len(servers)
    parts = [
        _quantile(np.concatenate(before), 0.5),
        _quantile(np.concatenate(answering), 0.5),
        after,
    ]
    host, reply, rest = (
        cpu * part / sum(parts) if sum(parts) > 0 else 0.0 for part in parts
    )
    return Server(
        host,
        reply,
        rest,
        _quantile(np.concatenate(device), slept) if kernels is None else kernels,
    )


def _latency(
    actors: Sequence[Marks], servers: Sequence[Marks], woken_at: float
) -> float:
    """Seconds of a round trip in which nothing runs: until the server wakes for the last request, until an actor wakes for its reply."""
    waits = _all(actors, "inference_wait")
    heard = _all(servers, "batch_wait")
    asked = np.sort(waits[:, 0])
    woken = waits[:, 1]
    answered = np.sort(_all(servers, "inference")[:, 1])
    if not len(asked) or not len(heard) or not len(answered):
        return 0.0
    last = asked[np.maximum(0, np.searchsorted(asked, heard[:, 1]) - 1)]
    waited = (heard[:, 1] - last)[
        last >= heard[:, 0]
    ]  # those for which the server really waited
    near = answered[np.maximum(0, np.searchsorted(answered, woken + 20e-6) - 1)]
    return _quantile(waited, woken_at) + max(0.0, _quantile(woken - near, woken_at))


def _all(processes: Sequence[Marks], name: str) -> Array:
    return np.concatenate([_NONE, *(m.of(name) for m in processes)])


def _length(spans: Array) -> Array:
    return np.asarray(spans[:, 1] - spans[:, 0])


def _quantile(values: Array, q: float) -> float:
    if len(values):
        return float(np.quantile(values, q))
    return 0.0


def _spread(durations: Array) -> tuple[float, float]:
    """Coefficient of variation, from the quartiles (preemption is the simulation's business), and relative error of the mean."""
    if len(durations) < 4:
        return 0.0, 0.1
    low, middle, high = np.quantile(durations, (0.25, 0.5, 0.75))
    if middle > 0:
        cv = float((high - low) / 1.349 / middle)
    else:
        cv = 0.0
    return cv, cv / float(np.sqrt(len(durations)))
