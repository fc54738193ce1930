"""Programs that are no trainer of the known kind: their runs are replayed. Eight workers compute for 10 ms in each round."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from constructed import crowd

from cutaway_balance import sources
from cutaway_balance.recorded import Replays

pytestmark = [pytest.mark.core, pytest.mark.timeout(120)]

WORKERS = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crowd(tmp_path_factory.mktemp("crowd") / "r.cutaway", WORKERS)


def balance(*words: object) -> str:
    command = [sys.executable, "-m", "cutaway", "balance", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def point(run: Path, *words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(balance("predict", run, "--json", *words))
    return dict(found["points"][0])


def test_it_is_replayed_and_says_so(run: Path) -> None:
    known = sources.load([run]).predictor
    assert isinstance(known, Replays)
    assert known.measured_at == (WORKERS,)
    assert "replayed from runs with 8 actors" in balance("explain", run)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--actors", 4), 400),
        (("--actors", 16), 800),  # its eight cores are full
        (("--actors", 16, "--machine", "wide"), 1600),
        (("--actors", 8, "--machine", "wide"), 800),
    ],
)
def test_it_saturates_where_its_cores_end(
    run: Path, tmp_path: Path, words: tuple[object, ...], expected: float
) -> None:
    wide = tmp_path / "wide.toml"
    wide.write_text("cores = 16\nthreads = 16\nsmt_yield = 1.0\n")
    asked = [wide if word == "wide" else word for word in words]
    found = point(run, *asked)
    assert found["steps_per_s"] == pytest.approx(expected, rel=0.05)
    assert found["low"] <= found["steps_per_s"] <= found["high"]


def test_the_cores_are_what_limits_it(run: Path) -> None:
    found = json.loads(balance("explain", run, "--actors", 32, "--json"))["points"][0]
    assert found["binding"] == "cpu"
    gains = found["elasticities"]
    assert gains["simulation 10 % faster"] == pytest.approx(10, abs=1)
    assert {"one more CPU thread", "one more actor"} < gains.keys()


def test_advice_stops_where_more_actors_bring_nothing(run: Path) -> None:
    said = balance("advise", run)
    assert said.startswith("Run 8 actors: ")
    assert "More actors bring at most" in said
    assert max(map(len, said.splitlines())) <= 90
