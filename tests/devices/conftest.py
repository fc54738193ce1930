"""Builds the CUPTI double and a trainer without Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HEADERS = "tests of the CUPTI collector need cupti.h: install a CUDA toolkit or the nvidia-cuda-cupti wheel"


def cuda_includes() -> list[str]:
    """Folders with cupti.h and cuda.h, from CUDA_HOME, a toolkit or the wheels."""
    roots = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    roots += sorted(Path("/usr/local").glob("cuda*/include"))
    for folder in sys.path:
        roots += Path(folder).glob("nvidia/*/include")
    found = [root for root in roots if any((root / name).exists() for name in ("cupti.h", "cuda.h"))]
    assert any((root / "cupti.h").exists() for root in found), HEADERS
    return [option for root in dict.fromkeys(found) for option in ("-isystem", str(root))]


@pytest.fixture(scope="session")
def fake_cupti(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libcupti.so.12, the double."""
    out = tmp_path_factory.mktemp("cupti") / "libcupti.so.12"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *cuda_includes()]
    subprocess.run(["cc", *flags, str(HERE / "fake_cupti.c"), "-o", str(out), "-lpthread"], check=True)
    return out


@pytest.fixture(scope="session")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program without Python that is injected into as libcuda would do it."""
    out = tmp_path_factory.mktemp("trainer") / "trainer"
    subprocess.run(["cc", "-O1", str(HERE / "trainer.c"), "-o", str(out), "-ldl"], check=True)
    return out
