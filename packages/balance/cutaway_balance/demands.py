"""Service demands: what one environment step, one inference batch and one training step cost. Measured, never fitted to throughput.

`Observed` is what one recorded run shows; `combine` makes one set of `Demands` from several runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutaway.machines.machine import Machine

LINES = ("host", "reply", "after", "device")


@dataclass(frozen=True)
class Time:
    """Seconds of one service: mean, coefficient of variation, and the relative standard error of the mean."""

    mean: float = 0.0
    cv: float = 0.0
    error: float = 0.0

    def times(self, factor: float) -> Time:
        return dataclasses.replace(self, mean=self.mean * factor)


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

    def alone(self, machine: Machine) -> Observed:
        """The same in seconds of a thread that runs alone: these were counted while `busy` cores shared clock and siblings.
        Waking CPUs is left to the simulation, so it is taken off the latency of a round trip, which has two wake-ups."""
        busy = max(1.0, self.busy)
        quiet = dataclasses.replace(machine, foreign=0.0)
        speed = quiet.capacity(busy) / min(busy, machine.threads)
        s = self.server
        return dataclasses.replace(
            self,
            **{
                name: getattr(self, name).times(speed)
                for name in ("env_step", "overhead", "train_host")
            },
            server=Server(s.host * speed, s.reply * speed, s.after * speed, s.device),
            latency=max(0.0, self.latency - 2 * machine.wake),
        )


@dataclass(frozen=True)
class Demands:
    """A workload, apart from the machine it runs on.

    `batch` is a number of environments, or `seed`: max(environments of an actor, all environments // 2), waiting for a
    full batch. `timeout` (seconds) makes the batch rule dynamic. The server's CPU for a batch comes in three parts: `host` before the
    device works, `reply` from then until the actors are answered, `after` while they already step. `latency` is the part of a round
    trip that uses no resource. `steps_per_train` is how many environment steps one training step consumes; 0 without
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
    notes: tuple[str, ...] = ()

    def batch_for(self, actors: int) -> int:
        """Environments in a full batch.

        >>> Demands(Time(1e-3)).batch_for(40)
        20
        """
        if isinstance(self.batch, int):
            return max(1, min(self.batch, actors * self.envs_per_actor))
        return max(self.envs_per_actor, actors * self.envs_per_actor // 2)

    def times(self, **factors: float) -> Demands:
        """The same workload with some of its services longer by a factor.

        >>> Demands(Time(1e-3)).times(env_step=0.5).env_step.mean
        0.0005
        """
        return dataclasses.replace(
            self, **{name: getattr(self, name).times(f) for name, f in factors.items()}
        )

    def on(self, machine: Machine) -> tuple[Demands, Machine]:
        """The workload at the speed of a machine, and the machine as this workload feels it."""
        cpu = 1 / machine.cpu_speed
        if self.device_on_cpu:
            device = cpu
        else:
            device = 1 / machine.gpu_speed
        on_cpu = dict.fromkeys(
            ("env_step", "actor_overhead", "host", "reply", "after", "train_host"), cpu
        )
        scaled = self.times(**on_cpu, device=device, train_device=device)
        return scaled, machine.unshared() if self.burns_time else machine

    def server(self, n: float) -> float:
        """CPU seconds of the server for a batch of n."""
        return self.host(n) + self.reply(n) + self.after(n)


def combine(seen: Sequence[Observed], known: dict[str, Any]) -> Demands:
    """One set of demands from several runs; `known` goes before what they show."""
    counts = sorted({o.actors for o in seen})
    seen = [_of_actors(seen, count) for count in counts]
    learning = [o for o in seen if o.steps_per_train]
    sizes = [o.batch for o in seen]
    lines = {}
    for name in LINES:
        seconds = [getattr(o.server, name) for o in seen]
        lines[name] = _line(sizes, seconds)
    off = [_off_its_lines(o, lines.values()) for o in seen]
    notes = []
    if len({round(n) for n in sizes}) < 2:
        notes.append(
            "only one batch size was measured; its cost is assumed to be constant"
        )
    if (foreign := max(o.foreign for o in seen)) > 0.1:
        notes.append(
            f"other programs used up to {foreign:.1f} cores during the measurement"
        )
    per_train = 0.0
    if learning:
        per_train = float(np.mean([o.steps_per_train for o in learning]))
    values: dict[str, Any] = {
        "env_step": _pooled([o.env_step for o in seen]),
        "actor_overhead": _pooled([o.overhead for o in seen]),
        **lines,
        "inference_error": float(np.sqrt(np.mean(np.square(off)))),
        "latency": min(o.latency for o in seen),  # where the fewest compete for a core
        "train_host": _pooled([o.train_host for o in learning]),
        "train_device": _pooled([o.train_device for o in learning]),
        "steps_per_train": per_train,
        "envs_per_actor": seen[0].envs_per_actor,
        "measured_at": tuple(counts),
        "notes": tuple(notes),
        "batch": _batch_rule(seen),
    }
    return Demands(**{**values, **known})


def _of_actors(seen: Sequence[Observed], count: int) -> Observed:
    """What the runs with so many actors show together."""
    found: Observed = _typical([o for o in seen if o.actors == count])
    return found


def _off_its_lines(one: Observed, lines: Iterable[Line]) -> float:
    """How far the lines are from what batches of this size took, as a share."""
    took = float(sum(dataclasses.astuple(one.server)))
    if took <= 0:
        return 0.0
    return sum(line(one.batch) for line in lines) / took - 1


def _batch_rule(seen: Sequence[Observed]) -> int | str:
    """SEED's rule (half of all environments, at least those of an actor) if every batch kept to it; else the largest."""
    for one in seen:
        seed = max(one.envs_per_actor, one.actors * one.envs_per_actor // 2)
        if abs(one.batch / seed - 1) >= 0.05:
            return max(1, round(max(o.batch for o in seen)))
    return "seed"


def typical(values: Sequence[float]) -> tuple[float, float]:
    """The median of repeated measurements, and its standard error from the median distance to it: one disturbed run moves neither.

    >>> value, error = typical([100.0, 101.0, 99.0, 10.0])
    >>> value, round(error, 2)
    (99.5, 0.74)
    """
    middle = float(np.median(values))
    spread = 1.4826 * float(
        np.median(np.abs(np.asarray(values) - middle))
    )  # a normal's standard deviation
    return middle, spread / len(values) ** 0.5


def _typical(values: Sequence[Any]) -> Any:
    """What is typical in each field of repeated runs."""
    first = values[0]
    if len(values) == 1:
        return first
    if isinstance(first, Time):
        mean, error = typical([t.mean for t in values])
        errors = [t.error for t in values]
        return Time(
            mean,
            typical([t.cv for t in values])[0],
            max(error / mean if mean > 0 else 0.0, *errors),
        )
    if isinstance(first, Observed | Server):
        names = [f.name for f in dataclasses.fields(first)]
        return type(first)(
            *(_typical([getattr(v, name) for v in values]) for name in names)
        )
    return type(first)(typical(values)[0])


def _pooled(times: Sequence[Time]) -> Time:
    """One time from several runs; what they disagree by is its error."""
    if not times:
        return Time()
    means, cvs, errors = np.array([dataclasses.astuple(t) for t in times]).T
    mean = float(np.mean(means))
    scatter = 0.0
    if len(times) > 1 and mean > 0:
        scatter = float(np.std(means, ddof=1) / mean / np.sqrt(len(times)))
    return Time(mean, float(np.mean(cvs)), max(scatter, float(np.max(errors))))


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """a + b·n with a, b ≥ 0; constant where only one size was seen."""
    n = np.asarray(sizes)
    y = np.asarray(seconds)
    if len(np.unique(np.round(n))) > 1:
        b, a = np.polyfit(n, y, 1)
    else:
        b = -1.0
        a = 0.0
    if b < 0:
        return Line(float(np.mean(y)), 0.0)
    if a < 0:
        return Line(0.0, float(np.sum(n * y) / np.sum(n * n)))
    return Line(float(a), float(b))
