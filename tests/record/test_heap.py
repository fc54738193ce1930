"""The sampler of allocations: it changes nothing, survives forks and threads, and can be taken out again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from recorded import cutaway, script

import cutaway as package

pytestmark = pytest.mark.core

KEEPS = """
import time
import numpy as np
kept = []
for i in range(60):
    kept.append(np.ones(250_000))
    time.sleep(0.01)
time.sleep(0.5)
"""


def _kept(path: Path, what: str = "malloc") -> int:
    rows = package.open(path).memory()
    return sum(
        row["bytes"]
        for row in rows
        if row["what"] == what and row["your_file"].endswith("train.py")
    )


def test_large_blocks_are_counted_to_a_few_per_cent(tmp_path: Path) -> None:
    program = script(tmp_path, KEEPS)
    cutaway("run", "-q", "--memory", "-o", "run.cutaway", program, cwd=tmp_path)
    assert abs(_kept(tmp_path / "run.cutaway") - 120e6) < 0.2 * 120e6


def test_what_is_freed_is_not_kept(tmp_path: Path) -> None:
    program = script(
        tmp_path, KEEPS.replace("kept.append(np.ones(250_000))", "a = np.ones(250_000)")
    )
    cutaway("run", "-q", "--memory", "-o", "run.cutaway", program, cwd=tmp_path)
    assert _kept(tmp_path / "run.cutaway") < 20e6


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    program = script(tmp_path, KEEPS)
    cutaway("run", "-q", "-o", "run.cutaway", program, cwd=tmp_path)
    assert len(package.open(tmp_path / "run.cutaway").memory()) == 0


def test_a_forked_child_counts_its_own(tmp_path: Path) -> None:
    text = """
import os, time
import numpy as np
parents = [np.ones(250_000) for _ in range(40)]
time.sleep(0.5)
if os.fork() == 0:
    import cutaway
    with cutaway.operation("simulation"):
        mine = [np.ones(250_000) for _ in range(20)]
        for _ in range(60):
            time.sleep(0.05)
            with cutaway.operation("inference"):
                pass
    del parents
    os._exit(0)
os.wait()
"""
    program = script(tmp_path, text)
    cutaway("run", "-q", "--memory", "-o", "run.cutaway", program, cwd=tmp_path)
    rows = list(package.open(tmp_path / "run.cutaway").memory())
    child = [row for row in rows if row["process"] == 1 and row["bytes"] > 5e6]
    assert {row["operation"] for row in child} == {"simulation"}
    assert 25e6 < sum(row["bytes"] for row in child) < 55e6


def test_many_threads_that_allocate_and_end(tmp_path: Path) -> None:
    text = """
import threading, time
import numpy as np
def work():
    for _ in range(200):
        a = [np.ones(20_000) for _ in range(5)]
        b = bytearray(300_000)
for _ in range(10):
    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
time.sleep(0.4)
print("done")
"""
    program = script(tmp_path, text)
    done = cutaway("run", "-q", "--memory", "-o", "run.cutaway", program, cwd=tmp_path)
    assert done.stdout.strip() == "done"


def test_recording_twice_in_one_process(tmp_path: Path) -> None:
    text = """
import time, cutaway
import numpy as np
kept = []
for name in ("a", "b"):
    with cutaway.record(name + ".cutaway", memory=True):
        for _ in range(30):
            kept.append(np.ones(250_000))
            time.sleep(0.01)
        time.sleep(0.4)
print(sum(float(a.sum()) for a in kept))
"""
    program = script(tmp_path, text)
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == "15000000.0"
    for name in ("a", "b"):
        assert 40e6 < _kept(tmp_path / f"{name}.cutaway") < 80e6
