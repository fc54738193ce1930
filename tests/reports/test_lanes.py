"""Lanes keep every nanosecond: what the bins of a row hold is what the thread did."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutaway
from cutaway.reports import lanes, timeline
from cutaway.trace.reader import read_run
from effort import effort

from .runs import MS, START, crowd, single

pytestmark = pytest.mark.core


def build(path: Path, bins_rows: int = 1) -> lanes.LaneBuilder:
    trace = read_run(path)
    builder = lanes.LaneBuilder(START, START + 2000 * MS, (START + 1000 * MS, START + 1200 * MS), bins_rows)
    for process in trace.processes:
        builder.add_thread(process.log.process["name"], process, 0)
    return builder


def test_bins_hold_exactly_what_the_thread_did(tmp_path: Path):
    whole, detail = build(single(tmp_path / "a.cutaway")).windows
    got = {plane: round(total.sum() / MS) for plane, total in whole.rows[0].items()}
    assert got == {
        ("simulation", "simulator"): 800, ("simulation", "python"): 400, ("inference", "backend"): 200,
        ("inference", "python"): 100, ("backpropagation", "backend"): 260, ("backpropagation", "python"): 140,
        ("", "python"): 100,
    }  # fmt: skip
    assert sum(total.sum() for total in detail.rows[0].values()) == pytest.approx(200 * MS)


def test_lanes_and_breakdown_are_the_same_time(tmp_path: Path):
    run = cutaway.open(crowd(tmp_path / "a.cutaway", workers=2))
    life = [(r["start_ns"], r["end_ns"]) for r in run.processes()]
    builder = lanes.LaneBuilder(min(a for a, _ in life), max(b for _, b in life), None, 3)
    for process in run.trace.processes:
        builder.add_thread("", process, 0)
    for row in run.breakdown(by=("process", "operation", "layer")):
        drawn = builder.windows[0].rows[row["process"]][row["operation"], row["layer"]].sum()
        assert drawn == pytest.approx(row["ns"], abs=10)


def test_halving_keeps_the_time_and_the_page_gets_smaller(tmp_path: Path):
    window = build(single(tmp_path / "a.cutaway")).windows[0]
    planes = list(window.rows[0])
    before, size = {p: t.sum() for p, t in window.rows[0].items()}, len(window.packed(planes))
    window.halve()
    assert {p: t.sum() for p, t in window.rows[0].items()} == pytest.approx(before)
    assert window.bins == lanes.MOST_BINS // 2 and len(window.packed(planes)) < size


def test_packed_bins_read_back(tmp_path: Path):
    packed = build(crowd(tmp_path / "a.cutaway")).packed()
    assert packed["rows"] == ["learner", "env-00", "env-01", "env-02", "env-03"]
    stored = packed["windows"][0]
    data = np.frombuffer(zlib.decompress(base64.b64decode(stored["data"])), np.uint8)
    cube = data.reshape(len(packed["rows"]), len(packed["planes"]), stored["bins"])
    assert cube.sum(axis=1).max() <= lanes.FULL + 2  # rounding of several planes
    wait = packed["planes"].index(["simulation", "wait"])
    assert cube[0, wait].sum() / lanes.FULL / stored["bins"] == pytest.approx(0.4, abs=0.01)


def test_a_thread_that_pauses_is_not_alive(tmp_path: Path):
    from cutaway.trace import format as fmt
    from cutaway.trace.format import Kind
    from cutaway.trace.writer import RunWriter

    with RunWriter(tmp_path / "p.cutaway") as run:
        thread = run.process(pid=1, start_ns=START).thread(tid=1)
        kinds = [Kind.BEGIN, Kind.PAUSE, Kind.RESUME, Kind.END]
        thread.append(fmt.records(START + np.array([0, 100, 300, 400]) * MS, 0, kinds, 0))
    builder = lanes.LaneBuilder(START, START + 2000 * MS, None, 1)
    builder.add_thread("main", read_run(tmp_path / "p.cutaway").processes[0], 0)
    assert {k: round(v.sum() / MS) for k, v in builder.windows[0].rows[0].items()} == {("", "python"): 200}


def test_overlapping_device_work_is_merged():
    start, end = np.array([0, 5, 30]), np.array([10, 20, 40])
    time, state = lanes._busy(start, end, 3)
    assert time.tolist() == [0, 20, 30, 40] and state.tolist() == [3, -1, 3, -1]


@settings(max_examples=effort(60, 20))
@given(st.lists(st.tuples(st.sampled_from([1, -1, 0]), st.integers(1, 4)), max_size=40), st.integers(0, 40))
def test_innermost_agrees_with_a_stack_in_any_two_pieces(events: list[tuple[int, int]], cut: int):
    step, value = (np.array([e[i] for e in events], np.int64) for i in (0, 1))
    expected, _ = timeline._innermost_slowly(step, value, 0)
    first, open = timeline.innermost(step[:cut], value[:cut], [])
    second, _ = timeline.innermost(step[cut:], value[cut:], open)
    assert np.concatenate([first, second]).tolist() == expected.tolist()
