"""A build on a machine without CUPTI and OpenCL headers: everything else works, and these say so."""

from __future__ import annotations

import ctypes
import subprocess

import pytest
from traces import ROOT

SOURCES = ("host", "standalone", "sink", "sink_api", "opencl/absent", "cupti/absent")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("bare") / "libcutaway_devices.so"
    files = [str(ROOT / f"native/devices/{name}.cpp") for name in SOURCES]
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", "-fvisibility=hidden", "-I", str(ROOT / "native")]
    subprocess.run(["c++", *flags, *files, "-o", str(out), "-lpthread", "-ldl"], check=True)
    return ctypes.CDLL(str(out))


def test_cupti_says_what_is_missing(library: ctypes.CDLL) -> None:
    message = ctypes.create_string_buffer(256)
    assert library.cutaway_cupti_start(None, 0, message, ctypes.c_size_t(256)) == -3
    assert message.value.decode().startswith("this Cutaway was built without cupti.h; ")
    assert library.cutaway_cupti_state() == -3
    assert library.InitializeInjection() == 1, "libcuda must not see a failure"


def test_opencl_says_that_it_is_not_there(library: ctypes.CDLL) -> None:
    assert library.cutaway_opencl_built() == 0
    assert not hasattr(library, "clInitLayer"), "a loader finds no layer"
