"""The survey: cells are recorded once and never again, and findings are judged by intervals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from studies.survey.cells import FIGURES, Cell, cells
from studies.survey.findings import (
    FAILS,
    HOLDS,
    NO_GPU,
    OPEN,
    Device,
    Finding,
    bars,
    findings,
)
from studies.survey.learning import Lesson, learn
from studies.survey.record import compare, record
from studies.survey.write import write
from test_compare import make

pytestmark = pytest.mark.core

PROGRAM = """
import sys, time, cutaway
for _ in range(int(sys.argv[1])):
    cutaway.iteration()
    with cutaway.operation("simulation"):
        time.sleep(0.002)
        cutaway.step()
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "loop.py"
    path.write_text(PROGRAM)
    return str(path)


def judged(folder: Path) -> dict[str, Finding]:
    figure = bars(
        compare(*sorted(p for p in folder.iterdir() if p.is_dir()), "--per", "step")
    )
    return {finding.claim: finding for finding in findings({"backends-td3": figure})}


def test_findings_follow_from_the_runs_and_their_intervals(tmp_path: Path) -> None:
    # Eager makes ten times the calls; function and graph are the same but for noise; one torch run has no repeats but iterations.
    for seed in range(3):
        for name, calls in (
            ("tf-eager", 40),
            ("tf-function", 4),
            ("tf-graph", 4),
            ("torch", 20),
        ):
            (tmp_path / name).mkdir(exist_ok=True)
            make(tmp_path / name / f"{seed}.cutaway", calls, seed=seed + calls)
    found = judged(tmp_path)
    assert found["eager is slower than graph (TD3)"].verdict == HOLDS
    assert found["eager is slower than graph (TD3)"].ours.startswith(
        "tf-eager / tf-graph: 5."
    )
    assert (
        found["the slowest way to run TensorFlow has most transitions (TD3)"].verdict
        == HOLDS
    )
    assert (
        found["autograph removes most Python time from inference and update"].verdict
        == HOLDS
    )
    assert found["autograph and graph are close (within 20 %)"].verdict == HOLDS
    assert found["PyTorch eager is slower than the best graph"].verdict == HOLDS
    assert found["JAX is faster than PyTorch eager"].verdict == OPEN
    assert "'jax' was not recorded" in found["JAX is faster than PyTorch eager"].ours
    assert [f.verdict for f in found.values()].count(NO_GPU) == 2


def judged_sparse(devices: list[Device]) -> Finding:
    (found,) = (
        finding
        for finding in findings({}, devices)
        if finding.claim.startswith("nvidia-smi")
    )
    return found


def test_sparse_device_work_is_judged_on_opencl_and_left_open_for_gpus() -> None:
    seen = [Device(busy=0.2, nvidia_smi=0.98, process_s=1.5, seconds=60)]
    sparse = judged_sparse(seen)
    assert (
        sparse.verdict == f"{HOLDS} on OpenCL; {NO_GPU}"
        and "a worker used 1.5 s of 60 s" in sparse.ours
    )
    assert judged_sparse([seen[0]._replace(busy=0.9)]).verdict.startswith(FAILS)


def test_what_is_not_so_does_not_hold_and_a_short_run_tells_nothing(
    tmp_path: Path,
) -> None:
    for name, calls in (("tf-eager", 4), ("tf-graph", 40), ("tf-function", 40)):
        make(tmp_path / name, calls)
    make(
        tmp_path / "torch", 4, iterations=3
    )  # two iterations after the start-up: no interval
    found = judged(tmp_path)
    assert found["eager is slower than graph (TD3)"].verdict == FAILS
    assert (
        found["the slowest way to run TensorFlow has most transitions (TD3)"].verdict
        == HOLDS
    )
    assert found["PyTorch eager is faster than TensorFlow eager (TD3)"].verdict == OPEN
    assert (
        "no interval"
        in found["PyTorch eager is faster than TensorFlow eager (TD3)"].ours
    )


