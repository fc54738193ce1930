"""Service times of one recorded run of a distributed trainer.

CPU clocks tell how much a process used, whatever the contention. How that divides between the parts of its cycle comes from the
medians of the recorded times, which a preemption now and then does not move. Nothing is taken from the throughput.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cutaway.balance.demands import Time
from cutaway.balance.marks import EMPTY, Array, Marks, foreign, merged_progress, read
from cutaway.balance.steady import Steady, steady
from cutaway.errors import CutawayError


@dataclass(frozen=True)
class Prompt:
    """Which quantile of the times something lasts when its thread gets a core at once: waiting for a core is the simulation's business.
    No sleep ends early; where the cores are mostly taken, most sleeps and wake-ups end late."""

    slept: float
    woken: float


FULL = 0.8  # share of the CPUs in use above which a thread that wakes mostly waits for one
PROMPT, PROMPT_FULL = Prompt(0.25, 0.5), Prompt(0.1, 0.25)


@dataclass(frozen=True)
class Server:
    """Seconds of one batch: CPU before the device works, until the actors are answered, after that; and the device."""

    host: float
    reply: float
    after: float
    device: float


@dataclass(frozen=True)
class Observed:
    """One run, reduced to what the model needs. `busy` is how many cores were in use, by this program and by others."""

    actors: int
    envs_per_actor: int
    batch: float
    env_step: Time
    overhead: Time
    server: Server
    latency: float
    train_host: Time
    train_device: Time
    steps_per_train: float
    steps_per_s: float
    busy: float
    foreign: float


def observe(path: Path) -> Observed:
    """Service times of a run of `cutaway_workloads.r2d2`, or of any program with the same operations in processes of the same roles:
    actors with `simulation`, an inference server with `inference`, a learner with `backpropagation`."""
    everything = read(path)
    learners = [m for m in everything if "backpropagation" in m.spans]
    servers = [m for m in everything if "inference" in m.spans and m not in learners]
    actors = [m for m in everything if "simulation" in m.spans and m not in learners and m not in servers]
    if not actors or not servers:
        raise CutawayError(
            f"{path} does not show actors (operation simulation) and a server (operation inference) in processes of their own: "
            "the model needs them; use `balance predict` with throughput points instead."
        )
    times, amounts, _ = merged_progress(actors, path)
    window = steady(times, amounts)
    steps = float(np.sum(amounts[(times >= window.start) & (times <= window.end)]))
    per_actor = _envs_per_actor(actors)
    batches = sum(len(m.within("inference", window)) for m in servers)
    if not batches or not steps:
        raise CutawayError(f"{path} has no complete inference in its steady part: record for longer.")
    seconds = window.end - window.start
    cpu = {id(m): m.cpu(window) for m in everything}
    if any(np.isnan(cpu[id(m)]) for m in (*actors, *servers)):
        raise CutawayError(f"{path} has too few samples of the CPU clocks: record for longer.")
    env, overhead = _actor(actors, window, sum(cpu[id(m)] for m in actors) / steps, per_actor)
    kernels = _kernels(path, everything)
    trains = sum(len(m.within("backpropagation", window)) for m in learners)
    used = sum(cpu[id(m)] for m in learners)
    others = foreign(everything, window)
    busy = float(np.nansum(list(cpu.values()))) / seconds + others
    prompt = PROMPT_FULL if busy > FULL * _cpus(path) else PROMPT
    return Observed(
        len(actors), per_actor, steps / batches, env, overhead,
        _server(servers, window, sum(cpu[id(m)] for m in servers) / batches, kernels.get("inference"), prompt),
        _latency(actors, servers, window, prompt),
        _training(learners, window, used / trains) if trains else Time(),
        Time(kernels["backpropagation"]) if "backpropagation" in kernels else _asleep(learners, window, prompt),
        _steps_per_train(learners, times, amounts),
        window.rate, busy, others,
    )  # fmt: skip


def _cpus(path: Path) -> int:
    """CPUs that the program could use."""
    try:
        return int(json.loads((path / "run.json").read_text())["cpus"])
    except (OSError, ValueError, KeyError, TypeError):
        return os.cpu_count() or 1


def _envs_per_actor(actors: Sequence[Marks]) -> int:
    """What an actor counts at once: the steps it makes between two requests."""
    counted = np.concatenate([m.steps[:, 1] for m in actors])
    return max(1, int(np.median(counted)))


def _actor(actors: Sequence[Marks], window: Steady, cpu: float, envs: int) -> tuple[Time, Time]:
    """CPU of an environment step, and of the rest of the actor's cycle (for one request)."""
    steps = np.concatenate([_length(m.within("simulation", window)) for m in actors]) / envs
    step = min(_low(steps, 0.25), cpu)  # what waits in a step, or was kept from a core, is no CPU time
    cv, error = _spread(steps)
    return Time(step, cv, error), Time((cpu - step) * envs, 0.0, error)


