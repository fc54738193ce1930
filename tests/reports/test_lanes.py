"""Lanes keep every nanosecond: what the bins of a row hold is what the thread did."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.analysis.sweep import Bins
from cutaway.reports.page import lanes
from cutaway.trace import format as fmt
from cutaway.trace.format import DEVICE_DTYPE
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import DeviceKind, Kind

from .runs import MS, START, crowd, single

pytestmark = pytest.mark.core


def build(path: Path, *spans: tuple[int, int]) -> lanes.LaneBuilder:
    run = cutaway.open(path)
    spans = spans or ((0, 2000), (1000, 1200))
    run.windows = [
        Bins.over(START + a * MS, START + b * MS, lanes.MOST_BINS) for a, b in spans
    ]
    builder = lanes.LaneBuilder(run, START + spans[0][1] * MS)
    builder.add_threads(
        [(process["name"], process["process"]) for process in run.processes()]
    )
    return builder


def test_bins_hold_exactly_what_the_thread_did(tmp_path: Path):
    whole, detail = build(single(tmp_path / "a.cutaway")).windows
    got = {plane: round(total.sum() / MS) for plane, total in whole.rows[0].items()}
    assert got == {
        ("simulation", "simulator"): 800, ("simulation", "python"): 400, ("inference", "backend"): 200,
        ("inference", "python"): 100, ("backpropagation", "backend"): 260, ("backpropagation", "python"): 140,
        ("", "python"): 100,
    }  # fmt: skip
    drawn = sum(total.sum() for total in detail.rows[0].values())
    assert drawn == pytest.approx(
        200 * MS, rel=0.001
    )  # bins are whole nanoseconds wide


def test_lanes_and_breakdown_are_the_same_time(tmp_path: Path):
    run = cutaway.open(crowd(tmp_path / "a.cutaway", workers=2))
    run.windows = lanes.windows(run)
    builder = lanes.LaneBuilder(run, max(r["end_ns"] for r in run.processes()))
    builder.add_threads([("", i) for i in range(3)])
    for row in run.breakdown(by=("process", "operation", "layer")):
        drawn = (
            builder.windows[0]
            .rows[row["process"]][row["operation"], row["layer"]]
            .sum()
        )
        assert drawn == row["raw_ns"]


def test_halving_keeps_the_time_and_the_page_gets_smaller(tmp_path: Path):
    window = build(single(tmp_path / "a.cutaway")).windows[0]
    planes = list(window.rows[0])
    before, size = (
        {p: t.sum() for p, t in window.rows[0].items()},
        len(window.packed(planes)),
    )
    window.halve()
    assert {p: t.sum() for p, t in window.rows[0].items()} == pytest.approx(before)
    assert (
        window.cut.count == lanes.MOST_BINS // 2 and len(window.packed(planes)) < size
    )


def test_packed_bins_read_back(tmp_path: Path):
    packed = build(crowd(tmp_path / "a.cutaway")).packed()
    assert packed["rows"] == ["learner", "env-00", "env-01", "env-02", "env-03"]
    stored = packed["windows"][0]
    data = np.frombuffer(zlib.decompress(base64.b64decode(stored["data"])), np.uint8)
    cube = data.reshape(len(packed["rows"]), len(packed["planes"]), stored["bins"])
    assert cube.sum(axis=1).max() <= lanes.FULL + 2  # rounding of several planes
    wait = packed["planes"].index(["simulation", "wait"])
    assert cube[0, wait].sum() / lanes.FULL / stored["bins"] == pytest.approx(
        0.4, abs=0.01
    )


def test_a_thread_that_pauses_is_not_alive(tmp_path: Path):
    with RunWriter(tmp_path / "p.cutaway") as run:
        thread = run.process(pid=1, start_ns=START).thread(tid=1)
        kinds = [Kind.BEGIN, Kind.PAUSE, Kind.RESUME, Kind.END]
        thread.append(
            fmt.records(START + np.array([0, 100, 300, 400]) * MS, 0, kinds, 0)
        )
    builder = build(tmp_path / "p.cutaway")
    assert {k: round(v.sum() / MS) for k, v in builder.windows[0].rows[0].items()} == {
        ("", "python"): 200
    }


def test_a_window_holds_nothing_of_what_lies_outside(tmp_path: Path):
    (window,) = build(single(tmp_path / "a.cutaway"), (1050, 1090)).windows
    assert sum(total.sum() for total in window.rows[0].values()) == pytest.approx(
        40 * MS, rel=0.001
    )


def test_overlapping_device_work_is_merged(tmp_path: Path):
    with RunWriter(tmp_path / "d.cutaway") as run:
        process = run.process(pid=1, start_ns=START)
        inference = process.name("inference")
        time, kinds = [START, START + 100 * MS], [Kind.OP_ENTER, Kind.OP_EXIT]
        process.thread(tid=1).write(time, 0, kinds, [inference, inference])
        work = np.zeros(3, DEVICE_DTYPE)
        work["start"], work["end"] = (
            START + np.array([0, 5, 30]),
            START + np.array([10, 20, 40]),
        )
        work["kind"], work["operation"] = DeviceKind.KERNEL, inference
        process.device(work)
    builder = build(tmp_path / "d.cutaway", (0, 100))
    builder.add_devices(cutaway.open(tmp_path / "d.cutaway").swept.devices)
    assert {
        plane: total.sum() for plane, total in builder.windows[0].rows[-1].items()
    } == {("inference", "kernel"): 30}


def test_operations_beyond_the_largest_few_become_one(tmp_path: Path):
    with RunWriter(tmp_path / "m.cutaway") as run:
        process = run.process(pid=1, start_ns=START)
        thread = process.thread(tid=1)
        names = [process.name(f"op {i:02}") for i in range(20)]
        time = START + MS * np.cumsum(np.ravel([[1, 1 + i] for i in range(20)]))
        thread.write(
            time, 0, np.tile([Kind.OP_ENTER, Kind.OP_EXIT], 20), np.repeat(names, 2)
        )
    row = build(tmp_path / "m.cutaway").windows[0].rows[0]
    drawn = {
        operation: round(total.sum() / MS) for (operation, _), total in row.items()
    }
    assert drawn == {
        "": 19,
        lanes.OTHER: sum(range(1, 9)),
        **{f"op {i:02}": 1 + i for i in range(8, 20)},
    }
