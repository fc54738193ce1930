"""What if on another machine: a crowd of workers whose time is known, on cores that are shared, slower or faster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from constructed import crowd

pytestmark = [pytest.mark.core, pytest.mark.timeout(120)]

WORKERS = 8
SHARED = "cores = 4\nthreads = 8\nsmt_yield = 1.25\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crowd(tmp_path_factory.mktemp("crowd") / "r.cutaway", WORKERS)


def asked(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cutaway", "what-if", str(run), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def predicted(run: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(run, *words, "--json").stdout)
    (one,) = found["predictions"]
    return dict(one)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        (SHARED, (), 5 / 8),  # four cores that do the work of five
        (SHARED + "turbo = 0.8\n", (), 4 / 8),
        (SHARED + "cpu_speed = 2.0\n", (), 10 / 8),
        (SHARED, ("cores=4",), 4 / 8),  # one thread of each core
        (SHARED, ("simulation=2x",), 10 / 8),
        ("cores = 64\nthreads = 64\n", (), 1.0),
    ],
)
def test_another_machine_works_as_fast_as_its_cores_do(
    run: Path, tmp_path: Path, text: str, words: tuple[str, ...], expected: float
) -> None:
    machine = tmp_path / "other.toml"
    machine.write_text(text)
    one = predicted(run, *words, "--machine", str(machine))
    assert one["speedup"] == pytest.approx(expected, rel=0.03)
    assert "other has" in " ".join(one["assumes"])


def test_a_machine_that_comes_with_cutaway(run: Path) -> None:
    said = asked(run, "cores=2,4,8", "--machine", "dgx1").stdout
    assert "--machine dgx1 cores=8" in said
    assert "20 cores and 40 CPU threads" in " ".join(said.split())
    assert "as fast as here" in " ".join(said.split())


def test_what_a_machine_does_not_have_is_refused(run: Path) -> None:
    assert "There is no machine 'nowhere'" in asked(run, "--machine", "nowhere").stderr
    many = asked(run, "cores=64", "--machine", "dgx1")
    assert "has 40 CPU threads" in many.stderr and many.returncode == 1
