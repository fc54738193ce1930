"""Grids of points with real processes: limits that hold, throughput from output and from a recording, resuming, marks, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cutaway import open as open_run
from cutaway.errors import CutawayError
from cutaway_balance import grid, limits, observe, point
from cutaway_balance.page import page
from cutaway_balance.point import Measured, Plan, Setting

pytestmark = pytest.mark.core

PROGRAM = """
import os, sys, time, cutaway
n = int(sys.argv[1])
print("cpus", len(os.sched_getaffinity(0)))
total = 0
end = time.monotonic() + 0.6
while time.monotonic() < end:
    time.sleep(0.004)
    total += n
    cutaway.step(n)
    cutaway.iteration()
    print(f"total={total} fps={n * 250}")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def cutaway(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cutaway", "balance", *map(str, words)],
        capture_output=True,
        text=True,
    )


def test_a_grid_measures_every_point_and_writes_table_parquet_and_page(
    tmp_path: Path, program: Path
) -> None:
    out = tmp_path / "s"
    done = cutaway(
        "measure",
        "--actors",
        "1,4",
        "--cpus",
        "1",
        "--repeat",
        2,
        "-o",
        out,
        "--",
        program,
        "{actors}",
    )
    assert done.returncode == 0, done.stderr
    rows = grid.table(grid.load(out))
    assert [(r.actors, r.cpus, r.points) for r in rows] == [(1, 1, 2), (4, 1, 2)]
    for row in (
        rows
    ):  # each step sleeps 4 ms at least; how much longer is the machine's affair
        assert 0 < row.steps_per_s < row.actors / 0.004
        run = open_run(out / f"actors{row.actors}-cpus1-r0" / "run.cutaway")
        steps = run.iterations()["steps"]
        assert steps.sum() > 0
        assert (steps % row.actors == 0).all()
    assert all(r.steps_per_j is None for r in rows) or all(r.steps_per_j for r in rows)
    assert "cpus 1\n" in (out / "actors1-cpus1-r0" / "output.txt").read_text()
    import duckdb

    stored = duckdb.sql(
        f"SELECT actors, steps_per_s FROM '{out / 'grid.parquet'}' ORDER BY actors"
    ).fetchall()
    assert stored == [(r.actors, r.steps_per_s) for r in rows]
    assert "<svg" in (out / "grid.html").read_text()


def test_a_grid_goes_on_where_it_stopped(tmp_path: Path, program: Path) -> None:
    plan = Plan(
        (sys.executable, str(program), "{actors}"),
        actors=(1, 2),
        repeat=1,
        metric="fps=([0-9]+)",
    )
    seen: list[str] = []
    grid.run(plan, tmp_path / "s", lambda done, total, p: seen.append(p.setting.name))
    kept = tmp_path / "s" / "actors2-r0" / "point.json"
    kept.write_text(
        kept.read_text().replace('"steps_per_s": 500.0', '"steps_per_s": 777.0')
    )
    again = grid.run(plan, tmp_path / "s", lambda done, total, p: None)
    assert {p.setting.actors: p.steps_per_s for p in again} == {1: 250.0, 2: 777.0}
    with pytest.raises(CutawayError, match="another command"):
        grid.run(Plan(("other",)), tmp_path / "s", lambda done, total, p: None)


def test_throughput_from_a_running_total(tmp_path: Path, program: Path) -> None:
    plan = Plan(
        (sys.executable, str(program), "{actors}"), metric=r"total=(?P<steps>\d+)"
    )
    result = point.measure(plan, Setting(actors=3), tmp_path / "p")
    assert 0 < result.steps_per_s < 3 / 0.004  # each step sleeps 4 ms at least
    assert result.low <= result.steps_per_s <= result.high
    assert point.load(tmp_path / "p" / "point.json") == result


def test_a_program_that_does_not_end_is_stopped_and_counts(tmp_path: Path) -> None:
    script = tmp_path / "forever.py"
    script.write_text(
        "import time\nwhile True:\n    print('fps=10', flush=True)\n    time.sleep(0.01)\n"
    )
    plan = Plan((sys.executable, str(script)), metric="fps=([0-9]+)", seconds=3.0)
    result = point.measure(plan, Setting(), tmp_path / "p")
    assert (result.exit, result.steps_per_s, result.enough) == (0, 10.0, True)


