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

from cutaway.balance import limits, machine, point
from cutaway.balance.demands import typical
from cutaway.balance.point import Measured, Plan, Setting
from cutaway.errors import CutawayError

RETRIES = 2
FILE, MACHINE = "grid.json", "machine.toml"


def settings(plan: Plan) -> list[Setting]:
    """Every point; each round of repeats in random order, so that slow drift of the machine does not look like an effect."""
    axes: list[tuple[int | None, ...]] = [
        axis or (None,) for axis in (plan.actors, plan.cpus, plan.sm_percent)
    ]
    ordered = []
    for r in range(plan.repeat):
        group = [Setting(a, c, s, r) for a, c, s in itertools.product(*axes)]
        random.Random(r).shuffle(group)
        ordered += group
    return ordered


def check(plan: Plan) -> None:
    """Whatever would fail later fails now, in one sentence."""
    for setting in settings(plan):
        limits.choose_cpus(setting.cpus)
        limits.sm_environment(setting.sm_percent)
        point.command_for(plan.command, setting)
    if plan.limit_by == "cgroup" and plan.cpus:
        limits.check_groups()


def run(
    plan: Plan, folder: Path, tell: Callable[[int, int, Measured], None], retries: int = RETRIES
) -> list[Measured]:
    """Measures what is missing in `folder`; `tell(done, all, point)` after each."""
    check(plan)
    _keep_plan(plan, folder)
    if not (folder / MACHINE).exists():
        machine.save(machine.probe().machine(), folder / MACHINE)
    wanted = settings(plan)
    results: list[Measured] = []
    for number, setting in enumerate(wanted, 1):
        place = folder / setting.name
        results.append(_stored(place) or _measure(plan, setting, place, retries))
        if len(results) >= min(2, len(wanted)) and all(r.exit for r in results):
            raise CutawayError(f"Every point has failed so far: {results[-1].note}.")
        tell(number, len(wanted), results[-1])
    return results


def _stored(place: Path) -> Measured | None:
    """What was measured before; a point that failed is tried again."""
    path = place / "point.json"
    known = point.load(path) if path.exists() else None
    return known if known is not None and known.exit == 0 else None


def _keep_plan(plan: Plan, folder: Path) -> None:
    path = folder / FILE
    if path.exists() and json.loads(path.read_text())["command"] != list(plan.command):
        raise CutawayError(f"{folder} contains points of another command; choose another folder with -o.")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(plan), indent=1) + "\n")


def _measure(plan: Plan, setting: Setting, place: Path, retries: int) -> Measured:
    """A point; repeated when others used the machine meanwhile, and the least disturbed try kept."""
    tries = []
    for attempt in range(1 + retries):
        here = place if attempt == 0 else place.with_name(f"{place.name}-again{attempt}")
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


def load(folder: Path) -> tuple[Plan, list[Measured]]:
    """A grid measured before, whole or in part."""
    try:
        values = json.loads((folder / FILE).read_text())
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        plan = Plan(**fields)
        places = [folder / s.name / "point.json" for s in settings(plan)]
        points = [point.load(path) for path in places if path.exists()]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CutawayError(
            f"{folder} is not a folder of measured points ({error}); make one with `cutaway balance measure`."
        ) from error
    if not points:
        raise CutawayError(f"{folder} has no measured points yet; finish it with `cutaway balance measure`.")
    return plan, points


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
    marks = ["contaminated"] if any(p.contaminated for p in good) else []
    marks += [] if good[0].enough else ["not steady"]
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
    import duckdb

    types = {"int | None": "INTEGER", "int": "INTEGER", "str": "VARCHAR"}
    columns = [f"{f.name} {types.get(str(f.type), 'DOUBLE')}" for f in dataclasses.fields(Row)]
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE points_ ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(
            f"INSERT INTO points_ VALUES ({marks})", [dataclasses.astuple(r) for r in rows]
        )
        connection.execute("COPY points_ TO ? (FORMAT parquet)", [str(path)])
