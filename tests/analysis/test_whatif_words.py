"""Changes as people write them, and what they are told when they write nonsense."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from constructed import lockstep

from cutaway.analysis.whatif.changes import Cores, Faster, Overlap
from cutaway.analysis.whatif.words import parse

pytestmark = [pytest.mark.core, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def constructed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lockstep(tmp_path_factory.mktemp("constructed") / "train.cutaway")


def test_words() -> None:
    assert parse("a.py:3=free") == [Faster("a.py:3", float("inf"))]
    assert parse("cores=2,4") == [Cores(2), Cores(4)]
    assert parse("overlap=update,rollout") == [Overlap("update", "rollout")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("simulatoin=2x", "did you mean simulation"),
        ("train.py:999=0", "No sample was taken"),
        ("simulation", "is no change"),
        ("simulation=fast", "write 2x"),
        ("cores=none", "between 1 and 1024"),
        ("workers=9", "cannot fill 9 workers"),
        ("actors=0", "between 1 and 1024"),
        ("batch=64", "--second RUN --sizes"),
        ("SIMULATION=2x", "did you mean simulation"),
        ("kernel=2x", "Nothing in this run is of layer kernel"),
        ("overlap=update,update", "cannot run beside itself"),
        ("update=2x update=3x", "update= is there twice; say it once"),
        ("cores=2 cores=4", "write cores=2,4 for a curve"),
        ("envs=2,3 cores=1,2", "Only one change can have several"),
    ],
)
def test_bad_input_is_one_sentence(
    constructed: Path, words: str, sentence: str
) -> None:
    command = [sys.executable, "-m", "cutaway", "what-if", str(constructed)]
    command += words.split()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
