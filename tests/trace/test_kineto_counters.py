"""Samples of hardware counters in Kineto's JSON. The file is made by hand, after Kineto's source (`output_json.cpp`, August 2026):
no public file has such events."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import cutaway
from cutaway.trace.imports import import_files

pytestmark = pytest.mark.core

SM = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
DRAM = "dram__bytes_read.sum"


def event(category: str, name: str, ts: float, dur: float, **args: Any) -> Any:
    times = {"ts": ts, "dur": dur, "pid": 1, "tid": 1}
    return {"ph": "X", "cat": category, "name": name, **times, "args": args}


def sample(name: str, ts: float, value: Any, gpu: int = 0) -> Any:
    about = {"ph": "C", "cat": "hardware_counters", "name": name}
    return {
        **about,
        "pid": f"GPU {gpu} Counters",
        "tid": 0,
        "ts": ts,
        "args": {"": value},
    }


def launched(operation: str, number: int, ts: float) -> list[Any]:
    """An operation that launches one kernel of 100 µs."""
    launch = event("cuda_runtime", "cudaLaunchKernel", ts + 1, 5, correlation=number)
    where = {"device": 0, "stream": 7, "correlation": number}
    kernel = event("kernel", f"k{number}", ts + 20, 100, **where)
    return [event("user_annotation", operation, ts, 200), launch, kernel]


def imported(folder: Path, samples: list[Any]) -> Any:
    events = launched("inference", 1, 0) + launched("replay", 2, 500)
    content = {"baseTimeNanoseconds": 10**18, "traceEvents": events + samples}
    (folder / "trace.json").write_text(json.dumps(content))
    import_files([folder / "trace.json"], folder / "run.cutaway")
    return cutaway.open(folder / "run.cutaway")


def test_samples_belong_to_the_kernels_that_ran(tmp_path: Path) -> None:
    told = [sample(SM, t, 80.5) for t in (40, 60, 80)]
    told += [sample(SM, t, 7.25) for t in (540, 560)]
    told += [sample(SM, 560, 99, gpu=3), sample(SM, 300, 1)]
    run = imported(tmp_path, told)
    found = {row["operation"]: row for row in run.counters()}
    assert found["inference"]["sm_active"] == pytest.approx(0.805)
    assert found["replay"]["sm_active"] == pytest.approx(0.0725)
    assert (found["inference"]["count"], found["replay"]["count"]) == (3, 2)


def test_counters_of_one_moment_stand_together(tmp_path: Path) -> None:
    run = imported(tmp_path, [sample(SM, 40, 80), sample(DRAM, 40, 4.096e09)])
    (entry,) = [
        entry
        for entry in run.trace.processes[0].log.others
        if entry["k"] == "counter_samples"
    ]
    assert entry["metrics"] == [DRAM, SM]
    assert entry["rows"] == [[10**18 + 40_000, 0, 4.096e09, 80.0]]


@pytest.mark.parametrize("value", [-3, 1e30, "much", None, math.inf])
def test_values_that_cannot_be_true_are_left_out(tmp_path: Path, value: Any) -> None:
    run = imported(tmp_path, [sample(SM, 40, value), sample(DRAM, 40, 5)])
    told = [row for row in run.counters() if row["operation"] == "inference"]
    assert all(math.isnan(row["sm_active"]) for row in told)


def test_kernels_of_several_streams_run_at_once(tmp_path: Path) -> None:
    events = launched("inference", 1, 0) + launched("replay", 2, 30)
    events += [sample(SM, t, 50) for t in (10, 25, 60, 130, 149, 151)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    import_files([tmp_path / "trace.json"], tmp_path / "run.cutaway")
    rows = cutaway.open(tmp_path / "run.cutaway").counters()
    # k1 runs from 20 to 120, k2 from 50 to 150.
    assert {row["kernel"]: row["count"] for row in rows} == {"k1": 2, "k2": 3}


def test_samples_of_a_device_without_kernels_are_told(tmp_path: Path) -> None:
    run = imported(tmp_path, [sample(SM, 40, 80, gpu=3), sample(SM, 40, 70)])
    told = [note for note in run.trace.processes[0].log.notes if "no kernel" in note]
    assert told == ["samples of GPU 3 belong to no kernel: none ran there"]


@pytest.mark.parametrize(
    ("traced", "told"), [("Tesla T4", []), ("NVIDIA H100 PCIe", ["Tesla T4"])]
)
def test_counters_of_another_kind_of_device_are_told(
    tmp_path: Path, traced: str, told: list[str]
) -> None:
    from cutaway.trace.imports.counters import Counted, Counters
    from cutaway.trace.imports.kineto import read
    from cutaway.trace.imports.other_devices import note_other_devices
    from cutaway.trace.imports.source import Limits

    properties = [{"id": 0, "name": traced}]
    content = {"deviceProperties": properties, "traceEvents": launched("replay", 1, 0)}
    (tmp_path / "trace.json").write_text(json.dumps(content))
    (trace,) = read(tmp_path / "trace.json", Limits(), lambda done: None)
    (counted,) = read(tmp_path / "trace.json", Limits(), lambda done: None)
    counted.devices = [{"id": 0, "name": "Tesla T4"}]
    counted.counters = Counters([Counted(0, {SM: 50.0})])
    note_other_devices([trace, counted])
    notes = [note for note in counted.notes if "counters were taken on" in note]
    assert [note.split(" on ")[1].split(",")[0] for note in notes] == told
