"""Throughput of a workload on a machine: bounds explain, a replay predicts.

Bounds are operational analysis: how fast each resource alone would let the system go; the lowest binds. The replay is that of
`cutaway what-if`, of a program made from the measured times, with an interval from their errors.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import Protocol

from cutaway.machines.machine import Machine
from cutaway_balance.demands import LINES, Demands
from cutaway_balance.program import replay


@dataclass(frozen=True)
class Bound:
    """Environment steps in a second that `resource` alone allows, and what that rests on."""

    resource: str
    steps_per_s: float
    because: str


def bounds(demands: Demands, machine: Machine, actors: int) -> list[Bound]:
    """All bounds, the binding one first.

    >>> from cutaway_balance.demands import Line, Time
    >>> d = Demands(Time(1e-3), device=Line(a=2e-3, b=0.0))
    >>> [(b.resource, round(b.steps_per_s)) for b in bounds(d, Machine("two", 2, 2), actors=16)][:2]
    [('cpu', 2000), ('server', 4000)]
    """
    d, machine = demands.on(machine)
    n = d.batch_for(actors)
    threads = machine.threads
    envs = d.envs_per_actor
    if d.steps_per_train:
        trains = 1 / d.steps_per_train
    else:
        trains = 0.0
    actor = d.env_step.mean + d.actor_overhead.mean / envs
    host = d.server(n) / n
    device = d.device(n) / n
    train_host = d.train_host.mean * trains
    train_device = d.train_device.mean * trains
    if d.device_on_cpu:
        on_cpu = device + train_device
    else:
        on_cpu = 0.0
    cycle = envs * actor + d.host(n) + d.device(n) + d.reply(n) + d.latency
    cpu = actor + host + train_host + on_cpu
    served = host + device
    used = device + train_device
    learned = train_host + train_device
    in_batches = f"{1e6 * served:.0f} µs a step in batches of {n}"
    found = [
        (
            "actors",
            actors * envs,
            cycle,
            f"{actors} actors, {1e3 * cycle:.2f} ms a cycle, no queue",
        ),
        (
            "cpu",
            machine.capacity(threads),
            cpu,
            f"{threads} CPU threads, {1e6 * cpu:.0f} µs a step",
        ),
        ("server", 1.0, served, f"one thread, {in_batches}"),
    ]
    if not d.device_on_cpu:
        found.append(
            ("device", max(1, machine.gpus), used, f"{1e6 * used:.0f} µs device a step")
        )
    if trains:
        every = d.steps_per_train
        found.append(
            (
                "learner",
                1.0,
                learned,
                f"{1e3 * every * learned:.1f} ms every {every:.0f} steps",
            )
        )
    limits = [
        Bound(resource, capacity / demand if demand > 0 else float("inf"), because)
        for resource, capacity, demand, because in found
    ]
    return sorted(limits, key=lambda b: b.steps_per_s)


def wanted_threads(demands: Demands, machine: Machine, actors: int) -> float | None:
    """CPU threads of this machine that are as busy as its device; None when no device is used."""
    found = {b.resource: b.steps_per_s for b in bounds(demands, machine, actors)}
    used = found.get("device", float("inf")) < float("inf")
    if used:
        return machine.threads * found["device"] / found["cpu"]
    return None


@dataclass(frozen=True)
class Prediction:
    """What the replay expects at one number of actors; busy counts in threads, the device's as a share."""

    actors: int
    steps_per_s: float
    low: float
    high: float
    cpu_busy: float
    device_busy: float = 0.0
    mean_batch: float | None = None
    notes: tuple[str, ...] = ()


class Predictor(Protocol):
    """Whoever answers for other numbers of actors and other machines; without a machine, for that of the measurements."""

    @property
    def measured_at(self) -> tuple[int, ...]: ...

    def without(self, actors: int) -> Predictor: ...

    def meant(self, machine: Machine) -> Machine | None: ...

    def predict(
        self, actors: int, machine: Machine | None = None, sure: bool = True
    ) -> Prediction: ...

    def bounds(self, actors: int, machine: Machine | None = None) -> list[Bound]: ...

    def gains(
        self, actors: int, machine: Machine | None = None
    ) -> dict[str, float]: ...

    def wanted_threads(
        self, actors: int, machine: Machine | None = None
    ) -> float | None: ...

    def rests_on(self) -> list[str]: ...


def predict(
    demands: Demands, machine: Machine, actors: int, draws: int = 8, seed: int = 1
) -> Prediction:
    """One point. The interval comes from repeating it with service times drawn from their own errors of measurement.

    >>> from cutaway_balance.demands import Line, Time
    >>> d = Demands(Time(1e-3), host=Line(1e-5), batch=1)
    >>> round(predict(d, Machine("two", 2, 2), actors=1, draws=0).steps_per_s, -1)
    990.0
    """
    # Some cycles of every actor and, with a learner, some training steps.
    steps = int(
        max(10000, 75 * actors * demands.envs_per_actor, 8 * demands.steps_per_train)
    )
    found = replay(demands, machine, actors, steps, seed)
    spread = []
    for number in range(seed + 1, seed + 1 + draws):
        drawn = _drawn(demands, number)
        spread.append(replay(drawn, machine, actors, steps // 3, number).steps_per_s)
    if draws > 1:
        half = 1.96 * statistics.stdev(spread)
    else:
        half = 0.0
    rate = found.steps_per_s
    return Prediction(
        actors,
        rate,
        rate - half,
        rate + half,
        found.cpu_busy,
        rate * _device_seconds(demands, machine, found.mean_batch),
        found.mean_batch,
    )


def _device_seconds(demands: Demands, machine: Machine, batch: float) -> float:
    """Of one environment step."""
    d, _ = demands.on(machine)
    if d.device_on_cpu:
        return 0.0
    if d.steps_per_train:
        trains = 1 / d.steps_per_train
    else:
        trains = 0.0
    if batch:
        answering = d.device(batch) / batch
    else:
        answering = 0.0
    return answering + trains * d.train_device.mean


def _drawn(demands: Demands, seed: int) -> Demands:
    gauss = random.Random(seed).gauss
    services = ("env_step", "actor_overhead", "train_host", "train_device")
    factors = {
        name: max(0.0, 1 + getattr(demands, name).error * gauss(0, 1))
        for name in services
    }
    inference = max(0.1, 1 + demands.inference_error * gauss(0, 1))
    return demands.times(**factors, **dict.fromkeys(LINES, inference))
