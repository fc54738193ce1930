"""A process that dies, however it dies, loses nothing that had happened."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams import array_of, only_process, run

from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import Kind
from effort import effort

pytestmark = pytest.mark.core

TRIALS = effort(200, 50)  # kills


def steps_of(process: ProcessTrace, thread: int) -> np.ndarray[Any, Any]:
    records = array_of(process, thread)
    return records["value"][(records["tag"] & 0xFF) == Kind.STEP]


def check_stream(process: ProcessTrace, thread: int, truth: int) -> None:
    """Every counted event is there once, in order; at most the one in the making comes on top."""
    values = steps_of(process, thread)
    assert np.array_equal(values, np.arange(1, len(values) + 1))
    assert truth <= len(values) <= truth + 1


def check_trial(told: dict[str, Any]) -> int:
    run = read_run(told["folder"])
    by_parenthood = {
        process.log.process["pid"] == told["pid"]: process for process in run.processes
    }
    parent, child = by_parenthood[True], by_parenthood[False]
    assert child.log.process["ppid"] == told["pid"]
    threads = {info.name: id for id, info in parent.log.threads.items()}
    check_stream(parent, threads["MainThread"], told["counts"]["parent"])
    check_stream(parent, threads["thread"], told["counts"]["thread"])
    check_stream(child, 0, told["counts"]["child"])
    assert [process.losses.total for process in run.processes] == [0, 0]
    return sum(told["counts"].values())


def test_kills_at_random_moments(tmp_path: Path) -> None:
    server = [
        sys.executable,
        str(Path(__file__).with_name("kill_server.py")),
        str(tmp_path),
        "0",
        str(TRIALS),
    ]
    trials = events = 0
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            events += check_trial(told)
            trials += 1
            shutil.rmtree(told["folder"])
    assert (process.returncode, trials) == (0, TRIALS)
    assert events > 100 * TRIALS


ENDS = {
    "os._exit(7)": 7,
    "os.abort()": -signal.SIGABRT,
    "import ctypes; ctypes.string_at(0)": -signal.SIGSEGV,
    "os.kill(os.getpid(), signal.SIGTERM)": -signal.SIGTERM,
    "sys.exit(3)": 3,
    "1 / 0": 1,
}


@pytest.mark.parametrize("end", ENDS)
def test_every_event_before_the_end_is_there(tmp_path: Path, end: str) -> None:
    program = f"""
    import signal
    recorder.start(folder)
    for i in range(1, 20001):
        recorder.step(i)
    {end}
    """
    done = run(program, tmp_path)
    assert done.returncode == ENDS[end] and done.stdout == ""
    process = only_process(tmp_path)
    assert np.array_equal(steps_of(process, 0), np.arange(1, 20001))
    assert process.losses.total == 0
