"""Runs that released versions recorded: every later version reads them, and reads the same."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import cutaway
from cutaway.analysis import Run

pytestmark = pytest.mark.core

RUNS = Path(__file__).parents[1] / "data" / "runs"
VERSIONS = sorted(path.stem for path in RUNS.glob("*.json"))
TABLES = ["breakdown", "operations", "iterations", "transitions", "processes"]


def opened(version: str, folder: Path) -> Run:
    with tarfile.open(RUNS / f"{version}.tar.gz") as archive:
        archive.extractall(folder)
    return cutaway.open(folder / "run.cutaway")


def table(run: Run, name: str) -> list[dict[str, object]]:
    if name == "breakdown":
        return list(run.breakdown(by=("process", "operation", "layer", "resource")))
    return list(getattr(run, name)())


def test_the_first_release_is_among_them() -> None:
    assert "0.1.0" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_values_that_were_read_then(
    name: str, version: str, tmp_path: Path
) -> None:
    then = json.loads((RUNS / f"{version}.json").read_text())[name]
    rows = table(opened(version, tmp_path), name)
    now = [[row[column] for column in then["columns"]] for row in rows]
    assert sorted(now, key=str) == then["rows"]


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_lost(version: str, tmp_path: Path) -> None:
    then = json.loads((RUNS / f"{version}.json").read_text())["losses"]
    now = opened(version, tmp_path).losses()
    assert {kind: now[kind] for kind in then} == then
