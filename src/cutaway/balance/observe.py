"""Service times of one recorded run of a distributed trainer.

CPU clocks say how much CPU time a process used, whatever the contention. The medians of the recorded times say how that divides
between the parts of its cycle; a preemption now and then does not move them. Nothing is taken from the throughput.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway.balance.demands import Observed, Server, Time
from cutaway.balance.steady import Steady, steady
from cutaway.errors import CutawayError
from cutaway.trace.format import Structured
from cutaway.trace.reader import ProcessTrace, Trace, read_run
from cutaway.vocabulary import THREAD_LAYERS, Kind

Array = NDArray[np.float64]
_WAIT = THREAD_LAYERS.index("wait")


FULL = 0.8  # share of the CPUs in use above which a thread that wakes mostly waits for one
# Which quantile of sleeps, and of wake-ups, lasts as when the thread gets a core at once: the simulation adds the wait for a core.
# No sleep ends early; where the cores are mostly taken, most sleeps and wake-ups end late.
PROMPT, PROMPT_FULL = (0.25, 0.5), (0.1, 0.25)


@dataclass
class Marks:
    """Times in seconds of one process: operations by name as (start, end), waits as (start, end, is it a sleep), steps, iterations."""

    process: ProcessTrace
    spans: dict[str, Array]
    waits: Array
    steps: Array
    iterations: Array

    def within(self, name: str, window: Steady) -> Array:
        """Spans of an operation that lie in the window."""
        spans = self.spans.get(name, np.zeros((0, 2)))
        return spans[(spans[:, 0] >= window.start) & (spans[:, 1] <= window.end)]

    def cpu(self, window: Steady) -> float:
        """CPU seconds of the process in the window, from the meters; NaN if they cover less than half of it."""
        samples = [s for s in self.process.log.samples if "threads" in s]
        t = np.array([s["t"] * 1e-9 for s in samples])
        start, end = max(window.start, t[0]) if len(t) else 0.0, min(window.end, t[-1]) if len(t) else 0.0
        if end - start < 0.5 * (window.end - window.start):
            return float("nan")
        used, known = np.zeros(len(samples)), dict[str, int]()
        for i, sample in enumerate(samples):  # a thread that did nothing since the last sample is not in it
            known.update({tid: values[0] for tid, values in sample["threads"].items()})
            used[i] = 1e-9 * sum(known.values())
        rate = (np.interp(end, t, used) - np.interp(start, t, used)) / (end - start)
        return float(rate * (window.end - window.start))


def read(trace: Trace) -> list[Marks]:
    """The marks of all processes of a run."""
    return [_marks(process) for process in trace.processes]


def _marks(process: ProcessTrace) -> Marks:
    spans: dict[str, list[Array]] = {}
    waits, steps, iterations = [np.zeros((0, 3))], [np.zeros((0, 2))], [np.zeros(0)]
    for thread in process.threads:
        # Of the calls only those that wait.
        blocks = [b[(b["kind"] != Kind.CALL) | (b["layer"] == _WAIT)] for b in process.events(thread)]
        if not blocks:
            continue
        events = np.concatenate(blocks)
        time, kind, id = events["time"] * 1e-9, events["kind"], events["id"]
        for name in np.unique(id[kind == Kind.OP_ENTER]).tolist():
            pairs = _pairs(time, kind, id == name, Kind.OP_ENTER, Kind.OP_EXIT)
            spans.setdefault(process.log.name(name), []).append(pairs)
        waits += _waits(process, events, time)
        # A unit that was left unrecorded says at its end how many steps it made.
        stepped = (kind == Kind.STEP) | ((kind == Kind.RESUME) & (events["value"] > 0))
        steps.append(np.stack([time[stepped], events["value"][stepped]], axis=1))
        iterations.append(time[kind == Kind.ITERATION])
    joined = {name: np.concatenate(v) for name, v in spans.items()}
    passes = np.sort(np.concatenate(iterations))
    return Marks(process, joined, np.concatenate(waits), np.concatenate(steps), passes)


def _pairs(time: Array, kind: NDArray[np.uint8], mine: NDArray[np.bool_], enter: int, leave: int) -> Array:
    starts, ends = time[mine & (kind == enter)], time[mine & (kind == leave)]
    n = min(len(starts), len(ends))
    return np.stack([starts[:n], ends[:n]], axis=1)


def _waits(process: ProcessTrace, events: Structured, time: Array) -> Iterator[Array]:
    for id, call in process.log.calls.items():
        mine = events["id"] == id
        if call.layer != "wait" or not mine.any():
            continue
        short = mine & (events["kind"] == Kind.CALL)
        plain = np.stack([time[short], events["end"][short] * 1e-9], axis=1)
        both = np.concatenate([plain, _pairs(time, events["kind"], mine, Kind.ENTER, Kind.EXIT)])
        yield np.column_stack([both, np.full(len(both), float(call.fn.endswith("sleep")))])


def foreign(everything: Sequence[Marks], window: Steady) -> float:
    """Cores' worth of CPU time that went to other programs in the window: the median of what the processes saw."""
    seen = []
    for m in everything:
        inside = [s for s in m.process.log.samples if window.start <= s.get("t", 0) * 1e-9 <= window.end]
        seen.append(_mean([s["foreign"] for s in inside if "foreign" in s]) or 0.0)
    return float(np.median(seen)) if seen else 0.0


