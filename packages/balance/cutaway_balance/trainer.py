"""A trainer with actors, an inference server and a learner as a predictor: by what each of its services costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutaway.machines.machine import Machine
from cutaway_balance import model
from cutaway_balance.demands import LINES, Demands, Line, Observed, combine
from cutaway_balance.model import Bound, Prediction


class Trainer:
    """`seen`: what each run cost; `known` goes before that; `machine`: that of the measurements."""

    def __init__(
        self, seen: Sequence[Observed], known: dict[str, Any], machine: Machine
    ) -> None:
        self.seen = seen
        self.known = known
        self.machine = machine
        self.demands = combine(seen, known)

    @property
    def measured_at(self) -> tuple[int, ...]:
        return self.demands.measured_at

    def without(self, actors: int) -> Trainer:
        """By the others, to hold one number of actors out."""
        others = [one for one in self.seen if one.actors != actors]
        return Trainer(others, self.known, self.machine)

    def meant(self, machine: Machine) -> Machine | None:
        """The machine of the measurements, as it was when a point was measured."""
        return machine

    def predict(
        self, actors: int, machine: Machine | None = None, sure: bool = True
    ) -> Prediction:
        """`sure`: with an interval."""
        at = machine or self.machine
        return model.predict(self.demands, at, actors, draws=8 if sure else 0)

    def bounds(self, actors: int, machine: Machine | None = None) -> list[Bound]:
        """What each resource alone would allow."""
        return model.bounds(self.demands, machine or self.machine, actors)

    def gains(self, actors: int, machine: Machine | None = None) -> dict[str, float]:
        """Small changes and what they gain, in per cent of throughput, best first."""
        d = self.demands
        at = machine or self.machine
        training = ("train_host", "train_device")
        changes = {
            "one more CPU thread": (d, at.wider(), actors),
            "one more actor": (d, at, actors + 1),
            "an environment 10 % faster": (_faster(d, "env_step"), at, actors),
            "inference 10 % faster": (_faster(d, *LINES), at, actors),
        }
        if d.steps_per_train:
            changes["training 10 % faster"] = _faster(d, *training), at, actors
        base = model.predict(d, at, actors, draws=0).steps_per_s
        found: dict[str, float] = {}
        for what, to in changes.items():
            rate = model.predict(*to, draws=0).steps_per_s
            found[what] = 100 * (rate / base - 1)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def wanted_threads(
        self, actors: int, machine: Machine | None = None
    ) -> float | None:
        """CPU threads that are as busy as the device."""
        return model.wanted_threads(self.demands, machine or self.machine, actors)

    def rests_on(self) -> list[str]:
        """The costs, for people."""
        return _rests_on(self.demands)


def _faster(demands: Demands, *services: str) -> Demands:
    return demands.times(**dict.fromkeys(services, 1 / 1.1))


def _rests_on(d: Demands) -> list[str]:
    def us(seconds: float) -> str:
        if seconds >= 1e-2:
            return f"{1e3 * seconds:,.1f} ms"
        return f"{1e6 * seconds:,.0f} µs"

    def line(line: Line) -> str:
        return f"{1e6 * line.a:,.0f} + {1e6 * line.b:,.1f}·n µs"

    at = ", ".join(map(str, d.measured_at))
    every = f"every {d.steps_per_train:,.0f} steps"
    training = f"{us(d.train_host.mean)} CPU, {us(d.train_device.mean)} device, {every}"
    if d.batch == "seed":
        rule = "max(envs of an actor, all // 2)"
    else:
        rule = str(d.batch)
    if d.timeout is None:
        wait = "until full"
    else:
        wait = f"at most {us(d.timeout)}"
    return [
        f"measured at {at} actors" if at else "given",
        f"  environment step       {us(d.env_step.mean)} CPU",
        f"  rest of the actor      {us(d.actor_overhead.mean)} CPU a request",
        f"  inference, CPU         {line(d.host)} before the device,",
        f"                         {line(d.reply)} to answer, {line(d.after)} after",
        f"  inference, device      {line(d.device)}",
        f"  wake-ups, no CPU       {us(d.latency)} a round trip",
        *([f"  training               {training}"] if d.steps_per_train else []),
        f"  batch                  {rule}, waits {wait}",
        *(f"  note: {n}" for n in d.notes),
    ]
