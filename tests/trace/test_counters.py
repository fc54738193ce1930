"""Hardware counters of other tools' files: what each means, checked on kernels whose work is known."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from foreign import HERE, SHARED

import cutaway
from cutaway.analysis.counters import device_use
from cutaway.errors import CutawayError
from cutaway.reports.digests import digest_of
from cutaway.trace.imports import import_files

pytestmark = pytest.mark.core

COPIED = 8 << 20  # bytes that vecCopy reads, and writes: 2^20 doubles
AMD = HERE / "counters"


def imported(path: Path, folder: Path) -> Any:
    run = folder / f"{path.name}.cutaway"
    import_files([path], run)
    return cutaway.open(run)


def only_row(run: Any) -> dict[str, Any]:
    (row,) = run.counters()
    return dict(row)


def test_a_copy_of_eight_megabytes_reads_and_writes_as_many(tmp_path: Path) -> None:
    row = only_row(imported(AMD / "rocm_vcopy_MI300X_A1_pmc_perf.csv", tmp_path))
    assert row["count"] == 3
    assert row["bytes"] == pytest.approx(2 * COPIED, rel=0.002)
    assert row["flops"] == 0


def test_times_without_their_last_digits_are_unknown(tmp_path: Path) -> None:
    run = imported(AMD / "rocm_vcopy_MI300X_A1_pmc_perf.csv", tmp_path)  # 8.1097E+14
    row = only_row(run)
    assert row["ns"] == 0
    assert math.isnan(row["gbs"])
    assert len(run.kernels()) == 0


def test_bandwidth_is_what_was_moved_by_the_time_it_took(tmp_path: Path) -> None:
    row = only_row(imported(AMD / "rocm_vcopy_MI200_pmc_perf.csv", tmp_path))
    assert row["ns"] == 20480 + 16320 + 15520  # the three dispatches of the file
    assert row["gbs"] == pytest.approx(3 * row["bytes"] / row["ns"])


def test_read_requests_of_unknown_size_give_no_bytes(tmp_path: Path) -> None:
    row = only_row(imported(AMD / "rocm_vcopy_MI350_pmc_perf.csv", tmp_path))
    assert math.isnan(row["bytes"])
    assert row["l2_hit"] == pytest.approx(0.338, abs=0.001)


def test_rows_of_one_kernel_are_joined(tmp_path: Path) -> None:
    run = imported(AMD / "rocprofv3_counter_collection.csv", tmp_path)
    found = {row["kernel"].split("_")[0]: row["ns"] for row in run.counters()}
    assert found == {
        "void addition": 52151,
        "subtract": 49780,
        "multiply": 46818,
        "divide": 48151,
    }


HTA = HERE / "traces" / "kineto_hta" / "hta_cupti_profiler.json.gz"


def test_ranges_of_kineto_belong_to_the_launch_with_their_number(
    tmp_path: Path,
) -> None:
    run = imported(HTA, tmp_path)
    table = run.counters()
    assert table["count"].sum() == 77
    assert "" not in table["operation"].tolist()
    once = [row for row in table if "gcgemm" in row["kernel"]]
    assert sum(row["count"] for row in once) == 2
    assert math.isnan(once[0]["dram"])


def test_no_verdict_about_times_of_kernels_that_ran_alone(tmp_path: Path) -> None:
    verdict = digest_of(imported(HTA, tmp_path)).verdict
    assert verdict.rule == "counters-only"
    assert verdict.then == ""


ROCPD = """
CREATE TABLE rocpd_string_X (id INTEGER PRIMARY KEY, string TEXT);
CREATE TABLE rocpd_info_process_X (id INTEGER PRIMARY KEY, pid INTEGER);
CREATE TABLE rocpd_info_thread_X (id INTEGER PRIMARY KEY, tid INTEGER);
CREATE TABLE rocpd_info_agent_X (id INTEGER PRIMARY KEY, type TEXT, type_index INTEGER, product_name TEXT);
CREATE TABLE rocpd_info_kernel_symbol_X (id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);
CREATE TABLE rocpd_info_pmc_X (id INTEGER PRIMARY KEY, symbol TEXT);
CREATE TABLE rocpd_event_X (id INTEGER PRIMARY KEY, correlation_id INTEGER);
CREATE TABLE rocpd_pmc_event_X (id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, value REAL);
CREATE TABLE rocpd_region_X (id INTEGER PRIMARY KEY, pid, tid, start, end, name_id, event_id);
CREATE TABLE rocpd_kernel_dispatch_X (id INTEGER PRIMARY KEY, pid, agent_id, kernel_id, stream_id, start, end,
  group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id);