def progress(everything: Sequence[Marks], path: Path) -> tuple[Array, Array, str]:
    """When steps were made and how many, or iterations where no steps are known, and which of the two it is."""
    steps = np.concatenate([np.zeros((0, 2)), *(m.steps for m in everything)])
    unit = "steps"
    if not len(steps):
        times = np.concatenate([np.zeros(0), *(m.iterations for m in everything)])
        steps, unit = np.stack([times, np.ones_like(times)], axis=1), "iterations"
    if len(steps) < 2:
        raise CutawayError(
            f"{path} has neither environment steps nor iterations; call cutaway.iteration() in the loop or use --metric."
        )
    steps = steps[np.argsort(steps[:, 0])]
    return steps[:, 0], steps[:, 1], unit


def power(trace: Trace) -> tuple[float | None, float | None]:
    """Mean watts of the GPUs and of the CPUs over the run; None where no meter was available."""
    samples = [s["power"] for p in trace.processes for s in p.log.samples if isinstance(s.get("power"), dict)]
    gpu, cpu = (_mean([s[part] for s in samples if part in s]) for part in ("gpu", "cpu"))
    return gpu, cpu


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def observe(path: Path) -> Observed:
    """Service times of a run of `cutaway_workloads.r2d2`, or of any program with the same operations in processes of the same roles:
    actors with `simulation`, an inference server with `inference`, a learner with `backpropagation`."""
    trace = read_run(path)
    everything = read(trace)
    learners = [m for m in everything if "backpropagation" in m.spans]
    servers = [m for m in everything if "inference" in m.spans and m not in learners]
    actors = [m for m in everything if "simulation" in m.spans and m not in learners and m not in servers]
    if not actors or not servers:
        raise CutawayError(
            f"{path} does not have actors (operation simulation) and an inference server (operation inference) in separate processes, "
            "as the model needs; use `balance predict` with throughput points instead."
        )
    times, amounts, _ = progress(actors, path)
    window = steady(times, amounts)
    steps = float(np.sum(amounts[(times >= window.start) & (times <= window.end)]))
    counted = np.concatenate([m.steps[:, 1] for m in actors])
    envs = max(1, int(np.median(counted)))  # what an actor counts at once
    batches = sum(len(m.within("inference", window)) for m in servers)
    if not batches or not steps:
        raise CutawayError(f"{path} has no complete inference in its steady part; record longer.")
    cpu = {id(m): m.cpu(window) for m in everything}
    if any(np.isnan(cpu[id(m)]) for m in (*actors, *servers)):
        raise CutawayError(f"{path} has too few samples of the CPU clocks; record longer.")
    env, overhead = _actor(actors, window, sum(cpu[id(m)] for m in actors) / steps, envs)
    kernels = _kernels(path, everything)
    others = foreign(everything, window)
    busy = float(np.nansum(list(cpu.values()))) / (window.end - window.start) + others
    cpus = trace.about.get("cpus")
    full = busy > FULL * (cpus if isinstance(cpus, int) else os.cpu_count() or 1)
    slept, woken = PROMPT_FULL if full else PROMPT
    trained = _all(learners, "backpropagation", window)
    used = sum(cpu[id(m)] for m in learners)
    on_device = kernels.get("backpropagation")
    served = sum(cpu[id(m)] for m in servers) / batches
    return Observed(
        actors=len(actors),
        envs_per_actor=envs,
        batch=steps / batches,
        env_step=env,
        overhead=overhead,
        server=_server(servers, window, served, kernels.get("inference"), slept),
        latency=_latency(actors, servers, window, woken),
        train_host=Time(used / len(trained), *_spread(_length(trained))) if len(trained) else Time(),
        train_device=Time(on_device) if on_device is not None else _asleep(learners, window, slept),
        steps_per_train=_steps_per_train(learners, times, amounts),
        steps_per_s=window.rate,
        busy=busy,
        foreign=others,
    )


