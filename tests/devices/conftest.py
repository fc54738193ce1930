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
    subprocess.run(
        ["cc", "-O1", str(HERE / "trainer.c"), "-o", str(out), "-ldl"], check=True
    )
    return out


@pytest.fixture(scope="session")
def kineto_device(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A fake asynchronous device as plug-in of Kineto, compiled against PyTorch's headers."""
    import torch

    out = tmp_path_factory.mktemp("kineto") / "libfake_kineto.so"
    root = Path(torch.__file__).parent
    includes = [
        "-isystem",
        str(root / "include"),
        "-isystem",
        str(root / "include/kineto"),
    ]
    flags = ["-std=c++20", "-O0", "-shared", "-fPIC", "-DFMT_HEADER_ONLY", *includes]
    source = str(HERE / "fake_kineto.cpp")
    subprocess.run(
        ["c++", *flags, source, "-o", str(out), f"-L{root / 'lib'}", "-ltorch_cpu"],
        check=True,
    )
    return str(out)