CREATE TABLE rocpd_memory_copy_X (id INTEGER PRIMARY KEY, pid, start, end, name_id, dst_agent_id, src_agent_id, size,
  stream_id, event_id);
INSERT INTO rocpd_string_X VALUES (1, 'hipLaunchKernel'), (2, 'MEMORY_COPY_HOST_TO_DEVICE'), (3, 'inference');
INSERT INTO rocpd_info_process_X VALUES (1, 4711);
INSERT INTO rocpd_info_thread_X VALUES (1, 4712);
INSERT INTO rocpd_info_agent_X VALUES (1, 'CPU', 0, 'EPYC'), (2, 'GPU', 0, 'MI300X');
INSERT INTO rocpd_info_kernel_symbol_X VALUES (1, '_Z4gemm', 'gemm');
INSERT INTO rocpd_info_pmc_X VALUES (1, 'TCC_HIT_sum'), (2, 'TCC_MISS_sum');
INSERT INTO rocpd_event_X VALUES (1, 9), (2, 9), (3, 10);
INSERT INTO rocpd_region_X VALUES (1, 1, 1, 100, 300, 3, NULL), (2, 1, 1, 110, 120, 1, 1);
INSERT INTO rocpd_kernel_dispatch_X VALUES (1, 1, 2, 1, 1, 200, 250, 0, 64, 1, 1, 1024, 1, 1, 2);
INSERT INTO rocpd_memory_copy_X VALUES (1, 1, 260, 270, 2, 2, 1, 4096, 1, 3);
INSERT INTO rocpd_pmc_event_X VALUES (1, 2, 1, 20.0), (2, 2, 1, 10.0), (3, 2, 2, 10.0);
"""
"""The tables of rocprofv3's database that matter here, as its schema 3.0.1 names them, written by hand: no public file exists."""


def rocpd(path: Path) -> Path:
    with sqlite3.connect(path) as connection:
        connection.executescript(ROCPD)
    connection.close()
    return path


def test_a_database_of_rocprofv3_has_kernels_copies_operations_and_counters(
    tmp_path: Path,
) -> None:
    run = imported(rocpd(tmp_path / "results.db"), tmp_path)
    (kernel,) = run.kernels().where(kind="kernel")
    assert (kernel["name"], kernel["operation"], kernel["ns"], kernel["grid"]) == (
        "gemm",
        "inference",
        50,
        "16x1x1",
    )
    (copy,) = run.kernels().where(kind="memcpy")
    assert (copy["ns"], copy["bytes"]) == (10, 4096)
    row = only_row(run)
    assert (row["operation"], row["l2_hit"], row["ns"]) == (
        "inference",
        0.75,
        50,
    )  # both instances of the counter
    assert run.processes()["pid"].tolist() == [4711]


def test_a_database_that_is_cut_off_is_one_sentence(tmp_path: Path) -> None:
    path = rocpd(tmp_path / "results.db")
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(CutawayError, match=r"results\.db"):
        imported(path, tmp_path)


def test_a_file_of_counters_without_kernels_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("Kernel_Name,Counter_Name,Counter_Value\n")
    with pytest.raises(CutawayError, match="contains no kernels"):
        imported(path, tmp_path)


def test_values_that_cannot_be_true_are_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    rows = [
        "TCC_HIT_sum,-4",
        "TCC_MISS_sum,1e300",
        "SQ_WAVES,nonsense",
        "TCP_TOTAL_CACHE_ACCESSES_sum,8",
    ]
    path.write_text(
        "Kernel_Name,Counter_Name,Counter_Value\n"
        + "".join(f"k,{row}\n" for row in rows)
    )
    run = imported(path, tmp_path)
    assert math.isnan(only_row(run)["l2_hit"])
    assert any(
        "3 counter values are impossible" in note for note in digest_of(run).trust.notes
    )


