"""The benchmark of this machine and the self-check, for real; the cache; a heavy recorder that must be found and removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.calibration.prior import FALLBACK, Prior

pytestmark = pytest.mark.core

PROGRAM = """
import cutaway
total = 0.0
for i in range({iterations}):
    with cutaway.operation("simulation"):
        for j in range(300):
            total += (i * j) % 7
    for j in range(20):
        with cutaway.operation("inference"):
            total += sum(range(200))
    cutaway.step(1)
    cutaway.iteration()
"""


def run(
    *words: object, cache: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), **environment}
    return subprocess.run(
        [sys.executable, "-m", "cutaway", *map(str, words)],
        capture_output=True,
        text=True,
        env=env,
    )


@pytest.fixture(scope="module")
def calibrated(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A cache in which this machine is measured, and what was said of it."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, run("calibrate", "--quick", "--json", cache=cache)


@pytest.fixture
def cache(
    calibrated: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copytree(calibrated[0], tmp_path / "cache"))


def test_the_machine_is_measured_once_and_remembered(
    calibrated: tuple[Path, subprocess.CompletedProcess[str]],
    cache: Path,
    tmp_path: Path,
) -> None:
    done = calibrated[1]
    assert done.returncode == 0, done.stderr
    found = Prior.from_json(json.loads(done.stdout))
    assert found is not None
    assert found.key != FALLBACK.key
    assert set(found.kinds) >= {
        "call",
        "call_many_arguments",
        "call_keywords",
        "slot",
        "getset",
        "operation",
    }
    assert all(k.hot.low <= k.hot.ns <= k.hot.high for k in found.kinds.values())
    assert found.kinds["call"].hot.ns > 0
    assert len(list((cache / "cutaway").glob("calibration-*.json"))) == 1
    (tmp_path / "train.py").write_text(PROGRAM.format(iterations=3))
    first = run("run", "-o", tmp_path / "a.cutaway", tmp_path / "train.py", cache=cache)
    assert "measuring what recording costs" not in first.stderr
    kept = Prior.from_json(
        json.loads((tmp_path / "a.cutaway" / "calibration.json").read_text())
    )
    assert kept == found


def test_a_recorder_made_heavy_is_found_and_removed(
    cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(iterations=15_000))
    heavy = {"CUTAWAY_DEBUG_SPIN_NS": "2000"}
    for name, environment in (("light", {}), ("heavy", heavy)):
        done = run("run", "-q", "--calibrate-share", "0.1", "-o", tmp_path / f"{name}.cutaway", tmp_path / "train.py",
                   cache=cache, **environment)  # fmt: skip
        assert done.returncode == 0, done.stderr
    light, heavy_run = (
        cutaway.open(tmp_path / f"{name}.cutaway") for name in ("light", "heavy")
    )
    spun = heavy_run.calibration
    assert spun is not None
    assert spun.measured is not None
    cost = spun.costs.inside["operation"].ns + spun.costs.outside["operation"].ns
    assert 3000 < cost < 6000, spun  # two records of 2 µs each, and the light cost
    raw, corrected = (
        int(heavy_run.breakdown(by=["process"])[column].sum())
        for column in ("raw_ns", "ns")
    )
    events = 15_000 * 21
    # Whatever the program itself takes on this machine.
    assert events * 2500 < raw - corrected < events * 6000
    own = light.breakdown(by=["process"])
    assert int(own["raw_ns"].sum()) - int(own["ns"].sum()) < (raw - corrected) / 2


def test_raw_leaves_everything_in(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(iterations=200))
    run("run", "-q", "-o", tmp_path / "r.cutaway", tmp_path / "train.py", cache=cache)
    raw = json.loads(
        run("show", tmp_path / "r.cutaway", "--raw", "--json", cache=cache).stdout
    )
    corrected = json.loads(
        run("show", tmp_path / "r.cutaway", "--json", cache=cache).stdout
    )
    assert raw["correction"] is None
    assert 0 <= corrected["correction"]["removed"] < 0.5


def test_the_self_check_states_bias_and_interval(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(iterations=300))
    done = run(
        "calibrate", "--pairs", 2, "--json", "--", tmp_path / "train.py", cache=cache
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["pairs"] == 2
    value, low, high = result["bias"]
    assert low <= value <= high
    assert result["inflation"][0] > 0.5


def test_a_program_that_fails_is_one_sentence(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit('no such thing')")
    done = run("calibrate", "--pairs", 2, "--", tmp_path / "bad.py", cache=cache)
    assert done.returncode == 1
    assert "no such thing" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "cutaway").write_text("a file where the folder should be")
    assert run("calibrate", "--quick", cache=tmp_path).returncode == 0
