"""What leaves a recorded call other than by returning: C++ exceptions, and threads that end inside it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from recorded import one, read, script
from recorded_calls import calls, recording
from throwing import build_throwing

from cutaway import _recorder

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def throwing(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    library = build_throwing(tmp_path_factory.mktemp("native"), Path(sys.executable))
    spec = importlib.util.spec_from_file_location("throwing", library)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_cpp_exception_passes_and_closes_the_call(
    tmp_path: Path, throwing: ModuleType
) -> None:
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
            [sys.executable, str(program)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
        assert one(read(run)).operations["last"] == 1
