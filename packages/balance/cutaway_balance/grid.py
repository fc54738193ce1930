"""A grid of measured points: every setting several times, resumable, disturbed points repeated; its folder and its table."""

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

from cutaway.errors import CutawayError
from cutaway.machines import machine
from cutaway_balance import limits, point, probe
from cutaway_balance.demands import typical
from cutaway_balance.observe import mean
from cutaway_balance.point import Measured, Plan, Setting

Tell = Callable[[int, int, Measured], None]
FILE = "grid.json"
MACHINE = "machine.toml"
# Student's t for a 95 % interval, by number of values
_T95 = {
    2: 12.71,
    3: 4.30,
    4: 3.18,
    5: 2.78,
    6: 2.57,
    7: 2.45,
    8: 2.36,
    9: 2.31,
    10: 2.26,
}


def settings(plan: Plan) -> list[Setting]:
    """Every point; each round of repeats in random order, so that slow drift of the machine does not look like an effect."""
    axes = [axis or (None,) for axis in (plan.actors, plan.cpus, plan.sm_percent)]
    ordered = []
    for r in range(plan.repeat):
        group = [
            Setting(actors, cpus, sms, r)
            for actors, cpus, sms in itertools.product(*axes)
        ]
        random.Random(r).shuffle(group)
        ordered += group
    return ordered


def check(plan: Plan) -> None:
    """Whatever would fail later fails now, in one sentence."""
    if plan.metric is not None:
        point.metric_pattern(plan.metric)
    for setting in settings(plan):
        limits.choose_cpus(setting.cpus)
        limits.sm_environment(setting.sm_percent)
        plan.command_for(setting)
    if plan.limit_by == "cgroup" and plan.cpus:
        limits.check_groups()


def run(plan: Plan, folder: Path, tell: Tell, retries: int = 2) -> list[Measured]:
    """Measures what is missing in `folder`; `tell(done, all, point)` after each. A point that failed before is tried again."""
    check(plan)
    path = folder / FILE
    if path.exists() and json.loads(path.read_text())["command"] != list(plan.command):
        raise CutawayError(
            f"{folder} contains points of another command; choose another folder with -o."
        )
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(plan), indent=1) + "\n")
    if not (folder / MACHINE).exists():
        machine.save(probe.probe().machine(), folder / MACHINE)
    wanted = settings(plan)
    results = list[Measured]()
    for number, setting in enumerate(wanted, 1):
        stored = folder / setting.name / "point.json"
        if stored.exists():
            known = point.load(stored)
        else:
            known = None
        if known is None or known.exit:
            known = _measure(plan, setting, folder / setting.name, retries)
        results.append(known)
        if number >= min(2, len(wanted)) and all(r.exit for r in results):
            raise CutawayError(f"Every point has failed so far: {known.note}.")
        tell(number, len(wanted), known)
    return results


def _measure(plan: Plan, setting: Setting, place: Path, retries: int) -> Measured:
    """A point; repeated when others used the machine meanwhile, and the least disturbed try kept."""
    tries = []
    for attempt in range(1 + retries):
        if attempt == 0:
            here = place
        else:
            here = place.with_name(f"{place.name}-again{attempt}")
        shutil.rmtree(here, ignore_errors=True)  # what was interrupted
        tries.append((point.measure(plan, setting, here), here))
        if not tries[-1][0].contaminated or tries[-1][0].exit:
            break
    best, where = min(tries, key=lambda t: (not t[0].enough, t[0].foreign_cores))
    for _, other in tries:
        if other != where:
            shutil.rmtree(other)
    if where != place:
        where.rename(place)
    return best


def load(folder: Path) -> list[Measured]:
    """The points of a grid measured before, whole or in part."""
    try:
        values: dict[str, Any] = json.loads((folder / FILE).read_text())
        values |= {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
        places = [
            folder / setting.name / "point.json" for setting in settings(Plan(**values))
        ]
        points = [point.load(path) for path in places if path.exists()]
    except (OSError, ValueError, TypeError, KeyError) as error:
        remedy = "make one with `cutaway balance measure`"
        raise CutawayError(
            f"{folder} is not a folder of measured points ({error}); {remedy}."
        ) from error
    if not points:
        raise CutawayError(
            f"{folder} has no measured points yet; finish it with `cutaway balance measure`."
        )
    return points


@dataclass(frozen=True)
class Row:
    """Repeats of one setting together: median and 95 % interval; `marks` says what is wrong with it."""

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
    groups: dict[tuple[int | None, ...], list[Measured]] = {}
    for p in points:
        groups.setdefault(
            (p.setting.actors, p.setting.cpus, p.setting.sm_percent), []
        ).append(p)
    return [
        _row(groups[key])
        for key in sorted(groups, key=lambda key: [v or 0 for v in key])
    ]


def _row(points: list[Measured]) -> Row:
    good = [p for p in points if p.enough] or points
    rate, error = typical([p.steps_per_s for p in good])
    if len(good) > 1:
        half = _T95[min(len(good), 10)] * error
    else:
        half = (good[0].high - good[0].low) / 2
    gpu = mean(p.gpu_w for p in good)
    cpu = mean(p.cpu_w for p in good)
    watts = (gpu or 0.0) + (cpu or 0.0)
    cores, foreign = np.mean(
        [(p.cpu_cores, p.foreign_cores) for p in good], axis=0
    ).tolist()
    marks = {
        "contaminated": any(p.contaminated for p in good),
        "not steady": not good[0].enough,
    }
    s = points[0].setting
    return Row(
        s.actors,
        s.cpus,
        s.sm_percent,
        rate,
        max(0.0, rate - half),
        rate + half,
        len(good),
        cores,
        foreign,
        gpu,
        cpu,
        rate / watts if watts else None,
        ", ".join(mark for mark, holds in marks.items() if holds),
    )


def lines(rows: Sequence[Row]) -> list[str]:
    """The table for people."""
    found = ["actors  CPUs  SM %     steps/s   95 % interval          cores   steps/J"]
    for r in rows:
        limited = "".join(
            f"{'–' if v is None else v:>6}" for v in (r.actors, r.cpus, r.sm_percent)
        )
        if r.steps_per_j is None:
            energy = "unavail."
        else:
            energy = f"{r.steps_per_j:.2f}"
        rate = f"{r.steps_per_s:>11,.0f}   {r.low:>8,.0f} … {r.high:<10,.0f}"
        found.append(f"{limited} {rate} {r.cpu_cores:5.2f}  {energy:>8}  {r.marks}")
    return found


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """The table as a file."""
    import duckdb

    types = {"int | None": "INTEGER", "int": "INTEGER", "str": "VARCHAR"}
    columns = [
        f"{f.name} {types.get(str(f.type), 'DOUBLE')}" for f in dataclasses.fields(Row)
    ]
    insert = f"INSERT INTO points_ VALUES ({', '.join('?' * len(columns))})"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE points_ ({', '.join(columns)})")
        connection.executemany(insert, [dataclasses.astuple(r) for r in rows])
        connection.execute("COPY points_ TO ? (FORMAT parquet)", [str(path)])
