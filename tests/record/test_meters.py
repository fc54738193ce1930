"""Samples and anchors: what the background thread measures."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from streams import only_process, recording, run

from cutaway import _recorder
from cutaway.trace.reader import read_run

pytestmark = pytest.mark.core


def sampled() -> int:
    """Samples of this very process that are on disk."""
    return (Path(_recorder.folder()) / "log.jsonl").read_bytes().count(b'"k":"sample"')


def test_samples_hold_cpu_time_waiting_and_memory(tmp_path: Path) -> None:
    before = time.thread_time_ns()
    with recording(tmp_path, sample_hz=50):
        # The thread that samples has the lowest priority: on a busy machine it comes late.
        for wanted in (1, 3):
            end, patience = time.thread_time() + 0.15, time.monotonic() + 300
            while time.thread_time() < end or (
                sampled() < wanted and time.monotonic() < patience
            ):
                pass
    spent = time.thread_time_ns() - before
    process = only_process(tmp_path)
    samples = process.log.samples
    assert len(samples) >= 3
    cpu = [
        s["threads"][str(os.getpid())]
        for s in samples
        if str(os.getpid()) in s["threads"]
    ]
    assert 0.1e9 < cpu[-1][0] - cpu[0][0] <= spent
    assert [c[0] for c in cpu] == sorted(c[0] for c in cpu) and [
        c[1] for c in cpu
    ] == sorted(c[1] for c in cpu)
    assert all(
        s["rss"] > 5_000_000 and s["cores"] >= 0 and s.get("foreign", 0) >= 0
        for s in samples
    )
    assert max(s["cores"] for s in samples) > 0
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
    import glob
    recorder.start(folder, sample_hz=20)
    pid = os.fork()
    end, patience, enough = time.monotonic() + 2.5, time.monotonic() + 300, False
    while time.monotonic() < end or (not enough and time.monotonic() < patience):
        with recorder.operation("busy"):
            sum(range(20000))
        if time.monotonic() >= end:  # both have sampled long enough, however busy the machine is
            logs = [open(path).read() for path in glob.glob(folder + "/p*/log.jsonl")]
            spans = [[int(word.split(",")[0]) for word in log.split('"k":"sample","t":')[1:]] for log in logs]
            spans = [span for span in spans if span]
            enough = len(spans) == 2 and min(s[-1] for s in spans) - max(s[0] for s in spans) > 2_300_000_000
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
    start, end = (
        max(s[0]["t"] for s in both) + 1_100_000_000,
        min(s[-1]["t"] for s in both),
    )
    own = sum(mean(samples, "cores", start, end) for samples in both)
    foreign = mean(both[0], "foreign", start, end)
    assert (
        own + foreign <= (os.cpu_count() or 1) + 0.5
    )  # were the child foreign, it would count twice


def mean(samples: list[dict[str, Any]], key: str, start: int, end: int) -> float:
    """Each sample counts for the time since the one before."""
    inside = [
        (b["t"] - a["t"], b[key]) for a, b in pairwise(samples) if start < b["t"] <= end
    ]
    return sum(length * value for length, value in inside) / sum(
        length for length, _ in inside
    )


def test_anchors_join_the_clocks(tmp_path: Path) -> None:
    before = time.monotonic_ns(), time.time_ns()
    with recording(tmp_path):
        time.sleep(0.05)
    after = time.monotonic_ns(), time.time_ns()
    first, last = (
        only_process(tmp_path).log.anchors[0],
        only_process(tmp_path).log.anchors[-1],
    )
    assert before[0] <= first.mono < last.mono <= after[0]
    assert before[1] <= first.real < last.real <= after[1]
    assert last.ticks > first.ticks
    assert abs((last.real - last.mono) - (first.real - first.mono)) < 1_000_000
    assert abs((last.mono - first.mono) - (last.raw - first.raw)) < 1_000_000


def name_of(task: Path) -> str:
    try:
        return (task / "comm").read_text()
    except OSError:  # it has ended
        return ""


def test_the_background_thread_takes_no_signals_and_has_the_lowest_priority(
    tmp_path: Path,
) -> None:
    with recording(tmp_path):
        found: list[Path] = []
        deadline = time.monotonic() + 300
        while not found and time.monotonic() < deadline:
            found = [
                task
                for task in Path("/proc/self/task").iterdir()
                if name_of(task) == "cutaway\n"
            ]
        (task,) = found
        status = dict(
            line.split(":\t", 1) for line in (task / "status").read_text().splitlines()
        )
        assert int(status["SigBlk"], 16) & 1 << 14  # SIGTERM
        assert int((task / "stat").read_text().rsplit(")", 1)[1].split()[16]) == 19