def _actor(actors: Sequence[Marks], window: Steady, cpu: float, envs: int) -> tuple[Time, Time]:
    """CPU of an environment step, and of the rest of the actor's cycle (for one request)."""
    steps = _length(_all(actors, "simulation", window)) / envs
    step = min(_quantile(steps, 0.25), cpu)  # time without a core is no CPU time
    cv, error = _spread(steps)
    return Time(step, cv, error), Time((cpu - step) * envs, 0.0, error)


def _kernels(path: Path, everything: Sequence[Marks]) -> dict[str, float]:
    """Seconds of GPU work that each operation launched, for each time it ran, over the whole run; nothing without a GPU."""
    if not any(m.process.log.devices for m in everything):
        return {}
    from cutaway.analysis import run

    table = run.open(path).device_time(layers=False)
    found: dict[str, float] = {}
    for name in ("inference", "backpropagation"):
        spent = int(np.sum(np.asarray(table["ns"])[np.asarray(table["operation"]) == name]))
        count = sum(len(m.spans.get(name, ())) for m in everything)
        if spent and count:
            found[name] = 1e-9 * spent / count
    return found


def _server(
    servers: Sequence[Marks], window: Steady, cpu: float, kernels: float | None, slept_at: float
) -> Server:
    before, device, answering, after = [], [], [], []
    for m in servers:
        spans = m.within("inference", window)
        sleeps = _first_sleep(m, spans)
        slept = ~np.isnan(sleeps[:, 0])
        until = np.where(slept, sleeps[:, 0], spans[:, 1])
        before.append(until - spans[:, 0] - _waiting(m, np.column_stack([spans[:, 0], until])))
        answering.append(np.where(slept, spans[:, 1] - sleeps[:, 1], 0.0))
        device.append((sleeps[:, 1] - sleeps[:, 0])[slept])
        for name in ("replay", "batch_wait"):
            spans = m.within(name, window)
            after.append(_length(spans) - _waiting(m, spans))
    parts = [_quantile(np.concatenate(before), 0.5), _quantile(np.concatenate(answering), 0.5)]
    parts.append(sum(_quantile(a, 0.5) for a in after) / len(servers))
    scale = cpu / sum(parts) if sum(parts) > 0 else 0.0
    busy = _quantile(np.concatenate(device), slept_at) if kernels is None else kernels
    host, reply, rest = (part * scale for part in parts)
    return Server(host, reply, rest, busy)


