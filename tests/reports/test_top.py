"""`cutaway top` in a real terminal (tmux, 80 × 24) on a run that grows while it is watched."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cutaway.trace.format import Structured
from cutaway.trace.writer import ProcessWriter, RunWriter

from . import runs
from .test_live import live_segment, write_at

PATIENCE_S = 300.0


class GrowingRun:
    """A learner and three workers whose records appear in live segments as time passes, as a recorder writes them."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.start = time.monotonic_ns() - 4_000_000_000
        monkeypatch.setattr(runs, "START", self.start)
        run = RunWriter(
            path, command=["python", "train.py"], source="cutaway run", cpus=2
        )
        learner, _ = runs.begin(run, 100, "learner", "learner")
        records, stop = runs.learner_records(learner, 3000, wait_on="pid:101")
        self.parts: list[tuple[ProcessWriter, Structured, Path]] = [
            (learner, records, self._room(learner, records))
        ]
        for i in range(3):
            worker, _ = runs.begin(run, 101 + i, f"env-{i:02d}", "actor", ppid=100)
            records = runs.worker_records(worker, stop, 5 + i)
            self.parts.append((worker, records, self._room(worker, records)))
        self.done = [0] * len(self.parts)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._grow)
        self._write()
        self.thread.start()

    @staticmethod
    def _room(process: ProcessWriter, records: Structured) -> Path:
        return live_segment(process.folder, 0, 0, len(records) + 1)

    def _grow(self) -> None:
        while not self.stop.wait(0.1):
            self._write()

    def _write(self) -> None:
        now = time.monotonic_ns()
        for i, (process, records, segment) in enumerate(self.parts):
            until = int(np.searchsorted(records["time"], now))
            write_at(segment, self.done[i], records[self.done[i] : until])
            self.done[i] = until
            cpu = (now - self.start) // (
                4 if i else 2
            )  # the learner's is the largest: first in that order
            process.log(
                "sample", {"t": now, "threads": {str(100 + i): [cpu, 0]}, "cores": 2}
            )
            process._log.flush()


class Terminal:
    """One tmux session of 80 × 24."""

    def __init__(self, folder: Path, command: str) -> None:
        self.socket = str(folder / "tmux")
        env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        run = [
            "tmux",
            "-S",
            self.socket,
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            "top",
            "-x",
            "80",
            "-y",
            "24",
        ]
        subprocess.run(
            [*run, f"{command}; echo left with $?; exec sleep 600"],
            check=True,
            env=env,
            cwd=folder,
        )

    def tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-S", self.socket, *words],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "top")

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "top", *keys)

    def until(self, fine: Callable[[str], bool]) -> str:
        """The screen as soon as it is fine."""
        end = time.monotonic() + PATIENCE_S
        while not fine(text := self.text()):
            assert time.monotonic() < end, text
            time.sleep(0.1)
        return text


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    run = GrowingRun(tmp_path / "train.cutaway", monkeypatch)
    code = 'import sys; from cutaway.commands import main; sys.exit(main([\\"top\\"]))'
    one = Terminal(tmp_path, f'{sys.executable} -c "{code}"')
    yield one
    one.tmux("kill-server")
    run.stop.set()
    run.thread.join()


def test_watching_a_run(terminal: Terminal):
    text = terminal.until(lambda t: "env-02" in t and "SIMULATION-BOUND" in t)
    lines = text.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert lines[0].startswith("cutaway top  train.cutaway · 4 processes")
    assert "steps/s  " in lines[1] and "█" in text and "q quit" in text
    assert (
        next(line for line in lines if line.startswith("learner"))
        .rstrip()
        .endswith("50 %")
    )

    steps = lines[1].split("iterations")[1]
    terminal.until(
        lambda t: (
            "iterations" in t and t.splitlines()[1].split("iterations")[1] != steps
        )
    )

    terminal.keys("s")
    terminal.until(lambda t: "process (CPU)" in t)
    terminal.keys("Down", "Enter")
    inside = terminal.until(lambda t: "python" in t and "simul." in t)
    assert "actor), last 10 s" in inside
    terminal.keys("Escape")
    terminal.until(lambda t: "env-02" in t)
    terminal.keys("p")
    terminal.until(lambda t: "paused" in t.splitlines()[0])
    time.sleep(0.5)  # what was being drawn is drawn
    paused = terminal.text().splitlines()[1]
    time.sleep(1.2)
    assert terminal.text().splitlines()[1] == paused
    terminal.keys("q")
    terminal.until(lambda t: "left with 0" in t)
