"""The lists in the docs are those of the code, and their columns are the columns of a recorded run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PROGRAM = """
import cutaway
for _ in range(3):
    cutaway.iteration()
    with cutaway.operation("inference"):
        pass
"""


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "scripts" / "reference")
    return subprocess.run(
        [sys.executable, script, "--check", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_pages_are_up_to_date() -> None:
    done = check(DOCS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_column_that_is_missing_on_a_page_is_noticed(tmp_path: Path) -> None:
    page = (DOCS / "query.md").read_text(encoding="utf-8")
    (tmp_path / "query.md").write_text(
        page.replace("`carries_operations`, ", "", 1), encoding="utf-8"
    )
    shutil.copy(DOCS / "reference.md", tmp_path)
    done = check(tmp_path)
    assert done.returncode == 1 and "query.md is out of date" in done.stdout
    assert "reference.md" not in done.stdout


def test_the_columns_are_those_of_a_recorded_run(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-q",
        "-o",
        "run.cutaway",
        str(program),
    ]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    run = cutaway.open(tmp_path / "run.cutaway")
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    tables = re.findall(
        r"^### (\w+)\n\n`run\.\w+\((.*?)\)`(.*?)(?=^#|\Z)", page, re.M | re.S
    )
    assert {"processes", "waits", "kernels"} <= {name for name, *_ in tables}
    for name, _, text in tables:
        named = re.findall(r"^\| `(\w+)` \|", text, re.M)
        found = [*getattr(run, name)().columns]
        assert [column for column in named if column in found] == found, name
