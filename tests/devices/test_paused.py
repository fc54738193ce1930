"""Pauses of the recording against a collector that goes on: what device work belongs to the run, and what is corrected."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from device_runs import HERE, in_run, inject, read, record

import cutaway
from cutaway.analysis.breakdown import correct
from cutaway.calibration.costs import Cost, Costs

PROGRAM = str(HERE / "programs/paused_cuda.py")


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory, fake_cupti: Path) -> Path:
    """A run whose recording is off in about half of its units."""
    run = tmp_path_factory.mktemp("calibrated") / "c.cutaway"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTAWAY_CUPTI", str(fake_cupti))
        done = record(
            run,
            "--collector",
            "cupti",
            "--calibrate-share",
            "0.5",
            PROGRAM,
            "calibrated",
        )
    assert done.returncode == 0, done.stderr
    return run


def test_work_of_units_left_out_for_calibration_is_recorded(calibrated: Path) -> None:
    """It is asynchronous: leaving it out would tear launches from their work."""
    (recorded,) = read(calibrated)
    kernels = recorded.named(recorded.work, "work")
    assert len(kernels) == 120
    assert set(recorded.operations(kernels)) == {"inference"}, (
        "operations are followed all the while"
    )
    run = cutaway.open(calibrated)
    (row,) = run.kernels()
    assert (row["count"], row["operation"]) == (120, "inference")
    paused = [share for share in run.iterations()["recorded"].tolist() if share < 1]
    assert paused, "some units were left out, or this shows nothing"


def test_the_correction_never_reduces_device_time(calibrated: Path) -> None:
    run = cutaway.open(calibrated)
    assert run.costs is not None
    (recorded,) = read(calibrated)
    measured = int((recorded.work["end"] - recorded.work["start"]).sum())
    assert sum(row["ns"] for row in run.kernels()) == measured
    assert sum(row["ns"] for row in run.device_time()) == measured, (
        "one stream: nothing overlaps"
    )
    cells = list(run.breakdown(by=["operation", "resource"]))
    waits = [row for row in cells if row["resource"] == "gpu"]
    assert waits and all(row["ns"] == row["raw_ns"] for row in waits)


def test_a_wait_that_the_device_ends_is_not_shortened() -> None:
    cells = {
        "ns": np.array([1000, 1000, 1000]),
        "calls": np.array([10, 10, 10]),
        "calls_made": np.array([0, 0, 0]),
        "blocked": np.array([1, 1, 0]),
        "busy": np.array([1, 0, 1]),
    }
    found = correct(cells, Costs(inside={"call": Cost(20.0, 10.0, 30.0)}))
    assert found.ns.tolist() == [1000, 800, 800]
    assert found.low.tolist() == [1000, 700, 700] and found.high.tolist() == [
        1000,
        900,
        900,
    ]


def test_work_begun_outside_the_window_is_left_out(
    tmp_path: Path, fake_cupti: Path
) -> None:
    run = tmp_path / "w.cutaway"
    done = in_run(run, [sys.executable, PROGRAM, "asked"], **inject(fake_cupti))
    assert done.returncode == 0, done.stderr
    (recorded,) = read(run)
    counts = {
        n: len(recorded.named(recorded.work, n)) for n in ("recorded", "left_out")
    }
    assert counts == {"recorded": 5, "left_out": 0}
    assert len(recorded.named(recorded.work, "launched_before_the_pause")) == 1, (
        "it had begun before"
    )
    assert recorded.process.log.losses == [], "outside the window is no loss"


def test_device_work_counts_for_the_size_limit(
    tmp_path: Path, fake_cupti: Path
) -> None:
    """Two chunks of device.bin are nearly all that is allowed: soon recording ends, that of the device too."""
    run = tmp_path / "s.cutaway"
    options = inject(fake_cupti) | {
        "CUTAWAY": f"{run}?max_size=140000&calibrate_share=0"
    }
    done = in_run(run, [sys.executable, PROGRAM, "limited"], **options)
    assert done.returncode == 0, done.stderr
    (recorded,) = read(run)
    assert any(
        "the size limit was reached" in loss["what"]
        for loss in recorded.process.log.losses
    )
    assert len(recorded.named(recorded.work, "recorded")) == 3
    assert len(recorded.named(recorded.work, "after_the_limit")) == 0
