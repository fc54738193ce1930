"""A process that is killed inside a long call shows which call that was, from which line, and since when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recorded import cutaway, script
from streams import only_process, outline, run

import cutaway as api
from cutaway.trace.reader import ProcessTrace, read_run

pytestmark = pytest.mark.core

HANGS = """
import cutaway, time

cutaway.iteration()
with cutaway.operation("inference"):
    time.sleep(0.001)
with cutaway.operation("simulation"):
    time.sleep(600)
"""


def wait_for_pulse(folder: Path, seconds: float) -> ProcessTrace:
    """Until the main thread has been seen in the same place for so long."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for process in read_run(folder).processes if any(folder.glob("p*-*")) else ():
            if any(
                open.until - open.since >= seconds * 1e9
                for open in process.unfinished.values()
            ):
                return process
        time.sleep(0.1)
    raise AssertionError("no pulse was written")


def test_a_hang_shows_as_what_it_is(tmp_path: Path) -> None:
    train, folder = script(tmp_path, HANGS), tmp_path / "r.cutaway"
    environment = {**os.environ, "CUTAWAY": str(folder)}
    with subprocess.Popen([sys.executable, str(train)], env=environment) as child:
        wait_for_pulse(folder, 3.2)
        child.send_signal(signal.SIGKILL)
    (row,) = api.open(folder).unfinished()
    assert (row["function"], Path(row["file"]).name, row["line"]) == (
        "time.sleep",
        "train.py",
        8,
    )
    waited = row["until_ns"] - row["since_ns"]
    cells = {
        (c["operation"], c["layer"]): c["raw_ns"]
        for c in api.open(folder).breakdown(by=("operation", "layer"))
    }
    assert cells["simulation", "wait"] == waited >= 3_200_000_000
    (thread,) = api.open(folder).threads()
    assert thread["end_ns"] == row["until_ns"]
    told = json.loads(cutaway("show", "--json", "r.cutaway", cwd=tmp_path).stdout)
    assert told["verdict"]["rule"] == "hang"
    assert f"time.sleep ({tmp_path.name}/train.py:8)" in told["verdict"]["because"]
    assert any("was still inside time.sleep" in note for note in told["notes"])
    assert sum(told["losses"].values()) == 0


def test_what_was_written_after_a_pulse_counts_and_not_the_pulse(
    tmp_path: Path,
) -> None:
    program = """
    recorder.start(folder, sample_hz=50)
    recorder.step(1)
    pulse = os.path.join(recorder.folder(), "pulse.bin")
    while not os.path.exists(pulse) or not os.path.getsize(pulse):
        time.sleep(0.05)
    recorder.step(2)
    os.kill(os.getpid(), 9)
    """
    assert run(program, tmp_path).returncode == -9
    process = only_process(tmp_path)
    assert (process.folder / "pulse.bin").exists()
    assert process.unfinished == {}
    assert outline(process) == "begin step:1 step:2"


def test_python_code_that_records_nothing_lives_on_until_the_kill(
    tmp_path: Path,
) -> None:
    program = """
    recorder.start(folder, sample_hz=50)
    with recorder.operation("work"):
        pulse, began = os.path.join(recorder.folder(), "pulse.bin"), time.time()
        while not os.path.exists(pulse) or os.stat(pulse).st_mtime < began + 0.5:
            pass
        os.kill(os.getpid(), 9)
    """
    assert run(program, tmp_path).returncode == -9
    (open,) = only_process(tmp_path).unfinished.values()
    assert open.call == 0
    (cell,) = api.open(tmp_path).breakdown(by="operation").where(operation="work")
    assert cell["raw_ns"] >= open.until - open.since > 300_000_000


def test_a_clean_end_leaves_no_pulse(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, sample_hz=50)
    recorder.step(1)
    pulse = os.path.join(recorder.folder(), "pulse.bin")
    while not os.path.exists(pulse) or not os.path.getsize(pulse):
        time.sleep(0.05)
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
    process = only_process(tmp_path)
    assert sorted(path.name for path in process.folder.iterdir()) == [
        "events.bin",
        "log.jsonl",
    ]
    assert outline(process) == "begin step:1 end"


@pytest.mark.parametrize("place", [0, 5, 20, 32, 64, 72])
def test_a_damaged_pulse_says_nothing(tmp_path: Path, place: int) -> None:
    program = """
    recorder.start(folder, sample_hz=50)
    recorder.step(1)
    pulse = os.path.join(recorder.folder(), "pulse.bin")
    while not os.path.exists(pulse) or not os.path.getsize(pulse):
        time.sleep(0.05)
    os.kill(os.getpid(), 9)
    """
    assert run(program, tmp_path).returncode == -9
    path = only_process(tmp_path).folder / "pulse.bin"
    slot = bytearray(path.read_bytes())
    slot[place] ^= 0x11
    path.write_bytes(slot)
    assert only_process(tmp_path).unfinished == {}