NSYS = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, shortName);
CREATE TABLE TARGET_INFO_GPU_METRICS (sourceId, typeId, typeName, metricId, metricName);
CREATE TABLE GPU_METRICS (timestamp, typeId, metricId, value);
INSERT INTO StringIds VALUES (1, 'small');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000000000, 2900000000, 1, 7, 5, 16777216, 1);
INSERT INTO TARGET_INFO_GPU_METRICS VALUES (0, 257, 'GPU', 3, 'SMs Active [Throughput %]'),
  (0, 257, 'GPU', 4, 'SM Issue [Throughput %]'), (0, 257, 'GPU', 5, 'DRAM Read Bandwidth [Throughput %]'),
  (0, 257, 'GPU', 6, 'DRAM Write Bandwidth [Throughput %]'), (0, 258, 'GPU', 3, 'Something else');
INSERT INTO GPU_METRICS VALUES (-50, 257, 3, 99), (1100000000, 257, 3, 20), (1100000000, 257, 4, 7), (1100000000, 257, 5, 2),
  (1100000000, 257, 6, 1), (1500000000, 257, 3, 40), (1500000000, 257, 4, 9), (1500000000, 257, 5, 4), (1500000000, 257, 6, 3),
  (2950000000, 257, 3, 0), (2950000000, 257, 4, 0), (1500000000, 258, 3, 77);
"""
"""What Nsight Systems writes with --gpu-metrics-devices, made by its schema: no public file with rows was found."""


def test_samples_of_a_device_belong_to_the_kernels_that_ran(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(NSYS)
    connection.close()
    run = imported(path, tmp_path)
    row = only_row(run)
    assert (row["kernel"], row["count"]) == ("small", 2)
    assert row["sm_active"] == pytest.approx(0.3)
    assert row["compute"] == pytest.approx(0.08)
    assert row["dram"] == pytest.approx(0.05)  # reading and writing together
    use = device_use(run)
    assert use is not None and not use.replayed
    verdict = digest_of(run).verdict
    assert verdict.rule == "far-from-peak"
    assert "busy 100 %" in verdict.because and "8 % of its peak" in verdict.because


TPU = SHARED / "xplane" / "xprof_tpu_inference_2.xplane.pb"


@pytest.mark.parametrize("path", [TPU] if TPU.is_file() else [])
def test_operations_of_xla_add_up_to_what_the_file_says(
    path: Path, tmp_path: Path
) -> None:
    run = imported(path, tmp_path)
    table = run.counters()
    assert table["count"].sum() == 2104 + 3 * 1503
    known = table["compute"][table["ns"] > 0]
    assert (known <= 1.0).all()
    assert not device_use(run).replayed  # type: ignore[union-attr]


def test_counters_join_a_trace_of_the_same_program_by_the_names_of_kernels(
    tmp_path: Path,
) -> None:
    trace = {
        "traceEvents": [
            {"ph": "X", "cat": "user_annotation", "name": "inference", "ts": 0, "dur": 100, "pid": 1, "tid": 1},
            {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "ts": 5, "dur": 5, "pid": 1, "tid": 1,
             "args": {"correlation": 3}},
            {"ph": "X", "cat": "kernel", "name": "k", "ts": 20, "dur": 30, "pid": 0, "tid": 7,
             "args": {"correlation": 3, "device": 0}},
        ]
    }  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    (tmp_path / "counters.csv").write_text(
        "Kernel_Name,Counter_Name,Counter_Value\nk,TCC_HIT_sum,3\nk,TCC_MISS_sum,1\n"
    )
    import_files(
        [tmp_path / "trace.json", tmp_path / "counters.csv"], tmp_path / "both.cutaway"
    )
    row = only_row(cutaway.open(tmp_path / "both.cutaway"))
    assert (row["operation"], row["l2_hit"]) == ("inference", 0.75)
