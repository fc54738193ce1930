"""What predictions start from: a grid's folder or recorded runs, and the machine they were made on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from cutaway.errors import CutawayError
from cutaway.machines import machine
from cutaway.machines.machine import Machine
from cutaway.trace.reader import Trace
from cutaway_balance import grid, probe
from cutaway_balance.curve import Curve, fit
from cutaway_balance.grid import Row
from cutaway_balance.model import Prediction, Predictor
from cutaway_balance.observe import observe
from cutaway_balance.point import Measured
from cutaway_balance.recorded import Recorded, Replays
from cutaway_balance.trainer import Trainer


@dataclass(frozen=True)
class HeldOut:
    """A measured point beside what the model says without having seen it."""

    row: Row
    predicted: Prediction
    measured_at: tuple[int, ...]

    @property
    def error(self) -> float:
        """Predicted ÷ measured − 1."""
        return self.predicted.steps_per_s / self.row.steps_per_s - 1


@dataclass(frozen=True)
class Source:
    """Measured rows, who answers for other numbers of actors (nobody: points only, and why), and the machine of both."""

    rows: list[Row]
    machine: Machine
    predictor: Predictor | None = None
    why_not: str = ""
    only: tuple[int, ...] = ()  # numbers of actors to take figures from; all if empty

    def held_out(self) -> list[HeldOut]:
        """Points that nothing was taken from; when there is none, each in turn is left out. Others' CPU use is taken as it was."""
        known = self.predictor
        if known is None:
            return []
        counts = {*known.measured_at}
        rows = [
            r
            for r in self.rows
            if r.actors and r.steps_per_s > 0 and r.sm_percent in (None, 100)
        ]
        fresh = [r for r in rows if r.actors not in counts]
        if not fresh and len(counts) < 3:
            return []
        found = []
        for row in fresh or rows:
            actors = row.actors or 1
            if fresh:
                by = known
            else:
                by = known.without(actors)
            at = replace(self.machine, foreign=row.foreign_cores).limited_to(row.cpus)
            try:
                found.append(
                    HeldOut(row, by.predict(actors, by.meant(at)), by.measured_at)
                )
            except CutawayError:
                continue  # that the others cannot predict
        return found

    def points(self, every: bool = False) -> dict[int, float]:
        """Steps a second by number of actors: those to take figures from, or `every` measured one."""
        rows = [r for r in self.rows if r.actors and r.steps_per_s > 0]
        rows = [r for r in rows if r.cpus is None] or rows
        kept = [r for r in rows if every or not self.only or r.actors in self.only]
        return {
            r.actors or 0: r.steps_per_s
            for r in sorted(kept, key=lambda r: r.actors or 0)
        }

    def curve(self, without: int | None = None) -> Curve:
        """The hyperbola through the throughput points, under the bound that CPU time a step and the machine's capacity give."""
        points = {
            actors: rate for actors, rate in self.points().items() if actors != without
        }
        least = min(
            (r.cpu_cores / r.steps_per_s for r in self.rows if r.steps_per_s > 0),
            default=0.0,
        )
        if least > 0:
            cap = self.machine.capacity(self.machine.threads) / least
        else:
            cap = float("inf")
        return fit(list(points), list(points.values()), cap=cap)

    def curve_errors(self) -> dict[int, float]:
        """Predicted ÷ measured − 1 at points the curve has not seen: those left out with `only`, else each in turn."""
        used = self.points()
        every = self.points(every=True)
        fresh = [actors for actors in every if actors not in used]
        if not fresh and len(used) < 3:
            return {}
        curves = {
            actors: self.curve(without=None if fresh else actors)
            for actors in fresh or used
        }
        return {
            actors: curve(actors) / every[actors] - 1
            for actors, curve in curves.items()
        }


def load(paths: Sequence[Path], only: Sequence[int] = (), **fixed: object) -> Source:
    """Reads grids and runs. `only`: the numbers of actors to take figures from, all by default; undisturbed runs if there are.
    `fixed`: what is known better than a recording can say (batch, timeout)."""
    rows = list[Row]()
    recorded = list[Recorded]()
    found = probe.here()
    for path in paths:
        if not (path / grid.FILE).exists():
            recorded.append(Recorded(path))
            continue
        points = grid.load(path)
        rows += grid.table(points)
        recorded += _recorded(points, path, only)
        if (path / grid.MACHINE).exists():
            found = machine.load(str(path / grid.MACHINE))
    if not recorded:
        why = "the points were not recorded (--metric)"
        return Source(rows, found, why_not=why, only=tuple(only))
    found = _with_devices(found, recorded[0].trace)
    known = {k: v for k, v in fixed.items() if v is not None}
    try:
        predictor = _predictor(recorded, known, found)
    except CutawayError as error:
        if not rows:
            raise
        return Source(rows, found, None, str(error), tuple(only))
    return Source(rows, found, predictor, "", tuple(only))


def _recorded(
    points: Sequence[Measured], folder: Path, only: Sequence[int]
) -> list[Recorded]:
    """The recorded runs of a grid that figures may be taken from."""
    usable = []
    for p in points:
        run = folder / p.setting.name / "run.cutaway"
        wanted = not only or p.setting.actors in only
        whole = p.enough and p.setting.sm_percent in (None, 100)
        if wanted and whole and run.exists():
            usable.append((p, Recorded(run, p.setting.actors, p.steps_per_s)))
    quiet = [run for p, run in usable if not p.contaminated]
    return quiet or [run for _, run in usable]


def _with_devices(found: Machine, trace: Trace) -> Machine:
    logged = chain.from_iterable(process.log.devices for process in trace.processes)
    devices = {device.get("id"): device for device in logged}
    sms = [int(d["sms"]) for d in devices.values() if isinstance(d.get("sms"), int)]
    if not sms:
        return found
    name = str(next(iter(devices.values())).get("name", ""))
    return replace(found, gpus=len(sms), sms=max(sms), gpu=name)


def _predictor(
    recorded: Sequence[Recorded], fixed: dict[str, Any], found: Machine
) -> Predictor:
    """Where every service of a trainer was measured, by their costs; any other program by replaying its runs."""
    known = {**described(recorded[0].trace), **fixed}
    try:
        seen = [observe(one.path) for one in recorded]
    except CutawayError:
        return Replays(recorded).checked()
    if known.get("burns_time"):
        feels = found.unshared()
    else:
        feels = found
    return Trainer([o.alone(feels) for o in seen], known, found)


def described(trace: Trace) -> dict[str, Any]:
    """How requests are batched and unrolls queued, as far as the program said with `cutaway.describe`."""
    facts = trace.facts
    names = ("batch", "unroll", "queue", "burns_time")
    known: dict[str, Any] = {name: facts[name] for name in names if name in facts}
    if "steps_per_update" in facts:
        known["steps_per_train"] = float(facts["steps_per_update"])
    if "batch_timeout_us" in facts:
        timeout = facts["batch_timeout_us"]
        if timeout is None:
            known["timeout"] = None
        else:
            known["timeout"] = 1e-6 * float(timeout)
    if facts.get("preemptive") is False:  # the device finishes what it began
        known["slice"] = float("inf")
    return known
