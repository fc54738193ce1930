"""A trainer as something to replay: actors, a server that answers them in batches, a learner, a device that two of them share.

Each cycle of an actor, each batch and each training step becomes a row of items; how long each lasts is drawn from its mean and variation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway import _simulate
from cutaway.analysis.whatif.items import (
    ANSWER,
    ASK,
    COLLECT,
    DELAY,
    EACH,
    EACH_DELAY,
    GIVE,
    PASS,
    PATIENCE,
    RUN,
    TAKE,
    Items,
)
from cutaway.machines.machine import Machine
from cutaway_balance.demands import Demands, Line, Time

_DEVICE, _ROOM, _UNROLLS, _DESK = range(4)  # channels
_SPARE = 1.5  # what is there to do, over what the run needs: nobody ends early
_WARM_UP = 0.25
_LEARNER_FIRST = (
    DELAY,
    0,
    1e-9,
)  # who is woken looks for a CPU before the server goes on
Step = tuple[int, int, NDArray[np.float64] | float]
"""A kind, a channel, and an amount for each repetition or for all."""


@dataclass(frozen=True)
class Replayed:
    """Environment steps in a second, CPU threads that were busy, and environments in a batch."""

    steps_per_s: float = 0.0
    cpu_busy: float = 0.0
    mean_batch: float = 0.0


def replay(
    demands: Demands, machine: Machine, actors: int, steps: int, seed: int
) -> Replayed:
    """So many environment steps of the workload on a machine, the first quarter of which is not counted."""
    d, machine = demands.on(machine)
    made = _Trainer(d, actors, steps, np.random.default_rng(seed))
    rows = [*(made.actor() for _ in range(actors)), made.server(), made.learner()]
    found = _simulate.replay(
        np.concatenate([row.kinds for row in rows]),
        np.concatenate([row.whats for row in rows]),
        np.concatenate([row.amounts for row in rows]),
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.arange(len(rows), dtype=np.int32),
        np.ones(1),
        made.channels(),
        actors,
        _cpu(machine),
        [*[1] * actors, 0, 0],  # server and learner go before any actor
    )
    return _counted(np.array(found.passes), np.array(found.asked), found, d)


def _cpu(machine: Machine) -> _simulate.Cpu:
    """Whoever has a thread keeps it until it is done, or until somebody goes before it."""
    return _simulate.Cpu(
        machine.threads,
        machine.cores,
        machine.smt_yield,
        slice=math.inf,
        granularity=math.inf,
        wake=machine.wake,
        turbo=machine.turbo,
        foreign=machine.foreign,
    )


def _counted(
    passes: NDArray[np.float64],
    asked: NDArray[np.int64],
    found: _simulate.Replayed,
    d: Demands,
) -> Replayed:
    first = int(_WARM_UP * len(passes))
    if len(passes) - first < 2:
        return Replayed()  # a batch that never fills
    done = (asked[-1] - asked[first]) * d.envs_per_actor
    seconds = float(passes[-1] - passes[first])
    return Replayed(
        float(done) / seconds,
        found.cpu / found.end,
        float(done) / (len(passes) - 1 - first),
    )


class _Trainer:
    def __init__(
        self, d: Demands, actors: int, steps: int, random: np.random.Generator
    ) -> None:
        self.d = d
        self.actors = actors
        self.random = random
        self.asked = max(1, d.batch_for(actors) // d.envs_per_actor)
        self.batches = math.ceil(steps / self.asked / d.envs_per_actor)
        self.unroll = d.envs_per_actor / d.unroll  # of an actor's cycle
        self.wants = d.steps_per_train / d.unroll

    def channels(self) -> list[float]:
        """What they hold at the start. A queue has room for what a training step takes, and for what a batch brings meanwhile."""
        return [1.0, max(self.d.queue, self.wants + self.unroll * self.asked), 0.0, 0.0]

    def actor(self) -> Items:
        """Actors start spread over one step, as they are after a while."""
        d = self.d
        cycles = math.ceil(_SPARE * self.batches * self.asked / self.actors) + 10
        work = self._drawn(d.actor_overhead, cycles)
        for _ in range(d.envs_per_actor):
            work += self._drawn(d.env_step, cycles)
        work[0] *= self.random.uniform(0.05, 1)
        row: list[Step] = [(DELAY, 0, d.latency), (RUN, 0, work)]
        if d.timeout is not None:
            row += self._stored(self.unroll)
        return _repeated([*row, (ASK, _DESK, 1.0)], cycles)

    def _stored(self, unrolls: float) -> list[Step]:
        """The server does it when it has answered, but of batches of any size nobody knows how much: then each actor does."""
        if self.d.steps_per_train <= 0:
            return []
        return [(TAKE, _ROOM, unrolls), (GIVE, _UNROLLS, unrolls), _LEARNER_FIRST]

    def server(self) -> Items:
        d = self.d
        count = self.batches
        patience: list[Step] = []
        stored = self._stored(self.unroll * self.asked)
        if d.timeout is not None:
            patience = [(PATIENCE, _DESK, d.timeout)]
            stored = []
        row: list[Step] = [
            *patience,
            (COLLECT, _DESK, float(self.asked)),
            *self._for_batch(d.host, RUN, EACH),
            *self._on_device(self._for_batch(d.device, DELAY, EACH_DELAY)),
            *self._for_batch(d.reply, RUN, EACH),
            (ANSWER, _DESK, 1.0),
            *self._after(),
            *stored,
            (PASS, 0, 0.0),
        ]
        return _repeated(row, count)

    def learner(self) -> Items:
        d = self.d
        if d.steps_per_train <= 0:
            return Items.of([])
        steps = self.batches * self.asked * d.envs_per_actor
        count = math.ceil(_SPARE * steps / d.steps_per_train) + 10
        slices = max(1, math.ceil(d.train_device.mean / d.slice))
        one = self._drawn(d.train_device, count) / slices
        row: list[Step] = [
            (TAKE, _UNROLLS, self.wants),
            (GIVE, _ROOM, self.wants),
            (RUN, 0, self._drawn(d.train_host, count)),
            *slices * self._on_device([(DELAY, 0, one)]),
        ]
        return _repeated(row, count)

    def _drawn(self, time: Time, count: int) -> NDArray[np.float64]:
        """Log-normal: positive, and skewed to the right as service times are."""
        if time.mean <= 0 or time.cv <= 0:
            return np.full(count, time.mean)
        variance = math.log1p(time.cv**2)
        mean = math.log(time.mean) - variance / 2
        return self.random.lognormal(mean, math.sqrt(variance), count)

    def _for_batch(self, line: Line, whole: int, each: int) -> list[Step]:
        """What a batch of any size takes, then what it takes for each request."""
        cv = self.d.inference_cv
        count = self.batches
        times = self._drawn(Time(1.0, cv), count)
        return [
            (whole, 0, line.a * times),
            (each, 0, line.b * self.d.envs_per_actor * times),
        ]

    def _after(self) -> list[Step]:
        """Those who were answered step already, so the size of the batch is that of a full one."""
        seconds = self.d.after(self.asked * self.d.envs_per_actor)
        times = self._drawn(Time(seconds, self.d.inference_cv), self.batches)
        return [(RUN, 0, times)]

    def _on_device(self, work: Sequence[Step]) -> list[Step]:
        """One after the other, in the order in which they come; or on the CPU itself."""
        if self.d.device_on_cpu:
            on_cpu = {DELAY: RUN, EACH_DELAY: EACH}
            return [(on_cpu[kind], what, amount) for kind, what, amount in work]
        return [(TAKE, _DEVICE, 1.0), *work, (GIVE, _DEVICE, 1.0)]


def _repeated(row: Sequence[Step], count: int) -> Items:
    kinds = np.array([kind for kind, _, _ in row], np.uint8)
    whats = np.array([what for _, what, _ in row], np.uint32)
    amounts = np.empty((count, len(row)))
    for column, (_, _, amount) in enumerate(row):
        amounts[:, column] = amount
    return Items(np.tile(kinds, count), np.tile(whats, count), amounts.reshape(-1))
