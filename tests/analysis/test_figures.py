"""Figures of operations and iterations against programs whose answers are known."""

from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.analysis.run import Run
from cutaway.calibration.costs import Cost, Costs
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

MS = 1_000_000


def write(path: Path, rows: list[tuple[int, int, int, int]]) -> Run:
    """A run of one thread with these (milliseconds, value, kind, id); name and call 1 exist."""
    with RunWriter(path) as writer:
        process = writer.process(pid=1)
        process.name("search")
        process.call(layer="backend", fn="f")
        time, value, kind, id = (np.array(column) for column in zip(*rows, strict=True))
        process.thread(tid=1).write(time * MS, value, kind, id)
    return cutaway.open(path)


def operation(start: int, end: int) -> list[tuple[int, int, int, int]]:
    return [(start, 0, Kind.OP_ENTER, 1), (end, 0, Kind.OP_EXIT, 1)]


def test_quantiles_are_those_of_the_steady_state(tmp_path: Path):
    rows = [(0, 1, Kind.ITERATION, 0), *operation(0, 1000)]  # compiles
    for i, length in enumerate((1, 2, 3, 10)):
        rows += [
            (1000 + 20 * i, 2 + i, Kind.ITERATION, 0),
            *operation(1000 + 20 * i, 1000 + 20 * i + length),
        ]
    run = write(tmp_path / "r", rows)
    whole, steady = run.operations().row(0), run.steady().operations().row(0)
    assert whole["count"] == 5 and whole["total_ns"] == 1016 * MS
    assert (
        whole["p50_ns"] == steady["p50_ns"] == 2.5 * MS
    )  # of an even number, between the two in the middle
    assert (
        whole["p95_ns"]
        == steady["p95_ns"]
        == pytest.approx(np.quantile([1, 2, 3, 10], 0.95) * MS)
    )
    assert run.startup().operations().row(0)["p50_ns"] == 1000 * MS


def test_a_recursive_operation_takes_the_time_of_its_outermost_instance(tmp_path: Path):
    rows = [(i, 0, Kind.OP_ENTER, 1) for i in range(10)] + [
        (20 + i, 0, Kind.OP_EXIT, 1) for i in range(10)
    ]
    row = write(tmp_path / "r", rows).operations().row(0)
    assert row["count"] == 10 and row["total_ns"] == row["self_ns"] == 29 * MS
    assert (
        row["p50_ns"] == 20 * MS and row["mean_ns"] == 20 * MS
    )  # instances last 29, 27, … 11


def test_times_of_operations_are_corrected_like_the_breakdown(tmp_path: Path):
    calls = [(1 + i, 100_000, Kind.CALL, 1) for i in range(50)]
    run = write(
        tmp_path / "r", [*operation(0, 100)[:1], *calls, *operation(0, 100)[1:]]
    )
    inside, outside = (
        Cost(20_000.0, 20_000.0, 20_000.0),
        Cost(30_000.0, 30_000.0, 30_000.0),
    )
    run.costs = Costs(
        {"call": inside, "operation": inside}, {"call": outside, "operation": outside}
    )
    row = run.operations().row(0)
    expected = (
        100 * MS - 50 * 50_000 - 20_000
    )  # the outer part of the operation's own cost is not in it
    assert row["total_ns"] == row["self_ns"] == row["p50_ns"] == expected
    assert run.breakdown(by="operation").where(operation="search")["ns"].tolist() == [
        expected
    ]
    assert run.breakdown(by="operation").where(operation="search").select(
        "count", "calls"
    ).to_dict() == {
        "count": [1],
        "calls": [50],
    }


def test_an_iteration_left_out_for_calibration_has_a_row_of_its_own(tmp_path: Path):
    """As the recorder writes it without steps: the mark of 3, then a pause up to the beginning of 4."""
    marks = [(0, 1), (10, 2), (20, 3), (40, 5), (50, 6)]
    rows = [(t, n, Kind.ITERATION, 0) for t, n in marks] + [
        (20, 0, Kind.PAUSE, 1),
        (30, 0, Kind.RESUME, 1),
    ]
    rows = [*sorted(rows, key=lambda row: row[0]), (60, 0, Kind.END, 0)]
    table = write(tmp_path / "r", rows).iterations()
    assert table["iteration"].tolist() == [1, 2, 3, 4, 5, 6]
    assert (table["start_ns"] // MS).tolist() == [0, 10, 20, 30, 40, 50]
    assert table["recorded"].tolist() == [1, 1, 0, 1, 1, 1]


def test_iterations_and_steps_made_in_a_pause_are_all_there(tmp_path: Path):
    """One step an iteration; calibration leaves out what lies between the ends of two steps: two whole iterations."""
    rows = []
    for number in (1, 2, 3, 6, 7):
        start = 10 * (number - 1)
        rows += [(start, number, Kind.ITERATION, 0), (start + 9, 4, Kind.STEP, 0)]
    rows = sorted(
        [*rows, (29, 0, Kind.PAUSE, 1), (49, 8, Kind.RESUME, 2)], key=lambda row: row[0]
    )
    rows += [
        (70, 8, Kind.ITERATION, 0),
        (75, 0, Kind.END, 0),
    ]  # the program says good-bye
    table = write(tmp_path / "r", rows).iterations()
    assert table["iteration"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert table["steps"].tolist() == [4] * 7
    assert ((table["end_ns"] - table["start_ns"]) // MS).tolist() == [
        10,
        10,
        9,
        10,
        11,
        10,
        10,
    ]
    seconds = (table["end_ns"] - table["start_ns"]).sum() / 1e9
    assert table["steps"].sum() / seconds == pytest.approx(400)


def test_iterations_outside_a_window_are_not_invented(tmp_path: Path):
    rows = [
        (0, 1, Kind.ITERATION, 0), (10, 2, Kind.ITERATION, 0), (20, 0, Kind.PAUSE, 2),
        (920, 0, Kind.RESUME, 90), (920, 93, Kind.ITERATION, 0), (930, 0, Kind.END, 0),
    ]  # fmt: skip
    table = write(tmp_path / "r", rows).iterations()
    assert table["iteration"].tolist() == [1, 2, 93]
    assert (table["end_ns"] // MS).tolist() == [10, 20, 930]
    assert table["recorded"].tolist() == [1, 1, 1]


def test_the_first_process_ended_as_the_command_did(tmp_path: Path):
    run = write(tmp_path / "r", operation(0, 10))
    assert run.processes()["exit"].tolist() == [""]
    (tmp_path / "r" / "exit.json").write_text('{"code": 3}')
    assert cutaway.open(tmp_path / "r").processes()["exit"].tolist() == ["3"]


def test_a_process_lives_as_long_as_its_meters_are_read(tmp_path: Path):
    """Recorded for 10 ms (a window), then killed after 1000 ms, of which it used 900."""
    with RunWriter(tmp_path / "r", cpus=2) as writer:
        process = writer.process(pid=7, start_ns=0)
        process.thread(tid=7).write(
            np.array([0, 10 * MS]), 0, [Kind.BEGIN, Kind.PAUSE], [0, 2]
        )
        for t in range(0, 1001, 100):
            process.log("sample", {"t": t * MS, "threads": {"7": [900_000 * t, 0]}})
    run = cutaway.open(tmp_path / "r")
    assert run.utilisation()["cores_busy"] == pytest.approx(0.9)