def test_a_failing_program_is_marked_and_the_exit_code_tells(tmp_path: Path) -> None:
    script = tmp_path / "bad.py"
    script.write_text("raise SystemExit(7)")
    done = cutaway("measure", "--repeat", 1, "-o", tmp_path / "s", "--", script)
    assert done.returncode == 1
    assert "exit code 7" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["measure", "--cpus", "4096", "--", "x"], "this process may use"),
        (["measure", "--sm-percent", "50", "--", "x"], "needs an NVIDIA driver"),
        (["measure", "--", "train.py", "{actors}"], "--actors was not given"),
        (["measure"], "no command to measure"),
        (["advise", "nowhere"], "nowhere"),
        (["measure", "--actors", "1,x", "--", "y"], "not a list of whole numbers"),
        (["predict", "nowhere", "--batch", "many"], "not a list of whole numbers"),
        (["measure", "--metric", "fps=(", "--", "x"], "not a regular expression"),
    ],
)
def test_nonsense_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cutaway", "balance", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_metric_that_captures_nothing_is_refused(tmp_path: Path, program: Path) -> None:
    with pytest.raises(CutawayError, match="put the number in parentheses"):
        point.measure(
            Plan((sys.executable, str(program), "1"), metric="fps"),
            Setting(),
            tmp_path / "p",
        )


def test_start_up_is_cut_off_and_the_interval_holds_the_rate() -> None:
    random = np.random.default_rng(3)
    slow = np.cumsum(random.exponential(0.5, 20))
    fast = slow[-1] + np.cumsum(random.exponential(0.01, 4000))
    found = observe.steady(np.concatenate([slow, fast]), np.ones(4020))
    assert found.enough
    assert slow[-1] - 1 < found.start < slow[-1] + 8
    assert found.low < 100 < found.high


def test_too_few_events_are_not_called_steady() -> None:
    assert not observe.steady(np.array([0.0, 1.0]), np.ones(2)).enough
    assert not observe.steady(np.zeros(0), np.zeros(0)).enough


def measured(actors: int, rate: float, **more: object) -> Measured:
    values = {
        "steady_from_s": 0.0,
        "seconds": 1.0,
        "exit": 0,
        "foreign_cores": 0.0,
        "contaminated": False,
        "enough": True,
        "cpu_cores": 1.0,
    }
    return Measured(
        Setting(actors=actors), rate, rate - 1, rate + 1, **{**values, **more}
    )  # type: ignore[arg-type]


def test_repeats_become_a_row_with_interval_energy_and_marks() -> None:
    rows = grid.table(
        [
            measured(2, 100.0, gpu_w=50.0),
            measured(2, 110.0, gpu_w=50.0),
            measured(4, 10.0, contaminated=True),
        ]
    )
    assert rows[0].steps_per_s == 105.0
    assert rows[0].low < 100
    assert rows[0].steps_per_j == pytest.approx(2.1)
    assert (rows[1].marks, rows[1].steps_per_j) == ("contaminated", None)


def test_a_disturbed_repeat_does_not_move_its_point() -> None:
    (row,) = grid.table(
        [measured(2, rate) for rate in (100.0, 102.0, 101.0, 30.0, 100.0)]
    )
    assert row.steps_per_s == 100.0
    assert 95 < row.low < row.high < 105


def test_names_cannot_inject_markup() -> None:
    text = page(
        "<script>alert(1)</script>",
        grid.table([measured(1, 5.0), measured(2, 9.0)]),
        ["<b>"],
    )
    assert "<script>" not in text
    assert "<b>" not in text


def test_cpus_are_a_subset_of_ours() -> None:
    assert (
        limits.choose_cpus(1) < os.sched_getaffinity(0)
        or len(os.sched_getaffinity(0)) == 1
    )
    assert limits.choose_cpus(None) == os.sched_getaffinity(0)


def test_the_plan_survives_its_file(tmp_path: Path) -> None:
    plan = Plan(("a", "{actors}"), actors=(1,), repeat=1)
    (tmp_path / "actors1-r0").mkdir()
    (tmp_path / "grid.json").write_text(json.dumps({**plan.__dict__}))
    with pytest.raises(CutawayError, match="no measured point"):
        grid.load(tmp_path)
