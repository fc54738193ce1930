"""Asymptotic bounds: how fast each resource alone would let the system go, which one binds, and what more of it would buy.

Operational analysis, no distribution assumed. The lowest bound binds. They explain; `simulation` predicts.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from cutaway.balance.demands import Demands
from cutaway.balance.machine import Machine


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
    machine = demands.on(machine)
    d = demands.scaled(machine.cpu_speed, machine.gpu_speed)
    n = d.batch_for(actors)
    trains = 1 / d.steps_per_train if d.steps_per_train else 0.0
    actor = d.env_step.mean + d.actor_overhead.mean / d.envs_per_actor
    host, device = d.server(n) / n, d.device(n) / n
    train_host, train_device = d.train_host.mean * trains, d.train_device.mean * trains
    cpu = actor + host + train_host + (device + train_device if d.device_on_cpu else 0.0)
    served = d.host(n) + d.device(n) + d.reply(n)
    latency = d.envs_per_actor * d.env_step.mean + d.actor_overhead.mean + served + d.latency
    candidates = [
        (
            "actors",
            actors * d.envs_per_actor / latency,
            f"{actors} actors, {1e3 * latency:.2f} ms a cycle, no queue",
        ),
        (
            "cpu",
            _per(machine.capacity(machine.threads), cpu),
            f"{machine.threads} CPU threads, {1e6 * cpu:.0f} µs a step",
        ),
        (
            "server",
            _per(1.0, host + device),
            f"one thread, {1e6 * (host + device):.0f} µs a step in batches of {n}",
        ),
    ]
    if not d.device_on_cpu:
        used = device + train_device
        candidates.append(
            ("device", _per(float(max(1, machine.gpus)), used), f"{1e6 * used:.0f} µs device a step")
        )
    if trains:
        used = train_host + train_device
        candidates.append(
            (
                "learner",
                _per(1.0, used),
                f"{1e3 * d.steps_per_train * used:.1f} ms every {d.steps_per_train:.0f} steps",
            )
        )
    return sorted((Bound(*c) for c in candidates), key=lambda b: b.steps_per_s)


def _per(capacity: float, demand: float) -> float:
    return capacity / demand if demand > 0 else float("inf")


def utilisations(demands: Demands, machine: Machine, actors: int, steps_per_s: float) -> dict[str, float]:
    """Share of each resource in use at that throughput."""
    return {b.resource: min(1.0, steps_per_s / b.steps_per_s) for b in bounds(demands, machine, actors)}


def wanted_threads(demands: Demands, machine: Machine, actors: int) -> float | None:
    """CPU threads of this machine that are as busy as its device; None when no device is used."""
    if demands.device_on_cpu:
        return None
    found = {b.resource: b.steps_per_s for b in bounds(demands, machine, actors)}
    if found["device"] == float("inf"):
        return None
    return machine.threads * found["device"] / found["cpu"]


def wanted_ratio(demands: Demands, machine: Machine, actors: int) -> float | None:
    """CPU threads for each SM at which CPU and device are busy alike; None without a device."""
    threads = wanted_threads(demands, machine, actors) if machine.sms and machine.gpus else None
    return None if threads is None else threads / (machine.sms * machine.gpus)


def faster(demands: Demands, what: str, by: float) -> Demands:
    """The workload with one service `by` times as fast: env_step, inference, training."""
    if what == "env_step":
        return dataclasses.replace(
            demands, env_step=dataclasses.replace(demands.env_step, mean=demands.env_step.mean / by)
        )
    if what == "inference":
        parts = {name: getattr(demands, name).times(1 / by) for name in ("host", "reply", "after", "device")}
        return dataclasses.replace(demands, **parts)
    if what == "training":
        return dataclasses.replace(
            demands,
            train_host=dataclasses.replace(demands.train_host, mean=demands.train_host.mean / by),
            train_device=dataclasses.replace(demands.train_device, mean=demands.train_device.mean / by),
        )
    raise ValueError(f"no service {what!r}")
