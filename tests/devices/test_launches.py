"""Bounds of launches, and energy by operation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutaway
from cutaway.analysis import energy, kernels
from cutaway.analysis.table import Table
from cutaway.trace.format import DEVICE_DTYPE
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import DeviceKind

pytestmark = pytest.mark.core

CELLS = ("process", "operation", "layer", "resource", "ns")
WORK = ("process", "operation", "count", "launch_ns")


def test_bounds_by_the_operation_that_launches() -> None:
    cells = [
        (0, "inference", "python", "cpu", 70),
        (0, "inference", "backend", "cpu", 20),
        (0, "inference", "accelerator_api", "cpu", 9),
        (0, "inference", "python", "cpu+gpu", 5),
        (0, "sync", "accelerator_api", "gpu", 40),
        (0, "sync", "accelerator_api", "idle", 3),
        (0, "simulation", "python", "cpu", 500),
    ]
    work = [(0, "inference", 3, 10.0), (0, "inference", 1, float("nan"))]
    found = {
        row["operation"]: row
        for row in kernels.bound_times(
            Table.from_rows(CELLS, cells), Table.from_rows(WORK, work)
        )
    }
    assert set(found) == {"inference", "sync"}, (
        "simulation neither launches nor waits for the device"
    )
    assert (
        found["inference"]["cpu_launch_bound_ns"],
        found["inference"]["gpu_bound_ns"],
    ) == (90, 0)
    assert (found["inference"]["count"], found["inference"]["launch_ns"]) == (4, 10.0)
    assert (found["sync"]["gpu_bound_ns"], found["sync"]["cpu_launch_bound_ns"]) == (
        40,
        0,
    )
    assert np.isnan(found["sync"]["launch_ns"])


def test_without_device_work_there_is_nothing_to_say() -> None:
    cells = Table.from_rows(CELLS, [(0, "simulation", "python", "cpu", 500)])
    assert len(kernels.bound_times(cells, Table.from_rows(WORK, []))) == 0


def test_energy_goes_to_operations_by_their_busy_time() -> None:
    second = 10**9
    readings = (
        [0, 10 * second, 20 * second],
        [0, 1000_000, 1500_000],
    )  # 1000 J, then 500 J
    busy = {
        "inference": [(0, second), (12 * second, 13 * second)],
        "backpropagation": [(second, 4 * second)],
    }
    found = energy.energy_by_operation(readings, busy)
    assert found == {
        "inference": 250.0 + 500.0,
        "backpropagation": 750.0,
        energy.IDLE: 0.0,
    }


def test_energy_of_idle_windows_belongs_to_no_operation() -> None:
    second = 10**9
    found = energy.energy_by_operation(([0, 10 * second], [0, 5000]), {"inference": []})
    assert found == {"inference": 0.0, energy.IDLE: 5.0}


def test_energy_is_unavailable_without_a_counter_not_zero() -> None:
    assert energy.energy_by_operation(None, {"inference": [(0, 1)]}) is None
    assert energy.energy_by_operation(([5], [7]), {}) is None, (
        "one reading is no difference"
    )


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), min_size=2, max_size=30)
)
def test_energy_windows_keep_every_joule(steps: list[tuple[int, int]]) -> None:
    times = np.cumsum([s[0] for s in steps])
    counts = np.cumsum([s[1] for s in steps])
    rows = energy.windows(times, counts, least_ns=5)
    assert rows[:, 2].sum() == counts[-1] - counts[0]
    assert (rows[:-1, 1] == rows[1:, 0]).all()


def test_a_counter_that_went_back_begins_afresh() -> None:
    rows = energy.windows([0, 10, 20, 30], [500, 700, 5, 105], least_ns=10)
    assert rows.tolist() == [[0, 10, 200], [20, 30, 100]]


def test_energy_of_a_recorded_run(tmp_path: Path) -> None:
    """Counters in the samples of a run, device work in its device.bin: joules by operation."""
    second = 10**9
    with RunWriter(tmp_path / "e.cutaway", source="test") as writer:
        process = writer.process(pid=7)
        operation = process.name("inference")
        for t, millijoules, microjoules in (
            (0, 0, 0),
            (10, 6000, 50_000_000),
            (20, 8000, 70_000_000),
        ):
            gpu = [{"id": 0, "energy_mj": millijoules}]
            process.log(
                "sample",
                {"t": t * second, "gpu": gpu, "rapl_uj": {"package-0:0": microjoules}},
            )
        work = np.zeros(1, DEVICE_DTYPE)
        work["start"], work["end"], work["kind"] = second, 2 * second, DeviceKind.KERNEL
        work["operation"] = operation
        process.device(work)
    found = cutaway.open(tmp_path / "e.cutaway").energy()
    assert found["cpu_joules"] == 70.0
    assert found["gpu_joules"] == {"inference": 6.0, energy.IDLE: 2.0}
    assert "busy time" in found["method"]
