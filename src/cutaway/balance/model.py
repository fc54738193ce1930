"""Throughput of a workload on a machine: bounds explain, the simulation predicts; without a trace there is a curve.

Bounds are operational analysis: how fast each resource alone would let the system go; the lowest binds. The simulation is of
discrete events, with an interval from the errors of the measured times. The curve is a hyperbola through throughput points: one
environment step takes A seconds of a worker and B seconds of something shared, X = K / (A + B K), where K = capacity(N) is what N
workers get from the CPU (cores, SMT, turbo). The capacity is the bound that makes the curve bend where the cores end.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutaway import _simulate
from cutaway.balance.demands import LINES, Demands, Line, Time
from cutaway.balance.machine import Machine
from cutaway.errors import CutawayError


@dataclass(frozen=True)
class Bound:
    """Environment steps in a second that `resource` alone allows, and what that rests on."""

    resource: str
    steps_per_s: float
    because: str


def bounds(demands: Demands, machine: Machine, actors: int) -> list[Bound]:
    """All bounds, the binding one first.

    >>> d = Demands(Time(1e-3), device=Line(a=2e-3, b=0.0))
    >>> [(b.resource, round(b.steps_per_s)) for b in bounds(d, Machine("two", 2, 2), actors=16)][:2]
    [('cpu', 2000), ('server', 4000)]
    """
    d, machine = demands.on(machine)
    n, threads, envs = d.batch_for(actors), machine.threads, d.envs_per_actor
    trains = 1 / d.steps_per_train if d.steps_per_train else 0.0
    actor = d.env_step.mean + d.actor_overhead.mean / envs
    host, device = d.server(n) / n, d.device(n) / n
    train_host, train_device = d.train_host.mean * trains, d.train_device.mean * trains
    on_cpu = device + train_device if d.device_on_cpu else 0.0
    cycle = envs * actor + d.host(n) + d.device(n) + d.reply(n) + d.latency
    cpu, served = actor + host + train_host + on_cpu, host + device
    used, learned = device + train_device, train_host + train_device
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
    return machine.threads * found["device"] / found["cpu"] if used else None


def wanted_ratio(demands: Demands, machine: Machine, actors: int) -> float | None:
    """CPU threads for each SM at which CPU and device are busy alike; None without a device."""
    threads = (
        wanted_threads(demands, machine, actors)
        if machine.sms and machine.gpus
        else None
    )
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
    timeout = -1.0 if d.timeout is None else d.timeout
    known = {"actors": actors, "batch": d.batch_for(actors), "timeout": timeout}
    s = _simulate.System()
    for name, value in {**vars(machine), **vars(d), **known}.items():
        if isinstance(value, Time):
            setattr(s, name, _simulate.Service(value.mean, value.cv))
        elif isinstance(value, Line):
            setattr(s, name, _simulate.Line(value.a, value.b))
        elif hasattr(s, name):
            setattr(s, name, value)
    return s


def predict(
    demands: Demands, machine: Machine, actors: int, draws: int = 8, seed: int = 1
) -> Prediction:
    """One point. The interval comes from repeating it with service times drawn from their own errors of measurement.

    >>> d = Demands(Time(1e-3), host=Line(1e-5), batch=1)
    >>> round(predict(d, Machine("two", 2, 2), actors=1, draws=0).steps_per_s, -1)
    990.0
    """
    # Some cycles of every actor and, with a learner, some training steps.
    steps = int(
        max(8000, 60 * actors * demands.envs_per_actor, 6 * demands.steps_per_train)
    )
    r = _simulate.simulate(system(demands, machine, actors), seed, steps // 4, steps)
    spread = []
    for number in range(seed + 1, seed + 1 + draws):
        drawn = system(_drawn(demands, number), machine, actors)
        spread.append(
            _simulate.simulate(drawn, number, steps // 8, steps // 3).steps_per_s
        )
    half = 1.96 * statistics.stdev(spread) if draws > 1 else 0.0
    return Prediction(
        actors, r.steps_per_s, r.steps_per_s - half, r.steps_per_s + half, r.cpu_busy, r.device_busy,
        r.mean_batch, r.wait_cpu, r.wait_inference, r.queue_full,
    )  # fmt: skip


def _drawn(demands: Demands, seed: int) -> Demands:
    gauss = random.Random(seed).gauss
    services = ("env_step", "actor_overhead", "train_host", "train_device")
    factors = {
        name: max(0.0, 1 + getattr(demands, name).error * gauss(0, 1))
        for name in services
    }
    inference = max(0.1, 1 + demands.inference_error * gauss(0, 1))
    return demands.times(**factors, **dict.fromkeys(LINES, inference))


@dataclass(frozen=True)
class Curve:
    """Throughput by number of workers, fitted. `one_sided` warns that no point lies beyond the knee (or none before it)."""

    a: float
    b: float
    first: tuple[float, float]
    spread: float
    machine: Machine | None
    one_sided: str | None
    cap: float = float("inf")

    def __call__(self, workers: float) -> float:
        k = _capacity(self.machine, workers)
        linear = self.first[1] * k / _capacity(self.machine, self.first[0])
        return min(k / (self.a + self.b * k), linear, self.cap)

    def interval(self, workers: float) -> tuple[float, float]:
        """95 % interval: the scatter of the points, widened with the distance of the extrapolation."""
        reach = abs(np.log(workers / self.first[0]))
        half = float(np.expm1(1.96 * (self.spread + 0.05 * reach)))
        return self(workers) / (1 + half), self(workers) * (1 + half)

    @property
    def asymptote(self) -> float:
        """Throughput with any number of workers."""
        if self.machine is None:
            return min(self.cap, 1 / self.b if self.b > 0 else float("inf"))
        return self(10**9)


def fit(
    workers: Sequence[float],
    throughput: Sequence[float],
    machine: Machine | None = None,
    cap: float = float("inf"),
) -> Curve:
    """The curve through at least two points.

    `machine` is the CPU the workers run on: give it only when a worker is a process or thread, not when it is one of many
    environments inside one. `cap` is a throughput that some resource does not allow to pass, where one is known.

    >>> curve = fit([1, 2, 4], [100.0, 180.0, 300.0])
    >>> round(curve(8))
    450
    """
    n, x = np.asarray(workers, float), np.asarray(throughput, float)
    n, x = n[np.argsort(n)], x[np.argsort(n)]
    if len(np.unique(n)) < 2 or not (
        np.all(n > 0) and np.all(x > 0) and np.all(np.isfinite(x))
    ):
        needs = "positive throughput at two different numbers of workers"
        raise CutawayError(f"A curve needs {needs}; measure more points.")
    k = np.array([_capacity(machine, float(v)) for v in n])
    y = k / x
    # A, B ≥ 0 of K / X = A + B K, every point with the same relative weight.
    a, b = map(
        float,
        np.linalg.lstsq(np.stack([1 / y, k / y], axis=1), np.ones(len(y)), rcond=None)[
            0
        ],
    )
    if b < 0:
        a, b = float(np.exp(np.mean(np.log(y)))), 0.0
    elif a < 0:
        a, b = 0.0, float(np.exp(np.mean(np.log(1 / x))))
    scatter = float(np.std(np.log(x * (a + b * k) / k))) if len(x) > 2 else 0.05
    one_sided = None
    if b * k[-1] < 0.25 * a:
        one_sided = "all points lie before the knee: the ceiling is a guess"
    elif a < 0.25 * b * k[0]:
        one_sided = (
            "all points lie beyond the knee: the slope at few workers is a guess"
        )
    return Curve(a, b, (float(n[0]), float(x[0])), scatter, machine, one_sided, cap)


def _capacity(machine: Machine | None, workers: float) -> float:
    return workers if machine is None else machine.capacity(workers)
