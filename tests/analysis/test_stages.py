"""Where start-up ends: programs whose start-up, steady state and shut-down are known."""

from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.reports import digests
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core
S = 1_000_000_000
WINDOW = 2  # the reason of a pause


def write(
    path: Path,
    rows: list[tuple[int, int, int, int]],
    life: tuple[int, int] = (1, 40 * S),
) -> Path:
    """A program of one thread; names: 1 simulation, 2 backpropagation, 3 compile, 4 training program."""
    with RunWriter(path, command=["train.py"], source="cutaway run", cpus=2) as run:
        process = run.process(pid=10, name="train.py", role="learner", t=life[0])
        for name in ("simulation", "backpropagation", "compile", "training program"):
            process.name(name)
        process.thread(tid=10, name="MainThread").write(*np.array(rows).T)
        process.exit(t=life[1], code=0)
    return path


def span(name: int, start: int, end: int) -> list[tuple[int, int, int, int]]:
    return [(start, 0, Kind.OP_ENTER, name), (end, 0, Kind.OP_EXIT, name)]


def parts(path: Path) -> list[int]:
    run = cutaway.open(path)
    return [
        int(part.breakdown(by="process")["ns"].sum())
        for part in (run.startup(), run.steady(), run.shutdown())
    ]


def passes(
    first: int, last: int, start: int, length: int
) -> list[tuple[int, int, int, int]]:
    """Iterations of a simulation and an update."""
    rows = []
    for number in range(first, last + 1):
        at = start + (number - first) * length
        rows.append((at, number, Kind.ITERATION, 0))
        rows += span(1, at, at + length // 2) + span(2, at + length // 2, at + length)
    return rows


def test_a_run_without_iterations_is_all_steady(tmp_path: Path):
    # One short call of a simulator is neither the first nor the last work of a training that nobody names.
    rows = [
        (0, 0, Kind.BEGIN, 0),
        *span(1, 2 * S, 2 * S + 1_000_000),
        (40 * S, 0, Kind.END, 0),
    ]
    path = write(tmp_path / "r.cutaway", rows)
    assert parts(path) == [0, 40 * S, 0]
    digest = digests.digest_at(path)
    assert (digest.pace.startup_ns, digest.pace.steady_ns, digest.pace.shutdown_ns) == (
        0,
        40 * S - 1,
        0,
    )


def test_a_program_of_one_iteration_starts_up_until_its_first_work(tmp_path: Path):
    training = [
        *span(4, 3 * S, 30 * S)[:1],
        *span(3, 4 * S, 9 * S),
        *span(4, 3 * S, 30 * S)[1:],
    ]
    rows = [
        (0, 0, Kind.BEGIN, 0),
        *training,
        (30 * S, 1, Kind.ITERATION, 0),
        (40 * S, 0, Kind.END, 0),
    ]
    assert parts(write(tmp_path / "r.cutaway", rows)) == [9 * S, 21 * S, 10 * S]


def test_training_outside_a_window_is_neither_start_up_nor_shut_down(tmp_path: Path):
    # --after 100it --for 50it: recorded from 10 s to 15 s of 40 s
    rows = [
        (10 * S, 0, Kind.BEGIN, 0),
        *passes(101, 150, 10 * S, S // 10),
        (15 * S, 0, Kind.PAUSE, WINDOW),
    ]
    path = write(tmp_path / "r.cutaway", rows)
    assert parts(path) == [0, 5 * S, 0]
    digest = digests.digest_at(path)
    assert (digest.pace.startup_ns, digest.pace.steady_ns, digest.pace.shutdown_ns) == (
        0,
        5 * S,
        0,
    )
    assert digest.pace.unrecorded_ns == 35 * S - 1 and digest.pace.iterations == 50


def test_training_after_a_window_of_time_is_no_shut_down(tmp_path: Path):
    # --window 5s: everything from the start to 8 s
    rows = [
        (0, 0, Kind.BEGIN, 0),
        *passes(1, 50, 3 * S, S // 10),
        (8 * S, 0, Kind.PAUSE, WINDOW),
    ]
    path = write(tmp_path / "r.cutaway", rows)
    assert parts(path) == [3 * S + S // 10, 49 * S // 10, 0]
    digest = digests.digest_at(path)
    assert (digest.pace.startup_ns, digest.pace.shutdown_ns) == (3 * S + S // 10 - 1, 0)
    assert digest.pace.steady_ns == 49 * S // 10 and digest.pace.unrecorded_ns == 32 * S


def test_a_worker_is_steady_when_the_run_is_however_late_that_comes(tmp_path: Path):
    path, calls = (
        tmp_path / "r.cutaway",
        300_000,
    )  # the second iteration comes behind so many records
    with RunWriter(path, command=["train.py"], source="cutaway run", cpus=2) as run:
        learner = run.process(pid=10, name="train.py", role="learner")
        call = learner.call(layer="backend", fn="f")
        thread = learner.thread(tid=10, name="MainThread")
        thread.write([0], [1], Kind.ITERATION, 0)
        thread.write(10 * np.arange(1, calls + 1), 5, Kind.CALL, call)
        thread.write([10 * calls + 10, 10 * calls + 20], [2, 3], Kind.ITERATION, 0)
        worker = run.process(pid=11, name="worker", role="actor", ppid=10)
        worker.thread(tid=11, name="MainThread").write(
            [0, 10 * calls + 110], 0, Kind.BEGIN, 0
        )
    found = cutaway.open(path)
    assert found.stages.steady_ns == 10 * calls + 10
    own = [
        part.breakdown(by="process").where(process=1)["ns"].tolist()
        for part in (found.startup(), found.steady())
    ]
    assert own == [[10 * calls + 10], [100]]
