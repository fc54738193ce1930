"""What the models start from: a sweep's folder or recorded runs, and the machine they were made on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutaway.balance import curve, machine, sweep
from cutaway.balance.calibrate import Calibration
from cutaway.balance.curve import Curve
from cutaway.balance.machine import Machine
from cutaway.balance.simulation import Prediction, predict
from cutaway.balance.sweep import Row
from cutaway.errors import CutawayError
from cutaway.trace.reader import read_run


@dataclass(frozen=True)
class HeldOut:
    """A swept point beside what the model says that was calibrated without it."""

    row: Row
    predicted: Prediction
    calibrated_at: tuple[int, ...]

    @property
    def error(self) -> float:
        return self.predicted.steps_per_s / self.row.steps_per_s - 1


@dataclass(frozen=True)
class Source:
    """Swept rows, recorded runs (None when there are none to calibrate with, and why), the machine of both."""

    rows: list[Row]
    calibration: Calibration | None
    machine: Machine
    why_not: str = ""

    def held_out(self) -> list[HeldOut]:
        """Swept points that were not used to calibrate; when all were, each in turn is left out. Others' CPU use is taken as it was."""
        if self.calibration is None:
            return []
        counts = self.calibration.actors
        rows = [
            r for r in self.rows if r.actors is not None and r.steps_per_s > 0 and r.sm_percent in (None, 100)
        ]
        fresh = [r for r in rows if r.actors not in counts]
        if not fresh and len(counts) < 3:
            return []
        found = []
        for row in fresh or rows:
            assert row.actors is not None
            demands = self.calibration.demands(without=None if fresh else row.actors)
            at = with_cpus(dataclasses.replace(self.machine, foreign=row.foreign_cores), row.cpus)
            found.append(HeldOut(row, predict(demands, at, row.actors), demands.measured_at))
        return found

    def curve(self) -> Curve:
        """The hyperbola through the throughput points, under the bound that CPU time a step and the machine's capacity give."""
        points = {
            r.actors: r.steps_per_s for r in self.rows if r.actors and r.steps_per_s > 0 and r.cpus is None
        }
        points = points or {r.actors: r.steps_per_s for r in self.rows if r.actors and r.steps_per_s > 0}
        least = min((r.cpu_cores / r.steps_per_s for r in self.rows if r.steps_per_s > 0), default=0.0)
        cap = self.machine.capacity(self.machine.threads) / least if least > 0 else float("inf")
        return curve.fit(list(points), list(points.values()), cap=cap)


def with_cpus(machine: Machine, cpus: int | None) -> Machine:
    """The machine as a program sees it that may use so many of its CPUs, physical cores first."""
    if cpus is None or cpus >= machine.threads:
        return machine
    cores = min(machine.cores, cpus)
    second = (cpus - cores) / max(1, machine.threads - machine.cores)
    whole = 1 + (machine.smt_yield - 1) * second
    on = 1 if machine.cores == 1 else 1 - (1 - machine.turbo) * (cores - 1) / (machine.cores - 1)
    return dataclasses.replace(machine, threads=cpus, cores=cores, smt_yield=whole, turbo=on)


def load(paths: Sequence[Path], calibrate: Sequence[int] = (), **fixed: object) -> Source:
    """Reads sweeps and runs. `calibrate`: the numbers of actors to take demands from, all by default; undisturbed runs if there are."""
    rows: list[Row] = []
    recorded: list[Path] = []
    found = machine.here()
    for path in paths:
        if (path / "sweep.json").exists():
            _, points = sweep.load(path)
            rows += sweep.table(points)
            usable = [p for p in points if p.enough and (path / p.setting.name / "run.cutaway").exists()
                      and p.setting.sm_percent in (None, 100)
                      and (not calibrate or p.setting.actors in calibrate)]  # fmt: skip
            clean = [p for p in usable if not p.contaminated] or usable
            recorded += [path / p.setting.name / "run.cutaway" for p in clean]
            if (path / sweep.MACHINE).exists():
                found = machine.load(str(path / sweep.MACHINE))
        else:
            recorded.append(path)
    if not recorded:
        if not rows:
            raise CutawayError(f"{paths[0]} holds nothing measured: finish it with `cutaway balance sweep`.")
        return Source(rows, None, found, "the sweep was not recorded (--metric)")
    found = _with_gpus(found, recorded[0])
    try:
        return Source(rows, Calibration(recorded, found, **fixed), found)
    except CutawayError as error:
        if not rows:
            raise
        return Source(rows, None, found, str(error))


def _with_gpus(machine: Machine, path: Path) -> Machine:
    """The machine with the GPUs that the run saw."""
    devices = {d.get("id"): d for process in read_run(path).processes for d in process.log.devices}
    sms = [int(d["sms"]) for d in devices.values() if isinstance(d.get("sms"), int)]
    if not sms:
        return machine
    name = str(next(iter(devices.values())).get("name", ""))
    return dataclasses.replace(machine, gpus=len(sms), sms=max(sms), gpu=name)
