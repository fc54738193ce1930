"""What leaves a recorded call other than by returning: C++ exceptions, and threads that end inside it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
from recorded import one, read, script
from recorded_calls import calls, recording

from cutaway import _recorder

pytestmark = pytest.mark.core

# throws() lets a C++ exception out of a function that Python calls; catches(f) calls f's C function and catches it.
THROWING = r"""
#include <Python.h>
#include <stdexcept>
static PyObject* throws(PyObject*, PyObject*) { throw std::runtime_error("thrown in native code"); }
static PyObject* works(PyObject*, PyObject*) { Py_RETURN_NONE; }
static PyObject* catches(PyObject*, PyObject* f) {
  try {
    return PyCFunction_GET_FUNCTION(f)(PyCFunction_GET_SELF(f), nullptr);
  } catch (const std::runtime_error& error) {
    return PyUnicode_FromString(error.what());
  }
}
static PyMethodDef methods[] = {{"throws", throws, METH_NOARGS, nullptr},
                                {"works", works, METH_NOARGS, nullptr},
                                {"catches", catches, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "throwing", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_throwing() { return PyModule_Create(&definition); }
"""


@pytest.fixture(scope="module")
def throwing(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("native")
    source = folder / "throwing.cpp"
    source.write_text(THROWING)
    library = folder / ("throwing" + str(sysconfig.get_config_var("EXT_SUFFIX")))
    compiler = shutil.which("c++") or "g++"
    headers = sysconfig.get_path("include")
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{headers}", source, "-o", library], check=True)
    spec = importlib.util.spec_from_file_location("throwing", library)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_cpp_exception_passes_and_closes_the_call(tmp_path: Path, throwing: ModuleType) -> None:
    for name in ("throws", "works", "catches"):
        assert _recorder.patch(getattr(throwing, name), name, "backend")
    with recording(tmp_path):
        for _ in range(100):
            assert throwing.catches(throwing.throws) == "thrown in native code"
            throwing.works()
    seen = calls(tmp_path, "backend")
    assert [(c.fn, c.parents) for c in seen] == 100 * [
        ("catches", ()),
        ("throws", ("catches",)),
        ("works", ()),
    ]


def test_threads_that_end_inside_a_wait_when_the_program_does(tmp_path: Path) -> None:
    """Python ends daemon threads where they are: the stack is unwound through our hooks, or stays for ever."""
    program = script(
        tmp_path,
        """
        import os, queue, threading, time
        import cutaway
        lock = threading.Lock()
        lock.acquire()
        nothing, _ = os.pipe()
        waits = [lambda: time.sleep(0.05), lambda: time.sleep(60), lock.acquire, queue.SimpleQueue().get,
                 lambda: os.read(nothing, 1), lambda: [time.sleep(0.0001) for _ in range(10**6)]]
        for wait in waits * 2:
            threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.02)
        with cutaway.operation("last"): pass
        print("ended")
        """,
    )
    for number in range(3):
        run = tmp_path / f"{number}.cutaway"
        environment = {**os.environ, "CUTAWAY": str(run)}
        done = subprocess.run(
            [sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=600
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
        assert one(read(run)).operations["last"] == 1
