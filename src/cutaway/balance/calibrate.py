"""From recorded runs to one set of service demands: a batch as a + b·n, one time from several runs, how the program is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.balance.demands import Demands, Line, Time
from cutaway.balance.machine import Machine
from cutaway.balance.measure import Observed, Server, observe
from cutaway.balance.repeats import typical
from cutaway.trace.reader import read_run


class Calibration:
    """Recorded runs of one program, best with different numbers of actors: the cost of a batch as a + b·n needs two sizes.

    `machine` is the one the runs were made on: CPU seconds of a busy machine are turned into those of a thread running alone.
    `fixed` is what is known better than a recording can tell (batch, timeout).
    """

    def __init__(self, paths: Sequence[Path], machine: Machine | None = None, **fixed: object) -> None:
        self._known = _described(paths[0])
        self._fixed = {k: v for k, v in fixed.items() if v is not None}
        alone = None if self._known.get("burns_time") else machine
        self.seen = sorted((_alone(observe(path), alone) for path in paths), key=lambda o: o.actors)

    @property
    def actors(self) -> list[int]:
        return sorted({o.actors for o in self.seen})

    def demands(self, without: int | None = None) -> Demands:
        """Demands from all runs, or from those with another number of actors than `without`."""
        return combine([o for o in self.seen if o.actors != without], {**self._known, **self._fixed})


def demands(paths: Sequence[Path], machine: Machine | None = None, **fixed: object) -> Demands:
    """Demands from one or more runs."""
    return Calibration(paths, machine, **fixed).demands()


def combine(seen: Sequence[Observed], known: dict[str, Any]) -> Demands:
    """One set of demands from several runs; `known` goes before what they show."""
    seen = [_one([o for o in seen if o.actors == n]) for n in sorted({o.actors for o in seen})]
    learning = [o for o in seen if o.steps_per_train]
    sizes = [o.batch for o in seen]
    lines = {
        name: _line(sizes, [getattr(o.server, name) for o in seen])
        for name in ("host", "reply", "after", "device")
    }
    values: dict[str, Any] = {
        "env_step": _mean([o.env_step for o in seen]),
        "actor_overhead": _mean([o.overhead for o in seen]),
        **lines,
        "inference_error": _misfit(sizes, seen, lines),
        "latency": min(o.latency for o in seen),  # where the fewest compete for a core
        "train_host": _mean([o.train_host for o in learning]),
        "train_device": _mean([o.train_device for o in learning]),
        "steps_per_train": float(np.mean([o.steps_per_train for o in learning])) if learning else 0.0,
        "envs_per_actor": seen[0].envs_per_actor,
        "measured_at": tuple(o.actors for o in seen),
        "notes": _notes(seen),
        **({} if "batch" in known else _batch_rule(seen)),
        **known,
    }
    return Demands(**values)


def _alone(seen: Observed, machine: Machine | None) -> Observed:
    """CPU seconds were counted while `busy` cores shared clock and siblings; in seconds of a thread alone they are fewer."""
    busy = max(1.0, seen.busy)
    speed = 1.0 if machine is None else dataclasses.replace(machine, foreign=0.0).capacity(busy) / min(
        busy, machine.threads
    )  # fmt: skip

    def scaled(time: Time) -> Time:
        return dataclasses.replace(time, mean=time.mean * speed)

    s = seen.server
    return dataclasses.replace(
        seen,
        env_step=scaled(seen.env_step),
        overhead=scaled(seen.overhead),
        train_host=scaled(seen.train_host),
        server=Server(s.host * speed, s.reply * speed, s.after * speed, s.device),
    )


def _one(runs: Sequence[Observed]) -> Observed:
    """Repetitions with the same number of actors as one run."""
    return runs[0] if len(runs) == 1 else _fields(runs)


def _fields(values: Sequence[Any]) -> Any:
    """What is typical in each field."""
    first = values[0]
    if isinstance(first, Time):
        mean, error = typical([t.mean for t in values])
        errors = [t.error for t in values]
        return Time(mean, typical([t.cv for t in values])[0], max(error / mean if mean > 0 else 0.0, *errors))
    if isinstance(first, Observed | Server):
        names = [f.name for f in dataclasses.fields(first)]
        return type(first)(*(_fields([getattr(v, name) for v in values]) for name in names))
    return type(first)(typical(values)[0])


def _batch_rule(seen: Sequence[Observed]) -> dict[str, Any]:
    """How requests are batched, from what the batches look like."""
    sizes = [(o.batch, o.actors * o.envs_per_actor, o.envs_per_actor) for o in seen]
    if all(abs(b / max(per, envs // 2) - 1) < 0.05 for b, envs, per in sizes):
        return {"batch": "seed"}
    return {"batch": max(1, round(max(b for b, _, _ in sizes)))}


def _described(path: Path) -> dict[str, Any]:
    """How requests are batched and unrolls queued, as far as the program said with `cutaway.describe`."""
    facts = read_run(path).facts
    known: dict[str, Any] = {
        name: facts[name] for name in ("batch", "unroll", "queue", "burns_time") if name in facts
    }
    if "steps_per_update" in facts:
        known["steps_per_train"] = float(facts["steps_per_update"])
    if "batch_timeout_us" in facts:
        timeout = facts["batch_timeout_us"]
        known["timeout"] = None if timeout is None else 1e-6 * float(timeout)
    if facts.get("preemptive") is False:  # the device finishes what it began
        known["slice"] = float("inf")
    return known


def _notes(seen: Sequence[Observed]) -> tuple[str, ...]:
    notes = []
    if len({round(o.batch) for o in seen}) < 2:
        notes.append("one batch size only: its cost is taken as constant")
    foreign = max(o.foreign for o in seen)
    if foreign > 0.1:
        notes.append(f"others used up to {foreign:.1f} cores while this was measured")
    return tuple(notes)


def _mean(times: Sequence[Time]) -> Time:
    """One time from several runs; what they disagree by is its error."""
    if not times:
        return Time()
    means = np.array([t.mean for t in times])
    scatter = (
        float(np.std(means, ddof=1) / np.mean(means) / np.sqrt(len(means)))
        if len(means) > 1 and np.mean(means) > 0
        else 0.0
    )
    return Time(
        float(np.mean(means)),
        float(np.mean([t.cv for t in times])),
        max(scatter, *(t.error for t in times), 0.0),
    )


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """a + b·n with a, b ≥ 0; constant where only one size was seen."""
    n, y = np.asarray(sizes), np.asarray(seconds)
    if len(np.unique(np.round(n))) < 2:
        return Line(float(np.mean(y)), 0.0)
    b, a = np.polyfit(n, y, 1)
    if b < 0:
        return Line(float(np.mean(y)), 0.0)
    if a < 0:
        return Line(0.0, float(np.sum(n * y) / np.sum(n * n)))
    return Line(float(a), float(b))


def _misfit(sizes: Sequence[float], seen: Sequence[Observed], lines: dict[str, Line]) -> float:
    """How far the measured batches lie from their lines, relative."""
    off = []
    for n, o in zip(sizes, seen, strict=True):
        whole = sum(getattr(o.server, name) for name in lines)
        off.append(sum(line(n) for line in lines.values()) / whole - 1 if whole > 0 else 0.0)
    return float(np.sqrt(np.mean(np.square(off)))) if off else 0.0
