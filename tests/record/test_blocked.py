"""Blocked in native code that nobody recorded is waiting, with the line it happened in; never Python, never an operation."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

import cutaway
from cutaway.analysis.run import Run
from cutaway.reports.evidence import evidence
from cutaway.reports.gather import gather

pytestmark = pytest.mark.core

SPIN = """
import ctypes, threading, time
libc = ctypes.CDLL(None)

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""


def _run(folder: Path, program: str) -> Run:
    record(folder, script(folder, SPIN + program))
    return cutaway.open(folder / "run.cutaway")


def _by(run: Run, *names: str) -> dict[object, float]:
    """Shares of the main process's time."""
    table = run.breakdown(by=("process", *names)).where(process=0)
    keys = zip(*(table[name].tolist() for name in names), strict=True)
    total = int(table["ns"].sum())
    return {
        key[0] if len(key) == 1 else key: ns / total
        for key, ns in zip(keys, table["ns"].tolist(), strict=True)
    }


def _adds_up(run: Run) -> None:
    cells, threads = run.swept.cells, run.swept.threads
    for thread in range(len(run.swept.names)):
        assert int(cells["ns"][cells["thread"] == thread].sum()) == int(threads["traced_ns"][thread])


def test_a_long_sleep_in_native_code_is_waiting_at_its_line(tmp_path: Path) -> None:
    run = _run(
        tmp_path,
        """
for _ in range(8):
    spin(0.02)
    libc.usleep(200_000)  # here
""",
    )
    _adds_up(run)
    assert _by(run, "layer")["wait"] > 0.7
    waits = run.waits()
    longest = str(waits["on"][0])
    text = (tmp_path / "train.py").read_text().splitlines()
    line = 1 + next(i for i, line in enumerate(text) if "# here" in line)
    assert longest == f"native code:train.py:{line}"
    assert abs(int(waits["ns"][0]) / 1.6e9 - 1) < 0.35
    lines = run.lines()
    assert (str(lines["native"][0]), int(lines["line"][0])) == ("native code", line)


def test_short_sleeps_are_divided_by_samples_and_the_error_is_told(tmp_path: Path) -> None:
    """Each is shorter than the time between two samples, between two events of its own."""
    run = _run(
        tmp_path,
        """
end = time.monotonic() + 3
import cutaway
while time.monotonic() < end:
    with cutaway.operation("mine"):
        libc.usleep(4000)
    cutaway.step()
""",
    )
    _adds_up(run)
    shares = _by(run, "operation", "layer")
    assert shares["mine", "wait"] > 5 * shares.get(("mine", "python"), 0.0)
    table = run.breakdown(by=("operation", "layer")).where(operation="mine", layer="wait")
    assert int(table["low_ns"][0]) < int(table["ns"][0]) < int(table["high_ns"][0])


def test_threads_that_fight_for_the_gil_say_so(tmp_path: Path) -> None:
    run = _run(
        tmp_path,
        """
other = threading.Thread(target=spin, args=(1.0,))
other.start()
spin(1.0)
other.join()
""",
    )
    _adds_up(run)
    waits = run.waits()
    gil = sum(
        ns for on, ns in zip(waits["on"], waits["ns"].tolist(), strict=True) if str(on).startswith("GIL:")
    )
    native = sum(
        ns for on, ns in zip(waits["on"], waits["ns"].tolist(), strict=True) if "native code" in str(on)
    )
    assert gil > 0.4e9 and native < 0.2 * gil
    assert evidence(gather(tmp_path / "run.cutaway")).gil > 0.25
