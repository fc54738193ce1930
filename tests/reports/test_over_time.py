"""How a run went: the pace over time, the sentence about a drift, and the slowest iterations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cutaway.commands import main
from cutaway.reports.digest import Stretch
from cutaway.reports.digests import digest_at
from cutaway.reports.page.data import open_run, page_data
from cutaway.reports.progress import about_drift, drift
from cutaway.trace import format as fmt
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

from .runs import MS, START, add_samples, begin, single

pytestmark = pytest.mark.core

ITERATIONS, STEPS = 400, 8


def changing(path: Path, replay_ms: np.ndarray) -> Path:
    """An iteration: 50 ms of simulation with eight steps, then replay for as long as it is told."""
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as run:
        process, thread = begin(run, 100, "learner", "learner")
        rows, now = [(START, 0, Kind.BEGIN, 0)], START
        for number, replay in enumerate(replay_ms.tolist(), 1):
            rows.append((now, number, Kind.ITERATION, 0))
            for name, length in (("simulation", 50), ("replay", replay)):
                rows.append((now, 0, Kind.OP_ENTER, process.name(name)))
                now += int(length * MS)
                rows.append((now, 0, Kind.OP_EXIT, process.name(name)))
            rows.append((now - 1, STEPS, Kind.STEP, 0))
        rows.append((now, 0, Kind.END, 0))
        thread.append(fmt.records(*np.array(rows, np.int64).T))
        add_samples(process, 100, now)
        process.exit(t=now, code=0)
    return path


def show(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert main(["show", str(path), *options]) == 0
    return capsys.readouterr().out


def test_a_replay_that_grows_is_named_as_what_slows_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = changing(tmp_path / "r.cutaway", np.linspace(2, 80, ITERATIONS))
    digest = digest_at(path)
    sentence = next(w for w in digest.verdict.warnings if w.startswith("DRIFT"))
    assert "steps/s fell from 1" in sentence and "replay grew from" in sentence
    text = show(capsys, path, "--over-time")
    assert "steps/s fell from" in text and all(
        len(line) <= 80 for line in text.splitlines()
    )
    shares = [s.shares["replay"] for s in digest.stretches]
    assert shares[0] < 0.1 and shares[-1] > 0.55 and shares[30] > shares[10]


def test_stretches_hold_every_step_and_every_nanosecond(tmp_path: Path):
    run = open_run(changing(tmp_path / "r.cutaway", np.linspace(2, 80, ITERATIONS)))
    table = run.over_time(60)
    assert len(set(table["start_ns"].tolist())) <= 60
    assert int(table["ns"].sum()) == int(run.breakdown(by="layer")["raw_ns"].sum())
    once = {row["start_ns"]: (row["steps"], row["iterations"]) for row in table}
    assert [sum(column) for column in zip(*once.values(), strict=True)] == [
        ITERATIONS * STEPS,
        ITERATIONS,
    ]


@pytest.mark.parametrize(
    "replay", [np.full(ITERATIONS, 20.0), np.tile([5.0, 60.0], ITERATIONS // 2)]
)
def test_a_steady_pace_and_one_that_jitters_are_no_drift(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replay: np.ndarray
):
    path = changing(tmp_path / "r.cutaway", replay)
    assert not any("DRIFT" in w for w in digest_at(path).verdict.warnings)
    assert "did not drift" in show(capsys, path, "--over-time")


def test_the_slowest_iterations_say_what_was_different(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    replay = np.full(ITERATIONS, 10.0)
    replay[[99, 299]] = 500, 900  # iterations 100 and 300
    path = changing(tmp_path / "r.cutaway", replay)
    text = show(capsys, path, "--slowest")
    rows = [line.split() for line in text.splitlines() if "replay in python" in line]
    assert [row[0] for row in rows] == ["300", "100"]
    assert "900 ms, usually 13." in text and "median 60.0 ms" in text
    assert "recorder paused" in text, "it says which are not counted"
    found = json.loads(show(capsys, path, "--slowest", "--json"))["rows"]
    assert [row["took_ns"] for row in found] == [950 * MS, 550 * MS]
    assert sum(cell["ns"] for cell in found[0]["cells"]) == 950 * MS


def test_a_slow_start_up_is_not_among_the_slowest(tmp_path: Path):
    replay = np.full(ITERATIONS, 10.0)
    replay[0], replay[7] = 5000, 100
    table = open_run(changing(tmp_path / "r.cutaway", replay)).slowest()
    assert set(table["iteration"].tolist()) == {8}


def test_a_run_without_iterations_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = single(tmp_path / "r.cutaway", iterations=1)
    assert "No slow iterations" in show(capsys, path, "--slowest")
    assert "80 steps/s" not in show(capsys, path, "--over-time")


def test_the_page_gets_the_stretches(tmp_path: Path):
    path = changing(tmp_path / "r.cutaway", np.linspace(2, 80, ITERATIONS))
    shown = page_data(open_run(path))["sections"]["time"]
    data = shown["rows"]
    assert data[1]["rate"] > 1.5 * data[-3]["rate"] and shown["what"] == "steps"
    assert [name for name, _ in data[-1]["shares"]] == ["simulation", "replay"]


def test_a_short_run_is_not_said_to_be_even():
    stretches = [
        Stretch(i * 10**8, (i + 1) * 10**8, 450.0 - i * 10, 0.0, True, {})
        for i in range(20)
    ]
    assert drift(stretches) is None and "Too short" in about_drift(stretches)
