"""SQLite exports of Nsight Systems: exact values, and databases that are not what they seem."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign import COUNTS, ORACLE, TIMES, differences, imported, of_format
from oracle_figures import figures

import cutaway
from cutaway.errors import CutawayError
from cutaway.trace.imports import import_files

pytestmark = pytest.mark.core


@pytest.mark.parametrize("name", of_format("nsys"))
def test_all_values_are_exactly_those_of_the_oracle(name: str, tmp_path: Path) -> None:
    run = cutaway.open(imported(name, tmp_path))
    found = figures(run)
    more = [
        "gpu_span_ns",
        "gpu_idle_in_gpu_span_ns",
        "gpu_with_corr_in_api",
        "n_nvtx",
        "nvtx_union_ns",
        "api_ns",
        "format",
    ]
    assert differences(name, found, TIMES + COUNTS + more) == {}
    assert len(run.processes()) == ORACLE[name]["processes"]
    assert (
        found["unattributed"]
        == ORACLE[name]["n_gpu"] - ORACLE[name]["gpu_with_corr_in_api"]
    )


def database(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


PID = 77 << 24
STRINGS = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)"
RUNTIME = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)"
KERNEL = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, shortName)"
NVTX = "CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid)"


def test_operations_come_from_nvtx_and_correlation_ids_are_kept_by_process(
    tmp_path: Path,
) -> None:
    other = 78 << 24
    path = database(
        tmp_path / "t.sqlite",
        *(STRINGS, RUNTIME, KERNEL, NVTX),
        "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'gemm')",
        f"INSERT INTO NVTX_EVENTS VALUES (0, 100, 59, 'inference', {PID + 5}), (0, 100, 59, 'sync', {other + 5})",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, {PID + 5}, 9, 1), (10, 20, {other + 5}, 9, 1)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 0, 7, 9, {PID}, 2), (30, 45, 1, 7, 9, {other}, 2)",
    )
    import_files([path], tmp_path / "r.cutaway")
    kernels = cutaway.open(tmp_path / "r.cutaway").kernels()
    assert sorted((row["operation"], row["device"], row["ns"]) for row in kernels) == [
        ("inference", 0, 10),
        ("sync", 1, 15),
    ]


def test_rows_that_are_no_numbers_are_counted_and_left_out(tmp_path: Path) -> None:
    path = database(
        tmp_path / "t.sqlite",
        *(STRINGS, RUNTIME),
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, {PID}, 9, 'x'), ('ten', 20, {PID}, 9, 1), "
        f"(10, NULL, {PID}, 9, 1), (1e3, 2000, {PID}, 9, 1)",
    )
    import_files([path], tmp_path / "r.cutaway")
    run = cutaway.open(tmp_path / "r.cutaway")
    assert run.summary()["n_api"] == 1
    assert int(run.processes()["lost"][0]) == 3


def _view(path: Path) -> Path:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end FROM n"
    return database(path, f"CREATE VIEW CUPTI_ACTIVITY_KIND_RUNTIME AS {endless}")


def _wrong_schema(path: Path) -> Path:
    return database(path, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (begin, finish)")


def _empty(path: Path) -> Path:
    return database(path, STRINGS)


def _cut_off(path: Path) -> Path:
    rows = ", ".join(f"({i}, {i + 1}, {PID}, {i}, 1)" for i in range(5000))
    database(path, RUNTIME, f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {rows}")
    path.write_bytes(path.read_bytes()[:20_000])
    return path


def _garbage(path: Path) -> Path:
    path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    return path


@pytest.mark.parametrize("make", [_view, _wrong_schema, _empty, _cut_off, _garbage])
def test_odd_databases_end_in_one_sentence(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path / "odd.sqlite")
    with pytest.raises(CutawayError) as caught:
        import_files([path], tmp_path / "r.cutaway")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "r.cutaway").exists()


def test_a_file_whose_records_all_lack_a_usable_time_is_a_run_that_lost_them(
    tmp_path: Path,
) -> None:
    row = f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (-5, -1, {PID}, 9, 1)"
    import_files(
        [database(tmp_path / "t.sqlite", RUNTIME, row)], tmp_path / "r.cutaway"
    )
    assert cutaway.open(tmp_path / "r.cutaway").processes()["lost"].tolist() == [1]
