"""`keep`: a program that runs longer than the stretch it keeps in full, to its end and killed in the middle."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cutaway
from cutaway.trace.reader import read_run

pytestmark = pytest.mark.core

PROGRAM = """
import sys, threading, time
import cutaway

done = threading.Event()
helper = threading.Thread(target=done.wait, daemon=True)  # sits in one call for as long as the program runs
helper.start()
until, count = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    if "iterations" in sys.argv:
        cutaway.iteration()
    for _ in range(20):
        with cutaway.operation("rollout"):
            pass
        count += 1
    print(count, flush=True)
    time.sleep(0.001)
done.set()
"""


@pytest.fixture
def start(tmp_path: Path):
    """Starts the program with a stretch of a second; everything it printed is in its file."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(seconds: float, *words: str) -> tuple[subprocess.Popen[bytes], Path, Path]:
        path, said = tmp_path / "r.cutaway", tmp_path / "said"
        (tmp_path / "r.cutaway").mkdir()
        environment = {**os.environ, "CUTAWAY": f"{path}?keep=1s&calibrate_share=0"}
        with said.open("wb") as file:
            child = subprocess.Popen(
                [sys.executable, str(program), str(seconds), *words],
                env=environment,
                stdout=file,
            )
        return child, path, said

    return run


def wait_for_past(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not list(path.glob("p*/past.bin")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(path.glob("p*/past.bin")), "nothing was folded"


def operations(path: Path) -> int:
    run = cutaway.open(path)
    table = run.operations().where(operation="rollout")
    threads = run.threads()
    assert (threads["end_ns"] - threads["start_ns"] == threads["traced_ns"]).all()
    cells = run.breakdown(by=("thread", "layer"))
    assert int(cells["raw_ns"].sum()) == int(threads["traced_ns"].sum())
    assert sum(run.losses().values()) == 0
    return int(table["count"].sum())


def test_a_program_that_ends_has_all_its_operations(start):
    child, path, said = start(6, "iterations")
    assert child.wait() == 0
    wait_for_past(path)
    past = read_run(path).processes[0].past
    assert past is not None and past.until_ns > past.steady_ns > 0
    assert operations(path) == int(said.read_text().split()[-1])
    run = cutaway.open(path)
    assert len(run.iterations()) == len(said.read_text().split())
    assert int(run.over_time()["ns"].sum()) == int(
        run.breakdown(by="layer")["raw_ns"].sum()
    )


def test_a_program_without_iterations_becomes_smaller_too(start):
    child, path, said = start(6)
    assert child.wait() == 0
    wait_for_past(path)
    process = read_run(path).processes[0]
    assert (
        process.past is not None
        and process.past.until_ns > process.past.edge_ns > process.past.steady_ns == 0
    )
    assert operations(path) == int(said.read_text().split()[-1])
    run = cutaway.open(path)
    assert not len(run.iterations())
    parts = [
        int(part.breakdown(by="layer")["raw_ns"].sum())
        for part in (run.startup(), run.steady(), run)
    ]
    assert parts[0] == 0 < parts[1] == parts[2]  # nothing says where its start-up ended


def test_a_kill_at_any_moment_loses_nothing_and_counts_nothing_twice(start):
    child, path, said = start(600, "iterations")
    try:
        wait_for_past(path)
        time.sleep(random.random() * 2)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    made = int(said.read_text().split()[-1])
    assert 0 <= operations(path) - made <= 20
    time.sleep(2)  # the helper finds nobody alive, and leaves what is there
    assert 0 <= operations(path) - made <= 20
