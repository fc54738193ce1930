"""What the kernel does with memory, in real programs: it kills one whose group has no more, and counts what several share once."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cutaway
from cutaway.reports.digests import digest_of
from record.recorded import cutaway as command
from record.recorded import script

LIMIT = 400_000_000
GREEDY = """
import multiprocessing, time
import numpy as np
import cutaway

def eat():
    kept = []
    for _ in range(200):
        kept.append(np.ones(2_500_000))
        time.sleep(0.02)

if __name__ == "__main__":
    kept = np.ones(2_000_000)
    greedy = multiprocessing.get_context("spawn").Process(target=eat, name="greedy")
    greedy.start()
    while greedy.is_alive():
        cutaway.iteration()
        time.sleep(0.05)
    greedy.join()
"""
SHARED = 100_000_000
WORKERS = 3
SHARING = f"""
import multiprocessing, time
from multiprocessing import shared_memory
import numpy as np
import cutaway

def read(name, seconds):
    memory = shared_memory.SharedMemory(name)
    for _ in range(int(seconds * 10)):
        np.frombuffer(memory.buf, np.uint8).sum()
        time.sleep(0.1)
    memory.close()

if __name__ == "__main__":
    memory = shared_memory.SharedMemory(create=True, size={SHARED})
    np.frombuffer(memory.buf, np.uint8)[:] = 1
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=read, args=(memory.name, 4)) for _ in range({WORKERS})]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        cutaway.iteration()
        time.sleep(0.05)
    memory.close()
    memory.unlink()
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group whose processes may have 400 MB together."""
    root = Path("/sys/fs/cgroup")
    old = (root / "memory").is_dir()
    folder = (root / "memory" if old else root) / f"cutaway-test-{os.getpid()}"
    try:
        folder.mkdir()
        limit = "memory.limit_in_bytes" if old else "memory.max"
        (folder / limit).write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"needs a control group of its own: {error}")
    yield folder
    folder.rmdir()


def test_a_process_that_the_kernel_kills_is_told_with_who_had_most(
    tmp_path: Path, group: Path
) -> None:
    script(tmp_path, GREEDY)
    words = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-q",
        "-o",
        "r.cutaway",
        "train.py",
    ]
    into = f"echo $$ > {group}/cgroup.procs; exec {shlex.join(words)}"
    assert os.system(f"cd {tmp_path} && sh -c {shlex.quote(into)}") == 0
    found = digest_of(cutaway.open(tmp_path / "r.cutaway"))
    assert found.ending.failure.startswith("greedy ")
    assert (
        "was killed by the kernel because memory ran out: the run had"
        in found.ending.failure
    )
    assert "of 400.0 MB, greedy" in found.ending.failure
    assert found.memory.limit == pytest.approx(LIMIT, rel=0.001)


def test_memory_that_processes_share_counts_once(tmp_path: Path) -> None:
    script(tmp_path, SHARING)
    done = command("run", "-q", "-o", "r.cutaway", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    memory = digest_of(cutaway.open(tmp_path / "r.cutaway")).memory
    everyone = [row["peak"] for row in memory.processes if row["peak"] > SHARED]
    assert len(everyone) >= 1 + WORKERS, "each has all of it in its resident memory"
    assert memory.peak < sum(everyone) - (WORKERS - 1) * SHARED
