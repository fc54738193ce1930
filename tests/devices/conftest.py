"""Builds the CUPTI double and a trainer without Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import double
import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def fake_cupti(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libcupti.so.12, the double."""
    return double.build(tmp_path_factory.mktemp("cupti") / "libcupti.so.12")


@pytest.fixture(scope="session")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program without Python that is injected into as libcuda would do it."""
    out = tmp_path_factory.mktemp("trainer") / "trainer"
    subprocess.run(["cc", "-O1", str(HERE / "trainer.c"), "-o", str(out), "-ldl"], check=True)
    return out
