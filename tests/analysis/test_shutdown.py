"""Where the steady state ends: with the last work of the run. What follows is shut-down, listed apart."""

from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.analysis import stages
from cutaway.reports import digests
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

PASS, PASSES, AFTER = 1000, 5, 7000
"""A pass: 600 of simulation, 300 of an update, 100 of neither; then 7000 until the process ends."""


def write(
    path: Path,
    *,
    exit: bool = True,
    evaluates: int = 0,
    worker: bool = False,
    marks_end: bool = False,
) -> Path:
    with RunWriter(path, command=["train.py"], source="cutaway run", cpus=2) as run:
        process = run.process(pid=10, name="train.py", role="learner")
        simulation, update, evaluation = map(
            process.name, ("simulation", "backpropagation", "evaluation")
        )
        rows = []
        for start in range(0, PASSES * PASS, PASS):
            rows += [] if marks_end else [(start, start // PASS + 1, Kind.ITERATION, 0)]
            rows += span(simulation, start, start + 600) + span(
                update, start + 600, start + 900
            )
            rows += (
                [(start + PASS, start // PASS + 1, Kind.ITERATION, 0)]
                if marks_end
                else []
            )
        end = PASSES * PASS
        for start in range(end + 50, end + 50 + 20 * evaluates, 20):
            inner = span(simulation, start + 5, start + 15)
            rows += [
                *span(evaluation, start, start + 20)[:1],
                *inner,
                *span(evaluation, start, start + 20)[1:],
            ]
        rows.append((end + AFTER, 0, Kind.END, 0))
        thread = process.thread(tid=10, name="MainThread")
        for part in np.array_split(np.array(rows), 5):
            thread.write(*part.T)
        if exit:
            process.exit(t=end + AFTER, code=0)
        if worker:
            add_worker(run, end)
    return path


def add_worker(run: RunWriter, end: int) -> None:
    """Simulates on its own, longer than the training lasts."""
    process = run.process(pid=11, name="worker", role="actor", ppid=10)
    simulation = process.name("simulation")
    rows = [
        row
        for start in range(0, end + 3000, 500)
        for row in span(simulation, start, start + 500)
    ]
    process.thread(tid=11, name="MainThread").write(*np.array(rows).T)
    process.exit(t=end + 3000, code=0)


def span(name: int, start: int, end: int) -> list[tuple[int, int, int, int]]:
    return [(start, 0, Kind.OP_ENTER, name), (end, 0, Kind.OP_EXIT, name)]


def parts(run: cutaway.analysis.Run) -> list[int]:
    return [
        int(part.breakdown(by="process")["ns"].sum())
        for part in (run.startup(), run.steady(), run.shutdown())
    ]


@pytest.mark.parametrize(
    "marks_end", [False, True], ids=["marks where passes begin", "marks where they end"]
)
def test_a_run_is_start_up_steady_state_and_shut_down_to_the_nanosecond(
    tmp_path: Path, marks_end: bool
):
    run = cutaway.open(write(tmp_path / "r.cutaway", marks_end=marks_end))
    startup = 2 * PASS if marks_end else PASS
    assert parts(run) == [startup, PASSES * PASS - startup, AFTER]
    assert run.breakdown(by="process")["ns"].sum() == PASSES * PASS + AFTER
    assert run.shutdown().breakdown(by="operation")["operation"].tolist() == [""]
    by_iteration = run.breakdown(by=("iteration",))
    assert by_iteration["ns"].sum() == PASSES * PASS + AFTER
    assert run.shutdown().breakdown(by=("iteration",))["ns"].tolist() == [AFTER]


def test_the_last_pass_is_as_long_as_the_others(tmp_path: Path):
    run = cutaway.open(write(tmp_path / "r.cutaway"))
    rows = run.iterations()
    assert (rows["end_ns"] - rows["start_ns"]).tolist() == [PASS] * PASSES
    assert len(run.shutdown().iterations()) == 0
    steady = run.steady().breakdown(by=("iteration", "operation"))
    assert steady.where(operation="")["ns"].tolist() == [100] * (PASSES - 1)


def test_a_last_evaluation_belongs_to_shut_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stages, "_TAILS", (8, 64, 1 << 22))  # less than that evaluation
    run = cutaway.open(write(tmp_path / "r.cutaway", evaluates=10))
    assert parts(run) == [PASS, (PASSES - 1) * PASS, AFTER]
    found = run.shutdown().breakdown(by="operation")
    assert dict(zip(found["operation"], found["ns"], strict=True)) == {
        "": AFTER - 200,
        "evaluation": 100,
        "simulation": 100,
    }


def test_a_worker_follows_the_process_that_trains(tmp_path: Path):
    run = cutaway.open(write(tmp_path / "r.cutaway", worker=True))
    found = [
        part.breakdown(by="process").where(process=1)["ns"].tolist()
        for part in (run.startup(), run.steady(), run.shutdown())
    ]
    assert found == [[PASS], [(PASSES - 1) * PASS], [3000]]
    had = run.swept.held.by_process
    assert (
        had["startup"] + had["steady"] + had["shutdown"] == had["all"]
    ).all() and had["shutdown"][1].sum() == 3000
    assert run.swept.conditions["shutdown"].sum() > 0


def test_what_was_killed_has_no_shut_down(tmp_path: Path):
    run = cutaway.open(write(tmp_path / "r.cutaway", exit=False))
    assert parts(run) == [PASS, (PASSES - 1) * PASS + AFTER, 0]


def test_the_summary_lists_it_apart(tmp_path: Path):
    found = digests.digest_at(write(tmp_path / "r.cutaway"))
    assert (found.pace.steady_ns, found.pace.shutdown_ns) == (
        (PASSES - 1) * PASS,
        AFTER,
    )
    assert found.total_ns == found.pace.steady_ns
