"""Samples and anchors: what the background thread measures."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from streams import only_process, recording, run

from cutaway import _recorder
from cutaway.trace.reader import read_run

pytestmark = pytest.mark.core


def test_samples_hold_cpu_time_waiting_and_memory(tmp_path: Path) -> None:
    before = time.thread_time_ns()
    with recording(tmp_path, sample_hz=50):
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
    spent = time.thread_time_ns() - before
    process = only_process(tmp_path)
    samples = process.log.samples
    assert len(samples) >= 3
    cpu = [s["threads"][str(os.getpid())] for s in samples if str(os.getpid()) in s["threads"]]
    assert 0.1e9 < cpu[-1][0] - cpu[0][0] <= spent
    assert [c[0] for c in cpu] == sorted(c[0] for c in cpu) and [c[1] for c in cpu] == sorted(
        c[1] for c in cpu
    )
    assert all(s["rss"] > 5_000_000 and s["cores"] >= 0 and s["foreign"] >= 0 for s in samples)
    assert max(s["cores"] for s in samples) > 0.05
    times = [s["t"] for s in samples]
    assert times == sorted(set(times))


def test_the_recorders_own_cpu_time_is_told(tmp_path: Path) -> None:
    with recording(tmp_path):
        for _ in range(300_000):
            with _recorder.operation("a"):
                pass
    own = only_process(tmp_path).log.samples[-1]["own"]
    assert 0 < own <= _recorder.stats()["own_cpu_ns"]


def test_load_of_the_run_itself_is_not_foreign(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, sample_hz=20)
    pid = os.fork()
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        with recorder.operation("busy"):
            sum(range(20000))
    if pid:
        os.waitpid(pid, 0)
        recorder.stop()
    os._exit(0)
    """
    done = run(program, tmp_path)
    assert done.returncode == 0
    both = [process.log.samples for process in read_run(tmp_path).processes]
    assert len(both) == 2
    # Over the same stretch, once the meters of the two know of each other.
    start, end = max(s[0]["t"] for s in both) + 1_100_000_000, min(s[-1]["t"] for s in both)
    seen = [[s for s in samples if start < s["t"] <= end] for samples in both]
    own = sum(sum(s["cores"] for s in samples) / len(samples) for samples in seen)
    foreign = sum(s["foreign"] for s in seen[0]) / len(seen[0])
    assert own + foreign <= (os.cpu_count() or 1) + 0.5  # were the child foreign, it would count twice


def test_anchors_join_the_clocks(tmp_path: Path) -> None:
    before = time.monotonic_ns(), time.time_ns()
    with recording(tmp_path):
        time.sleep(0.05)
    after = time.monotonic_ns(), time.time_ns()
    first, last = only_process(tmp_path).log.anchors[0], only_process(tmp_path).log.anchors[-1]
    assert before[0] <= first.mono < last.mono <= after[0]
    assert before[1] <= first.real < last.real <= after[1]
    assert last.ticks > first.ticks
    assert abs((last.real - last.mono) - (first.real - first.mono)) < 1_000_000
    assert abs((last.mono - first.mono) - (last.raw - first.raw)) < 1_000_000


def test_the_background_thread_takes_no_signals_and_has_the_lowest_priority(tmp_path: Path) -> None:
    with recording(tmp_path):
        found = []
        deadline = time.monotonic() + 10
        while not found and time.monotonic() < deadline:
            for task in Path("/proc/self/task").iterdir():
                if (task / "comm").read_text() == "cutaway\n":
                    found.append(task)
        (task,) = found
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
        assert int(status["SigBlk"], 16) & 1 << 14  # SIGTERM
        assert int((task / "stat").read_text().rsplit(")", 1)[1].split()[16]) == 19
