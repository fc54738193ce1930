"""Throughput of a workload on a machine: bounds explain, the simulation predicts.

Bounds are operational analysis: how fast each resource alone would let the system go; the lowest binds. The simulation is of
discrete events, with an interval from the errors of the measured times.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from cutaway import _simulate
from cutaway.balance.demands import LINES, Demands
from cutaway.balance.machine import Machine

SERVICES = ("env_step", "actor_overhead", "train_host", "train_device")


@dataclass(frozen=True)
class Bound:
    """Environment steps in a second that `resource` alone allows, and what that rests on."""

    resource: str
    steps_per_s: float
    because: str


def bounds(demands: Demands, machine: Machine, actors: int) -> list[Bound]:
    """All bounds, the binding one first.

    >>> from cutaway.balance.demands import Line, Time
    >>> d = Demands(Time(1e-3), device=Line(a=2e-3, b=0.0))
    >>> [(b.resource, round(b.steps_per_s)) for b in bounds(d, Machine("two", 2, 2), actors=16)][:2]
    [('cpu', 2000), ('server', 4000)]
    """
    d, machine = demands.on(machine)
    n, threads = d.batch_for(actors), machine.threads
    trains = 1 / d.steps_per_train if d.steps_per_train else 0.0
    actor = d.env_step.mean + d.actor_overhead.mean / d.envs_per_actor
    host, device = d.server(n) / n, d.device(n) / n
    train_host, train_device = d.train_host.mean * trains, d.train_device.mean * trains
    cpu = actor + host + train_host + (device + train_device if d.device_on_cpu else 0.0)
    cycle = d.envs_per_actor * actor + d.host(n) + d.device(n) + d.reply(n) + d.latency
    found = []

    def add(resource: str, capacity: float, demand: float, because: str) -> None:
        found.append(Bound(resource, capacity / demand if demand > 0 else float("inf"), because))

    at_once, ms = actors * d.envs_per_actor, 1e3 * cycle
    add("actors", at_once, cycle, f"{actors} actors, {ms:.2f} ms a cycle, no queue")
    add("cpu", machine.capacity(threads), cpu, f"{threads} CPU threads, {1e6 * cpu:.0f} µs a step")
    served = host + device
    add("server", 1.0, served, f"one thread, {1e6 * served:.0f} µs a step in batches of {n}")
    if not d.device_on_cpu:
        used = device + train_device
        add("device", max(1, machine.gpus), used, f"{1e6 * used:.0f} µs device a step")
    if trains:
        used, every = train_host + train_device, d.steps_per_train
        add("learner", 1.0, used, f"{1e3 * every * used:.1f} ms every {every:.0f} steps")
    return sorted(found, key=lambda b: b.steps_per_s)


def utilisations(demands: Demands, machine: Machine, actors: int, steps_per_s: float) -> dict[str, float]:
    """Share of each resource in use at that throughput."""
    return {b.resource: min(1.0, steps_per_s / b.steps_per_s) for b in bounds(demands, machine, actors)}


def wanted_threads(demands: Demands, machine: Machine, actors: int) -> float | None:
    """CPU threads of this machine that are as busy as its device; None when no device is used."""
    found = {b.resource: b.steps_per_s for b in bounds(demands, machine, actors)}
    if found.get("device", float("inf")) == float("inf"):
        return None
    return machine.threads * found["device"] / found["cpu"]


def wanted_ratio(demands: Demands, machine: Machine, actors: int) -> float | None:
    """CPU threads for each SM at which CPU and device are busy alike; None without a device."""
    threads = wanted_threads(demands, machine, actors) if machine.sms and machine.gpus else None
    return None if threads is None else threads / (machine.sms * machine.gpus)


@dataclass(frozen=True)
class Prediction:
    """What the simulation expects at one number of actors; shares of the whole, busy counts in threads."""

    actors: int
    steps_per_s: float
    low: float
    high: float
    cpu_busy: float
    device_busy: float
    mean_batch: float
    wait_cpu: float
    wait_inference: float
    queue_full: float


def system(demands: Demands, machine: Machine, actors: int) -> _simulate.System:
    """The native description of the system."""
    d, machine = demands.on(machine)
    s = _simulate.System()
    for name in ("cores", "threads", "smt_yield", "turbo", "wake", "foreign"):
        setattr(s, name, getattr(machine, name))
    for name in ("envs_per_actor", "inference_cv", "latency", "steps_per_train", "unroll", "queue", "slice", "device_on_cpu"):  # fmt: skip
        setattr(s, name, getattr(d, name))
    for name in SERVICES:
        setattr(s, name, _simulate.Service(getattr(d, name).mean, getattr(d, name).cv))
    for name in LINES:
        setattr(s, name, _simulate.Line(getattr(d, name).a, getattr(d, name).b))
    s.actors, s.batch = actors, d.batch_for(actors)
    s.timeout = -1.0 if d.timeout is None else d.timeout
    return s


def predict(demands: Demands, machine: Machine, actors: int, draws: int = 8, seed: int = 1) -> Prediction:
    """One point. The interval comes from repeating it with service times drawn from their own errors of measurement.

    >>> from cutaway.balance.demands import Line, Time
    >>> d = Demands(Time(1e-3), host=Line(1e-5), batch=1)
    >>> round(predict(d, Machine("two", 2, 2), actors=1, draws=0).steps_per_s, -1)
    990.0
    """
    # Some cycles of every actor and, with a learner, some training steps.
    steps = int(max(8000, 60 * actors * demands.envs_per_actor, 6 * demands.steps_per_train))
    r = _simulate.simulate(system(demands, machine, actors), seed, steps // 4, steps)
    drawn = [system(_drawn(demands, seed + i), machine, actors) for i in range(1, draws + 1)]
    spread = [
        _simulate.simulate(s, seed + i, steps // 8, steps // 3).steps_per_s for i, s in enumerate(drawn, 1)
    ]
    half = 1.96 * statistics.stdev(spread) if draws > 1 else 0.0
    return Prediction(
        actors, r.steps_per_s, r.steps_per_s - half, r.steps_per_s + half, r.cpu_busy, r.device_busy,
        r.mean_batch, r.wait_cpu, r.wait_inference, r.queue_full,
    )  # fmt: skip


def _drawn(demands: Demands, seed: int) -> Demands:
    gauss: Callable[[float, float], float] = random.Random(seed).gauss
    factors = {name: max(0.0, 1 + getattr(demands, name).error * gauss(0, 1)) for name in SERVICES}
    inference = max(0.1, 1 + demands.inference_error * gauss(0, 1))
    return demands.times(**factors, **dict.fromkeys(LINES, inference))
