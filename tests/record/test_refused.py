"""What cannot be recorded is refused in one sentence, and the program does not notice: real sub-interpreters.

A free-threaded Python is tested by scripts/test-free-threaded, which needs one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import notes, one, read, script

from cutaway import _recorder

pytestmark = pytest.mark.core

SENTENCE = (
    "sub-interpreters are not recorded; run the work to be measured in the main one"
)

# Every way this Python has to make a sub-interpreter: sharing the lock, and with a lock of its own from 3.12 on.
MAKERS = """
import sys, threading

def made():
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        kinds = ["isolated", "legacy"]
    else:
        import _xxsubinterpreters as interpreters
        kinds = [True, False]
    for kind in kinds:
        if sys.version_info >= (3, 13):
            yield interpreters, interpreters.create(kind)
        else:
            yield interpreters, interpreters.create(isolated=kind)

def run(interpreters, interpreter, code):
    if sys.version_info >= (3, 13):
        failure = interpreters.run_string(interpreter, code)
        assert failure is None, failure.formatted
    else:
        interpreters.run_string(interpreter, code)
"""


def recorded(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    program = script(folder, MAKERS + code)
    environment = {**os.environ, "CUTAWAY": str(folder / "run.cutaway")}
    return subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True
    )


def test_sub_interpreters_are_refused_in_one_sentence_and_run_on(
    tmp_path: Path,
) -> None:
    done = recorded(
        tmp_path,
        """
import cutaway
inside = '''
import os, select, socket, time, threading, queue
lock = threading.Lock()
with lock: time.sleep(0.003)
os.write(1, b"worked\\\\n")
a, b = socket.socketpair()
a.send(b"x"); b.recv(1)
select.select([a], [], [], 0.003)
queue.SimpleQueue().put(1)
{time.sleep: 1}[time.sleep], time.sleep == lock.acquire
'''
with cutaway.operation("outside"):
    for interpreters, interpreter in made():
        run(interpreters, interpreter, inside)
        interpreters.destroy(interpreter)
print("ended")
""",
    )
    assert (done.returncode, done.stdout) == (0, "worked\nworked\nended\n"), done.stderr
    assert done.stderr == f"cutaway: {SENTENCE}\n"
    assert one(read(tmp_path / "run.cutaway")).operations["outside"] == 1
    assert notes(tmp_path / "run.cutaway") == [SENTENCE]


def test_annotations_in_a_sub_interpreter_do_nothing(tmp_path: Path) -> None:
    done = recorded(
        tmp_path,
        """
inside = '''
import cutaway, cutaway._recorder
with cutaway.operation("hidden"), cutaway.phase("p"):
    cutaway.iteration(); cutaway.step(3); cutaway.phase("q"); cutaway.layer("math", "simulator")
@cutaway.operation("hidden")
def work(): return 7
assert work() == 7
with cutaway.record("never.cutaway"): pass
assert not hasattr(cutaway._recorder, "start")
'''
for interpreters, interpreter in made():
    run(interpreters, interpreter, inside)
""",
    )
    assert done.returncode == 0, done.stderr
    seen = one(read(tmp_path / "run.cutaway"))
    assert not seen.operations and not seen.steps and not seen.iterations
    assert not (tmp_path / "never.cutaway").exists()


def test_sub_interpreters_at_work_beside_the_recorded_one(tmp_path: Path) -> None:
    """With a lock of their own they really run at the same time as the hooks of the main interpreter."""
    done = recorded(
        tmp_path,
        """
import cutaway, time
inside = '''
import time, threading
lock = threading.Lock()
for i in range(300):
    with lock: time.sleep(0.00001)
    hash(time.sleep), time.sleep == lock.acquire
'''
threads = [threading.Thread(target=run, args=(*pair, inside)) for pair in [*made(), *made()]]
for thread in threads: thread.start()
for i in range(2000):
    with cutaway.operation("main"): time.sleep(0.00001)
for thread in threads: thread.join()
print("ended")
""",
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert one(read(tmp_path / "run.cutaway")).operations["main"] == 2000


def test_this_python_is_not_refused() -> None:
    assert _recorder.refused == ""
