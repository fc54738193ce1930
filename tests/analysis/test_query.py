"""SQL over a run: the documented tables, and nothing but them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.analysis.query import TABLES, query
from cutaway.errors import CutawayError
from cutaway.trace.imports import import_files

pytestmark = pytest.mark.core

TRACE = Path(__file__).parents[1] / "data" / "traces" / "kineto_hta" / "hta_gpu_user_annotation.json.gz"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query") / "r.cutaway"
    import_files([TRACE], path)
    return path


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_the_columns_of_its_method(path: Path, table: str) -> None:
    run = cutaway.open(path)
    found = query(run, f"SELECT * FROM {table}")
    expected = TABLES[table](run)
    assert found.columns == expected.columns
    assert len(found) == len(expected)


def test_sums_in_sql_are_the_sums_of_the_run(path: Path) -> None:
    run = cutaway.open(path)
    found = query(
        run, "SELECT operation, sum(ns)::BIGINT AS ns FROM cells GROUP BY operation ORDER BY ns DESC"
    )
    by_thread = run.breakdown(by=("thread", "operation"))
    for row in found:
        assert row["ns"] == int(by_thread.where(operation=row["operation"])["ns"].sum())


def test_joins_between_tables_work(path: Path) -> None:
    sql = "SELECT p.name, count(*) AS n FROM kernels k JOIN processes p USING (process) GROUP BY p.name"
    assert query(cutaway.open(path), sql)["n"].tolist() == [len(cutaway.open(path).kernels())]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM sys",
        "COPY cells TO '{tmp}/stolen.csv'",
        "ATTACH '{tmp}/other.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "DROP TABLE cells",
        "SELECT 1; SELECT 2",
        "",
        "nonsense",
        "SELECT * FROM nowhere",
    ],
)
def test_files_and_changes_are_out_of_reach(path: Path, sql: str, tmp_path: Path) -> None:
    with pytest.raises(CutawayError) as caught:
        query(cutaway.open(path), sql.replace("{tmp}", str(tmp_path)))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def command(*words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "cutaway", "query", *words]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def test_the_command_writes_csv_and_json(path: Path) -> None:
    sql = "SELECT process, pid, name FROM processes"
    rows = list(csv.DictReader(io.StringIO(command(str(path), sql).stdout)))
    told = json.loads(command(str(path), sql, "--json").stdout)
    assert [int(row["pid"]) for row in rows] == [row["pid"] for row in told]
    failed = command(str(path), "DROP TABLE cells")
    assert failed.returncode == 1 and failed.stderr.count("\n") == 1