def _asleep(learners: Sequence[Marks], window: Steady, slept: float) -> Time:
    """The emulated accelerator at work on training."""
    sleeps = [_first_sleep(m, m.within("backpropagation", window)) for m in learners]
    lengths = _length(np.concatenate([np.zeros((0, 2)), *sleeps]))
    lengths = lengths[~np.isnan(lengths)]
    return Time(_quantile(lengths, slept), *_spread(lengths)) if len(lengths) else Time()


def _steps_per_train(learners: Sequence[Marks], times: Array, amounts: Array) -> float:
    """Environment steps between the first training and the last one, for each: not blurred by how many fit into a window."""
    starts = [m.spans["backpropagation"][:, 0] for m in learners]
    trained = np.sort(np.concatenate([np.zeros(0), *starts]))
    if len(trained) < 2:
        return 0.0
    inside = (times > trained[0]) & (times <= trained[-1])
    return float(np.sum(amounts[inside])) / (len(trained) - 1)


def _latency(actors: Sequence[Marks], servers: Sequence[Marks], window: Steady, woken_at: float) -> float:
    """Seconds of a round trip in which nothing runs: until the server wakes for the last request, until an actor wakes for its reply."""
    waits = _all(actors, "inference_wait", window)
    asked, woken = np.sort(waits[:, 0]), waits[:, 1]
    heard = _all(servers, "batch_wait", window)
    answered = np.sort(_all(servers, "inference", window)[:, 1])
    if not len(asked) or not len(heard) or not len(answered):
        return 0.0
    last = asked[np.maximum(0, np.searchsorted(asked, heard[:, 1]) - 1)]
    waited = heard[:, 1] - np.maximum(last, heard[:, 0])
    waited = waited[last >= heard[:, 0]]  # those for which the server really waited
    near = answered[np.maximum(0, np.searchsorted(answered, woken + 20e-6) - 1)]
    return _quantile(waited, woken_at) + max(0.0, _quantile(woken - near, woken_at))


def _first_sleep(m: Marks, spans: Array) -> Array:
    """(start, end) of the first sleep in each span, which is the emulated accelerator at work; NaN where there is none."""
    found = np.full((len(spans), 2), np.nan)
    sleeps = m.waits[m.waits[:, 2] > 0]
    if not len(sleeps) or not len(spans):
        return found
    sleeps = sleeps[np.argsort(sleeps[:, 0])]
    index = np.minimum(np.searchsorted(sleeps[:, 0], spans[:, 0]), len(sleeps) - 1)
    inside = (sleeps[index, 0] >= spans[:, 0]) & (sleeps[index, 1] <= spans[:, 1])
    found[inside] = sleeps[index[inside], :2]
    return found


def _waiting(m: Marks, spans: Array) -> Array:
    """Seconds of waits that begin in each of the spans, which do not overlap."""
    total = np.zeros(len(spans))
    if not len(spans) or not len(m.waits):
        return total
    order = np.argsort(spans[:, 0])
    index = np.searchsorted(spans[order, 0], m.waits[:, 0], side="right") - 1
    hit = (index >= 0) & (m.waits[:, 0] < spans[order[np.maximum(index, 0)], 1])
    np.add.at(total, order[index[hit]], m.waits[hit, 1] - m.waits[hit, 0])
    return total


def _all(processes: Sequence[Marks], name: str, window: Steady) -> Array:
    return np.concatenate([np.zeros((0, 2)), *(m.within(name, window) for m in processes)])


def _length(spans: Array) -> Array:
    return np.asarray(spans[:, 1] - spans[:, 0])


def _quantile(values: Array, q: float) -> float:
    return float(np.quantile(values, q)) if len(values) else 0.0


def _spread(durations: Array) -> tuple[float, float]:
    """Coefficient of variation, from the quartiles (preemption is the simulation's business), and relative error of the mean."""
    if len(durations) < 4:
        return 0.0, 0.1
    low, middle, high = np.quantile(durations, (0.25, 0.5, 0.75))
    cv = float((high - low) / 1.349 / middle) if middle > 0 else 0.0
    return cv, cv / float(np.sqrt(len(durations)))
