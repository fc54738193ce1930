"""Service demands: what one environment step, one inference batch and one training step cost. Measured, never fitted to throughput."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutaway.balance.machine import Machine
from cutaway.errors import CutawayError


@dataclass(frozen=True)
class Time:
    """Seconds of one service: mean, coefficient of variation, and the relative standard error of the mean."""

    mean: float = 0.0
    cv: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class Line:
    """Seconds as a + b·n for a batch of n environments."""

    a: float = 0.0
    b: float = 0.0

    def __call__(self, n: float) -> float:
        return self.a + self.b * n

    def times(self, factor: float) -> Line:
        return Line(self.a * factor, self.b * factor)


@dataclass(frozen=True)
class Demands:
    """A workload, apart from the machine it runs on.

    `batch` is a number of environments, or `seed`: max(environments of an actor, all environments // 2), waiting for a
    full batch. `timeout` (seconds) makes the batch rule dynamic. The server's CPU for a batch comes in three parts: `host` before the
    device works, `reply` from then until the actors are answered, `after` while they already step. `latency` is the part of a round
    trip that uses no resource: network, wake-ups. `steps_per_train` is how many environment steps one training step consumes; 0 without
    a learner. `slice` is after how many seconds of training the device lets inference in (infinite: never). `device_on_cpu`:
    inference and training compute on the CPU itself. `burns_time`: the environment burns CPU time, not work, as our synthetic one does;
    clock and siblings do not change it.
    """

    env_step: Time
    actor_overhead: Time = Time()
    host: Line = Line()
    reply: Line = Line()
    after: Line = Line()
    device: Line = Line()
    inference_cv: float = 0.0
    inference_error: float = 0.0
    latency: float = 0.0
    train_host: Time = Time()
    train_device: Time = Time()
    steps_per_train: float = 0.0
    envs_per_actor: int = 1
    batch: int | str = "seed"
    timeout: float | None = None
    unroll: int = 100
    queue: int = 100
    slice: float = 1e-3
    device_on_cpu: bool = False
    burns_time: bool = False
    measured_at: tuple[int, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def batch_for(self, actors: int) -> int:
        """Environments in a full batch.

        >>> Demands(Time(1e-3)).batch_for(40)
        20
        """
        if isinstance(self.batch, int):
            return max(1, min(self.batch, actors * self.envs_per_actor))
        return max(self.envs_per_actor, actors * self.envs_per_actor // 2)

    def scaled(self, cpu: float = 1.0, device: float = 1.0) -> Demands:
        """The same workload on a CPU `cpu` times and a device `device` times as fast."""
        if self.device_on_cpu:
            device = cpu
        return dataclasses.replace(
            self,
            env_step=_divide(self.env_step, cpu),
            actor_overhead=_divide(self.actor_overhead, cpu),
            host=self.host.times(1 / cpu),
            reply=self.reply.times(1 / cpu),
            after=self.after.times(1 / cpu),
            device=self.device.times(1 / device),
            train_host=_divide(self.train_host, cpu),
            train_device=_divide(self.train_device, device),
        )

    def on(self, machine: Machine) -> Machine:
        """The machine as this workload feels it."""
        if not self.burns_time:
            return machine
        return dataclasses.replace(machine, turbo=1.0, smt_yield=machine.threads / machine.cores)

    def server(self, n: float) -> float:
        """CPU seconds of the server for a batch of n."""
        return self.host(n) + self.reply(n) + self.after(n)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")


def _divide(time: Time, by: float) -> Time:
    return dataclasses.replace(time, mean=time.mean / by)


def load(path: Path) -> Demands:
    """Demands written by `save`, or by hand."""
    try:
        return _from(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CutawayError(f"{path} does not hold service demands: {error}.") from error


def _from(values: dict[str, Any]) -> Demands:
    known: dict[str, Any] = dict(values)
    for kind, keys in (
        (Time, ("env_step", "actor_overhead", "train_host", "train_device")),
        (Line, ("host", "reply", "after", "device")),
    ):
        known |= {key: kind(**values[key]) for key in keys if key in values}
    known |= {key: tuple(values[key]) for key in ("measured_at", "notes") if key in values}
    return Demands(**known)