def test_cells_are_recorded_once_and_the_page_is_written_from_them(
    tmp_path: Path, program: str
) -> None:
    mine = [
        Cell("simulators", bar, (program, "{steps}"), 1, 30) for bar in ("one", "two")
    ]
    folder, docs = tmp_path / "runs", tmp_path / "docs"
    assert record(mine, folder, repeats=1) == []
    first = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
    (folder / "simulators/one/0.json").unlink()  # as if it had been stopped there
    assert record(mine, folder, repeats=1) == []
    again = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
    changed = {
        path.parent.name
        for path, when in again.items()
        if first.get(path) != when and path.name == "0.json"
    }
    assert changed == {"one"}
    (docs / "images").mkdir(parents=True)
    write(mine, folder, docs, quick=True)
    page = (docs / "survey.md").read_text()
    assert (
        page.count("\n| one |") == page.count("\n| two |") == 2
        and "cannot be told without a GPU" in page
    )
    assert (docs / "images/survey-simulators.svg").read_text().startswith("<svg")


def test_a_busy_machine_leaves_counts_but_no_times(tmp_path: Path) -> None:
    mine = [
        Cell("backends-td3", name, (), 1, 1)
        for name in ("tf-eager", "tf-function", "tf-graph")
    ]
    (tmp_path / "docs/images").mkdir(parents=True)

    def verdicts(foreign: float) -> tuple[str, str]:
        for cell, calls in zip(mine, (40, 4, 4), strict=True):
            run = tmp_path / cell.name / "0.cutaway"
            if not run.exists():
                run.parent.mkdir(parents=True)
                make(run, calls)
            run.with_suffix(".json").write_text(
                json.dumps({"seconds": 1, "foreign": foreign})
            )
        found = {
            f.claim: f.verdict
            for f in write(mine, tmp_path, tmp_path / "docs", quick=True)
        }
        return (
            found["eager is slower than graph (TD3)"],
            found["the slowest way to run TensorFlow has most transitions (TD3)"],
        )

    assert verdicts(foreign=0.1) == (HOLDS, HOLDS)
    assert verdicts(foreign=1000.0) == (f"{OPEN}: the machine was busy", HOLDS)
    assert "The machine was busy" in (tmp_path / "docs/survey.md").read_text()


def test_a_cell_that_fails_is_named_and_leaves_nothing(
    tmp_path: Path, program: str
) -> None:
    failed = record(
        [Cell("simulators", "bad", (program, "nothing"), 1, 1)], tmp_path, repeats=1
    )
    assert (
        len(failed) == 1
        and failed[0].startswith("simulators/bad failed: ")
        and "ValueError" in failed[0]
    )
    assert list((tmp_path / "simulators/bad").iterdir()) == []


def test_a_lesson_is_judged_by_its_last_line_and_taken_once(tmp_path: Path) -> None:
    speaker = tmp_path / "speak.py"
    speaker.write_text("print('return -900'); print('return -120')")
    taken = [
        Lesson(
            "good", sys.executable, (str(speaker),), r"return (-?\d+)", -300, "return"
        ),
        Lesson(
            "bad", sys.executable, (str(speaker),), r"return (-?\d+)", -100, "return"
        ),
        Lesson(
            "broken",
            sys.executable,
            (str(tmp_path / "nothing.py"),),
            r"return (-?\d+)",
            0,
            "return",
        ),
    ]
    assert learn(taken, tmp_path / "kept", only_known=True) == []
    rows = learn(taken, tmp_path / "kept")[2:-1]
    assert [row.rsplit("| ", 1)[1] for row in rows] == [
        "learns |",
        "does not learn |",
        "failed |",
    ]
    speaker.unlink()
    assert learn(taken, tmp_path / "kept", only_known=True)[2:-1] == rows


def test_every_cell_belongs_to_a_figure_and_has_a_name_of_its_own() -> None:
    all_of_them = cells()
    assert len({cell.name for cell in all_of_them}) == len(all_of_them)
    assert {cell.figure for cell in all_of_them} == set(FIGURES)
    assert len([c for c in all_of_them if c.figure == "simulators"]) >= 10
    assert {c.python for c in all_of_them if c.bar.startswith("tf")} == {
        ".venv-tensorflow/bin/python"
    }
    assert next(c for c in all_of_them if "torch" in c.name).python == sys.executable


def test_a_cell_records_what_it_counts_and_the_quick_one_less() -> None:
    cell = Cell(
        "simulators",
        "one",
        ("train.py", "--steps", "{steps}"),
        iteration=50,
        count=40,
        skip=2,
    )
    assert cell.command() == ["train.py", "--steps", str(50 * 43)]
    assert cell.options()[2:] == ["--after", "2it", "--for", "40it"]
    assert cell.quick().command()[-1] == str(50 * 11)
    assert all(c.quick().count >= min(c.count, 6) for c in cells())
