"""A sweep: the grid of settings, resumable, contaminated points repeated; its folder and its table."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.balance import cgroup, limits, machine, point, probe
from cutaway.balance.point import Measured, Setting
from cutaway.balance.repeats import typical
from cutaway.errors import CutawayError

RETRIES = 2
MACHINE = "machine.toml"


@dataclass(frozen=True)
class Plan:
    """What to sweep. Empty sequences: not varied."""

    command: tuple[str, ...]
    actors: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    sm_percent: tuple[int, ...] = ()
    repeat: int = 3
    metric: str | None = None
    seconds: float | None = None
    limit_by: str = "affinity"

    def settings(self) -> list[Setting]:
        """Every point, repeats in random order so that slow drift of the machine does not look like an effect."""
        axes: list[tuple[int | None, ...]] = [
            axis or (None,) for axis in (self.actors, self.cpus, self.sm_percent)
        ]
        grid = [Setting(a, c, s, r) for r in range(self.repeat) for a, c, s in itertools.product(*axes)]
        ordered = []
        for r in range(self.repeat):
            group = [s for s in grid if s.repeat == r]
            random.Random(r).shuffle(group)
            ordered += group
        return ordered

    def check(self) -> None:
        """Whatever would fail later fails now, in one sentence."""
        for setting in self.settings():
            limits.choose_cpus(setting.cpus)
            limits.sm_environment(setting.sm_percent)
            point.command_for(list(self.command), setting)
        if self.limit_by == "cgroup" and self.cpus and (reason := cgroup.works()):
            raise CutawayError(reason)


def run(plan: Plan, folder: Path, tell: Callable[[int, int, Measured], None]) -> list[Measured]:
    """Measures what is missing in `folder`; `tell(done, all, point)` after each."""
    plan.check()
    _keep_plan(plan, folder)
    if not (folder / MACHINE).exists():
        machine.save(probe.machine(probe.probe()), folder / MACHINE)
    settings = plan.settings()
    results = []
    for number, setting in enumerate(settings, 1):
        place = folder / setting.name
        result = _stored(place) or _measure(plan, setting, place)
        results.append(result)
        if len(results) >= min(2, len(settings)) and all(r.exit for r in results):
            raise CutawayError(f"Every point failed so far: {result.note}.")
        tell(number, len(settings), result)
    return results


def _stored(place: Path) -> Measured | None:
    """What was measured before; a point that failed is tried again."""
    path = place / "point.json"
    known = point.load(path) if path.exists() else None
    return known if known is not None and known.exit == 0 else None


def _keep_plan(plan: Plan, folder: Path) -> None:
    text = json.dumps(dataclasses.asdict(plan), indent=1)
    path = folder / "sweep.json"
    if path.exists() and json.loads(path.read_text())["command"] != list(plan.command):
        raise CutawayError(f"{folder} holds a sweep of another command: choose another folder with -o.")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def _measure(plan: Plan, setting: Setting, place: Path) -> Measured:
    """A point; repeated when others used the machine meanwhile, and the least disturbed try kept."""
    tries = []
    for attempt in range(1 + RETRIES):
        here = place if attempt == 0 else place.with_name(f"{place.name}-again{attempt}")
        tries.append((_try(plan, setting, here), here))
        if not tries[-1][0].contaminated or tries[-1][0].exit:
            break
    best, where = min(tries, key=lambda t: (not t[0].enough, t[0].foreign_cores))
    for _, other in tries:
        if other != where:
            shutil.rmtree(other)
    if where != place:
        where.rename(place)
    return best


def _try(plan: Plan, setting: Setting, place: Path) -> Measured:
    if place.exists():  # what an interrupted sweep left
        shutil.rmtree(place)
    return point.measure(list(plan.command), setting, place, plan.metric, plan.seconds, plan.limit_by)


def load(folder: Path) -> tuple[Plan, list[Measured]]:
    """A sweep measured before, whole or in part."""
    try:
        values = json.loads((folder / "sweep.json").read_text())
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        plan = Plan(**fields)
        points = [
            point.load(folder / s.name / "point.json")
            for s in plan.settings()
            if (folder / s.name / "point.json").exists()
        ]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CutawayError(
            f"{folder} is not a sweep ({error}): make one with `cutaway balance sweep`."
        ) from error
    if not points:
        raise CutawayError(f"{folder} holds no measured point yet: finish it with `cutaway balance sweep`.")
    return plan, points


@dataclass(frozen=True)
class Row:
    """Repeats of one setting together: mean and 95 % interval; `marks` says what is wrong with it."""

    actors: int | None
    cpus: int | None
    sm_percent: int | None
    steps_per_s: float
    low: float
    high: float
    points: int
    cpu_cores: float
    foreign_cores: float
    gpu_w: float | None
    cpu_w: float | None
    steps_per_j: float | None
    marks: str


def table(points: Sequence[Measured]) -> list[Row]:
    """One row a setting, in order."""
    groups: dict[tuple[int, ...], list[Measured]] = {}
    for p in points:
        key = tuple(-1 if v is None else v for v in (p.setting.actors, p.setting.cpus, p.setting.sm_percent))
        groups.setdefault(key, []).append(p)
    return [_row(groups[key]) for key in sorted(groups)]


def _row(points: list[Measured]) -> Row:
    good = [p for p in points if p.enough] or points
    rates = [p.steps_per_s for p in good]
    rate, error = typical(rates)
    half = _T95[min(len(rates), 10)] * error if len(rates) > 1 else (good[0].high - good[0].low) / 2
    gpu, cpu = _known([p.gpu_w for p in good]), _known([p.cpu_w for p in good])
    watts = (gpu or 0.0) + (cpu or 0.0)
    s = points[0].setting
    marks = [
        word
        for word, wrong in (
            ("contaminated", any(p.contaminated for p in good)),
            ("not steady", not good[0].enough),
        )
        if wrong
    ]
    return Row(
        s.actors, s.cpus, s.sm_percent, rate, max(0.0, rate - half), rate + half, len(good),
        float(np.mean([p.cpu_cores for p in good])), float(np.mean([p.foreign_cores for p in good])),
        gpu, cpu, rate / watts if watts else None, ", ".join(marks),
    )  # fmt: skip


_T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


def _known(values: list[float | None]) -> float | None:
    found = [v for v in values if v is not None]
    return float(np.mean(found)) if found else None


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """The table as a Parquet file."""
    import duckdb

    names = [f.name for f in dataclasses.fields(Row)]
    types = {
        "points": "INTEGER",
        "marks": "VARCHAR",
        "actors": "INTEGER",
        "cpus": "INTEGER",
        "sm_percent": "INTEGER",
    }
    columns = ", ".join(f"{n} {types.get(n, 'DOUBLE')}" for n in names)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE sweep ({columns})")
    connection.executemany(
        f"INSERT INTO sweep VALUES ({', '.join('?' * len(names))})", [dataclasses.astuple(r) for r in rows]
    )
    connection.execute("COPY sweep TO ? (FORMAT parquet)", [str(path)])
    connection.close()
