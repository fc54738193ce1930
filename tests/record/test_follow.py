"""A reader that follows a program while it is recorded sees every event once."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutaway.trace.reader import read_run

pytestmark = pytest.mark.core

PROGRAM = """
import cutaway, time
for i in range(60):
    cutaway.iteration()
    for _ in range(4000):
        with cutaway.operation("simulation"):
            pass
    time.sleep(0.01)
"""


def test_a_reader_that_follows_a_running_program_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    script, run = tmp_path / "train.py", tmp_path / "r.cutaway"
    script.write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-q",
        "--calibrate-share",
        "0",
        "-o",
        str(run),
        str(script),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as program:
        while not list(run.glob("p*-*/live-*.seg")) and program.poll() is None:
            time.sleep(0.01)
        trace, readers, seen, looks = read_run(run), {}, 0, 0
        ended = False
        while not ended:
            ended = program.poll() is not None
            trace.refresh()
            for process in trace.processes:
                for thread in process.threads:
                    reader = readers.setdefault(
                        (process.pid, thread), process.reader(thread)
                    )
                    seen += sum(
                        len(events) for events in process.events(thread, reader=reader)
                    )
            looks += 1
            time.sleep(0.02)
    assert program.returncode == 0
    last = read_run(run)
    written = sum(
        len(e) for p in last.processes for t in p.threads for e in p.events(t)
    )
    assert looks > 3 and seen == written > 60 * 2 * 4000
