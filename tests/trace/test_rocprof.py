"""rocprofv3 JSON: exact values of a real trace, and names, markers and copies of a small one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign import COUNTS, TIMES, differences, imported, of_format
from oracle_figures import figures

import cutaway
from cutaway.trace.imports import import_files

pytestmark = pytest.mark.core


@pytest.mark.parametrize("name", of_format("rocprof"))
def test_all_values_are_exactly_those_of_the_oracle(name: str, tmp_path: Path) -> None:
    found = figures(cutaway.open(imported(name, tmp_path)))
    assert differences(name, found, [*TIMES, *COUNTS, "api_ns", "format"]) == {}
    assert found["unattributed"] == found["n_gpu"]


def record(start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    times = {"start_timestamp": start, "end_timestamp": end, "thread_id": 11}
    return {**times, "correlation_id": {"internal": correlation, "external": 0}, **more}


def small() -> dict[str, Any]:
    dispatch = {
        "agent_id": {"handle": 900},
        "queue_id": {"handle": 3},
        "kernel_id": 4,
        "workgroup_size": {"x": 64, "y": 1, "z": 1},
        "grid_size": {"x": 640, "y": 1, "z": 1},
    }
    return {
        "metadata": {"pid": 5, "init_time": 1, "fini_time": 1000},
        "agents": [
            {"id": {"handle": 800}, "type": 1, "name": "cpu"},
            {
                "id": {"handle": 900},
                "type": 2,
                "name": "gfx950",
                "product_name": "AMD Instinct",
                "gpu_index": 0,
            },
        ],
        "kernel_symbols": [
            {"kernel_id": 4, "kernel_name": "gemm.kd", "formatted_kernel_name": "gemm"}
        ],
        "strings": {
            "buffer_records": [
                {"kind": "NONE", "operations": []},
                {"kind": "HIP", "operations": ["hipInit", "hipLaunchKernel"]},
            ],
            "marker_api": [{"key": 50, "value": "inference"}],
        },
        "buffer_records": {
            "hip_api": [record(20, 30, 51, kind=1, operation=1)],
            "marker_api": [record(10, 90, 50, kind=1, operation=0)],
            "kernel_dispatch": [record(40, 70, 51, dispatch_info=dispatch)],
            "memory_copy": [record(70, 75, 52, dst_agent_id={"handle": 900}, bytes=64)],
        },
    }


def test_names_markers_and_copies(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"rocprofiler-sdk-tool": [small()]}))
    import_files([tmp_path / "t.json"], tmp_path / "r.cutaway")
    run = cutaway.open(tmp_path / "r.cutaway")
    rows = {(row["operation"], row["name"], row["ns"]) for row in run.kernels()}
    assert ("inference", "gemm", 30) in rows
    summary = run.summary()
    assert (summary["n_memcpy"], summary["n_api"], summary["unattributed"]) == (1, 1, 1)
    assert summary["devices"] == ["AMD Instinct"]
    process = run.trace.processes[0]
    assert process.log.name(int(process.api()["name"][0])) == "hipLaunchKernel"
    assert process.device()["grid"][0].tolist() == [10, 1, 1]