def _kernels(path: Path, everything: Sequence[Marks]) -> dict[str, float]:
    """Seconds of GPU work that each operation launched, for each time it ran, over the whole run; nothing without a GPU."""
    if not any(m.process.log.devices for m in everything):
        return {}
    from cutaway.analysis import run

    found: dict[str, float] = {}
    table = run.open(path).device_time(layers=False)
    for name in ("inference", "backpropagation"):
        spent = sum(
            int(ns)
            for operation, ns in zip(table["operation"], table["ns"], strict=True)
            if operation == name
        )
        count = sum(len(m.spans.get(name, ())) for m in everything)
        if spent and count:
            found[name] = 1e-9 * spent / count
    return found


def _server(
    servers: Sequence[Marks], window: Steady, cpu: float, kernels: float | None, prompt: Prompt
) -> Server:
    before, device, answering, after = [], [], [], []
    for m in servers:
        spans = m.within("inference", window)
        sleeps = _first_sleep(m, spans)
        slept = ~np.isnan(sleeps[:, 0])
        before.append(np.where(slept, sleeps[:, 0], spans[:, 1]) - spans[:, 0])
        answering.append(np.where(slept, spans[:, 1] - sleeps[:, 1], 0.0))
        device.append((sleeps[:, 1] - sleeps[:, 0])[slept])
        before[-1] -= _waiting(m, np.column_stack([spans[:, 0], spans[:, 0] + before[-1]]))
        after.append(_working(m, "replay", window))
        after.append(_working(m, "batch_wait", window))
    parts = [_median(np.concatenate(before)), _median(np.concatenate(answering))]
    parts.append(sum(_median(a) for a in after) / len(servers))
    scale = cpu / sum(parts) if sum(parts) > 0 else 0.0
    host, reply, rest = (part * scale for part in parts)
    return Server(
        host, reply, rest, _low(np.concatenate(device), prompt.slept) if kernels is None else kernels
    )


def _training(learners: Sequence[Marks], window: Steady, cpu: float) -> Time:
    return Time(
        cpu, *_spread(np.concatenate([_length(m.within("backpropagation", window)) for m in learners]))
    )


def _asleep(learners: Sequence[Marks], window: Steady, prompt: Prompt) -> Time:
    """The emulated accelerator at work on training."""
    found = [np.zeros(0)]
    for m in learners:
        sleeps = _first_sleep(m, m.within("backpropagation", window))
        found.append((sleeps[:, 1] - sleeps[:, 0])[~np.isnan(sleeps[:, 0])])
    lengths = np.concatenate(found)
    return Time(_low(lengths, prompt.slept), *_spread(lengths)) if len(lengths) else Time()


def _steps_per_train(learners: Sequence[Marks], times: Array, amounts: Array) -> float:
    """Environment steps between the first training and the last one, for each: not blurred by how many fit into a window."""
    trained: Array = np.sort(np.concatenate([EMPTY, *(m.spans["backpropagation"][:, 0] for m in learners)]))
    if len(trained) < 2:
        return 0.0
    inside = (times > trained[0]) & (times <= trained[-1])
    return float(np.sum(amounts[inside])) / (len(trained) - 1)


def _latency(actors: Sequence[Marks], servers: Sequence[Marks], window: Steady, prompt: Prompt) -> float:
    """Seconds of a round trip in which nothing runs: until the server wakes for the last request, until an actor wakes for its reply."""
    asked = np.sort(np.concatenate([m.within("inference_wait", window)[:, 0] for m in actors]))
    woken = np.concatenate([m.within("inference_wait", window)[:, 1] for m in actors])
    heard = np.concatenate([m.within("batch_wait", window) for m in servers])
    answered = np.sort(np.concatenate([m.within("inference", window)[:, 1] for m in servers]))
    if not len(asked) or not len(heard) or not len(answered):
        return 0.0
    last = asked[np.maximum(0, np.searchsorted(asked, heard[:, 1]) - 1)]
    waited = heard[:, 1] - np.maximum(last, heard[:, 0])
    waited = waited[last >= heard[:, 0]]  # those for which the server really waited
    near = answered[np.maximum(0, np.searchsorted(answered, woken + 20e-6) - 1)]
    return _low(waited, prompt.woken) + max(0.0, _low(woken - near, prompt.woken))


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


def _working(m: Marks, name: str, window: Steady) -> Array:
    """Seconds of each span of an operation, less the waits in it."""
    spans = m.within(name, window)
    return _length(spans) - _waiting(m, spans)


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


def _length(spans: Array) -> Array:
    return np.asarray(spans[:, 1] - spans[:, 0])


def _median(values: Array) -> float:
    return float(np.median(values)) if len(values) else 0.0


def _low(durations: Array, quantile: float) -> float:
    """What something lasts when nobody keeps it from a core."""
    return float(np.quantile(durations, quantile)) if len(durations) else 0.0


def _spread(durations: Array) -> tuple[float, float]:
    """Coefficient of variation, from the quartiles (preemption is the simulation's business), and relative error of the mean."""
    if len(durations) < 4:
        return 0.0, 0.1
    low, middle, high = np.quantile(durations, (0.25, 0.5, 0.75))
    cv = float((high - low) / 1.349 / middle) if middle > 0 else 0.0
    return cv, cv / float(np.sqrt(len(durations)))
