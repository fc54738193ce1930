"""Throughput of a workload on a machine by discrete-event simulation, with an interval from the spread of the measured times."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

from cutaway import _simulate
from cutaway.balance.demands import Demands, Time
from cutaway.balance.machine import Machine


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
    machine = demands.on(machine)
    d = demands.scaled(machine.cpu_speed, machine.gpu_speed)
    s = _simulate.System()
    s.actors, s.envs_per_actor = actors, d.envs_per_actor
    s.threads, s.cores = machine.threads, machine.cores
    s.smt_yield, s.turbo, s.foreign = machine.smt_yield, machine.turbo, machine.foreign
    s.env_step, s.actor_overhead = _service(d.env_step), _service(d.actor_overhead)
    s.host_a, s.host_b, s.device_a, s.device_b = d.host.a, d.host.b, d.device.a, d.device.b
    s.reply_a, s.reply_b, s.after_a, s.after_b = d.reply.a, d.reply.b, d.after.a, d.after.b
    s.inference_cv, s.latency = d.inference_cv, d.latency
    s.batch = d.batch_for(actors)
    s.timeout = -1.0 if d.timeout is None else d.timeout
    s.train_host, s.train_device = _service(d.train_host), _service(d.train_device)
    s.steps_per_train, s.unroll, s.queue = d.steps_per_train, d.unroll, d.queue
    s.slice, s.device_on_cpu = d.slice, d.device_on_cpu
    return s


def _service(time: Time) -> _simulate.Service:
    return _simulate.Service(time.mean, time.cv)


def steps_for(demands: Demands, actors: int) -> int:
    """Environment steps to simulate: some cycles of every actor and, with a learner, some training steps."""
    return int(max(8000, 60 * actors * demands.envs_per_actor, 6 * demands.steps_per_train))


def predict(demands: Demands, machine: Machine, actors: int, draws: int = 8, seed: int = 1) -> Prediction:
    """One point. The interval comes from repeating it with service times drawn from their own errors of measurement.

    >>> from cutaway.balance.demands import Line
    >>> d = Demands(Time(1e-3), host=Line(1e-5), batch=1)
    >>> round(predict(d, Machine("two", 2, 2), actors=1, draws=0).steps_per_s, -1)
    990.0
    """
    steps = steps_for(demands, actors)
    result = _simulate.simulate(system(demands, machine, actors), seed, steps // 4, steps)
    spread = sorted(
        _simulate.simulate(
            system(_drawn(demands, seed + i), machine, actors), seed + i, steps // 8, steps // 3
        ).steps_per_s
        for i in range(1, draws + 1)
    )
    half = 1.96 * _deviation(spread) if len(spread) > 1 else 0.0
    return Prediction(
        actors,
        result.steps_per_s,
        result.steps_per_s - half,
        result.steps_per_s + half,
        result.cpu_busy,
        result.device_busy,
        result.mean_batch,
        result.wait_cpu,
        result.wait_inference,
        result.queue_full,
    )


def _drawn(demands: Demands, seed: int) -> Demands:
    source = random.Random(seed)

    def time(t: Time) -> Time:
        return dataclasses.replace(t, mean=max(0.0, t.mean * (1 + t.error * source.gauss(0, 1))))

    factor = max(0.1, 1 + demands.inference_error * source.gauss(0, 1))
    return dataclasses.replace(
        demands,
        env_step=time(demands.env_step),
        actor_overhead=time(demands.actor_overhead),
        train_host=time(demands.train_host),
        train_device=time(demands.train_device),
        host=demands.host.times(factor),
        reply=demands.reply.times(factor),
        after=demands.after.times(factor),
        device=demands.device.times(factor),
    )


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return float((sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5)
