"""SQL over a run: the documented tables, and nothing but them."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.analysis.query import TABLES, query
from cutaway.errors import CutawayError
from cutaway.trace.imports import import_files
from cutaway.trace.writer import RunWriter

pytestmark = pytest.mark.core

TRACE = (
    Path(__file__).parents[1]
    / "data"
    / "traces"
    / "kineto_hta"
    / "hta_gpu_user_annotation.json.gz"
)


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
        run,
        "SELECT operation, sum(ns)::BIGINT AS ns FROM cells GROUP BY operation ORDER BY ns DESC",
    )
    by_thread = run.breakdown(by=("thread", "operation"))
    for row in found:
        assert row["ns"] == int(by_thread.where(operation=row["operation"])["ns"].sum())


def test_joins_between_tables_work(path: Path) -> None:
    sql = "SELECT p.name, count(*) AS n FROM kernels k JOIN processes p USING (process) GROUP BY p.name"
    assert query(cutaway.open(path), sql)["n"].tolist() == [
        len(cutaway.open(path).kernels())
    ]


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
def test_files_and_changes_are_out_of_reach(
    path: Path, sql: str, tmp_path: Path
) -> None:
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


def test_a_query_is_utf_8_whatever_the_locale(path: Path) -> None:
    call = [
        sys.executable,
        "-m",
        "cutaway",
        "query",
        str(path),
        "SELECT 'é' = chr(233)",
    ]
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        call, env={**os.environ, **locale}, capture_output=True, text=True
    )
    assert done.stderr == "" and done.stdout.splitlines()[1] == "True"
    broken = subprocess.run(
        [*call[:-1], b"SELECT '\xe9'"], capture_output=True, text=True
    )
    assert broken.returncode == 2 and "not valid UTF-8" in broken.stderr


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('.tmp/x')",
        "SELECT * FROM read_csv('.tmp/x')",
        "SELECT * FROM '.tmp/x.csv'",
    ],
)
def test_the_folder_for_spilling_is_out_of_reach(
    path: Path, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".tmp").mkdir()
    for name in ("x", "x.csv"):
        (tmp_path / ".tmp" / name).write_text("secret\n1\n")
    with pytest.raises(CutawayError, match="The query failed"):
        query(cutaway.open(path), sql)


def test_memory_bounds_the_answer_too(path: Path) -> None:
    with pytest.raises(CutawayError, match="LIMIT"):
        query(cutaway.open(path), "SELECT * FROM range(10_000_000)", "64MB")


def test_no_name_steers_a_terminal(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "r.cutaway") as run:
        process = run.process(pid=1, name="main")
        process.thread(tid=1).spans(
            [0], [10], ops=[process.name("\x1b]0;owned\x07\x1b[2J\ud800")]
        )
    for words in ([], ["--csv"]):
        leader, follower = os.openpty()
        call = [
            sys.executable,
            "-m",
            "cutaway",
            "query",
            str(tmp_path / "r.cutaway"),
            "SELECT operation FROM operations",
        ]
        subprocess.run(
            [*call, *words],
            stdout=follower,
            check=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(follower)
        shown = os.read(leader, 100_000)
        assert (
            b"owned" in shown
            and b"\x1b]" not in shown
            and b"\x1b[2J" not in shown
            and b"\x07" not in shown
        )
        os.close(leader)
