"""Blocked in native code that nobody recorded is waiting, with the line it happened in; never Python, never an operation."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

import cutaway
from cutaway.analysis.gil import gil_holders, gil_in_calls
from cutaway.analysis.run import Run
from cutaway.reports.digests import digest_at
from cutaway.reports.evidence import evidence

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


def _adds_up(run: Run) -> None:
    cells, threads = run.swept.cells, run.swept.threads
    for thread in range(len(run.swept.thread_names)):
        assert int(cells["ns"][cells["thread"] == thread].sum()) == int(
            threads["traced_ns"][thread]
        )


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
    waits = run.waits()
    text = (tmp_path / "train.py").read_text().splitlines()
    line = 1 + next(i for i, line in enumerate(text) if "# here" in line)
    assert str(waits["on"][0]) == f"native code:train.py:{line}"
    assert int(waits["ns"][0]) > 0.8 * 8 * 200e6
    lines = run.lines().where(native="native code")
    assert int(lines["line"][0]) == line
    python = int(run.breakdown(by="layer").where(layer="python")["ns"].sum())
    assert python >= 0.5 * 8 * 20e6  # what it worked is still there


def test_short_sleeps_are_divided_by_samples_and_the_error_is_told(
    tmp_path: Path,
) -> None:
    """Each is shorter than the time between two samples, and lies between two events of its own."""
    run = _run(
        tmp_path,
        """
import cutaway
slept = 0
for _ in range(500):
    with cutaway.operation("mine"):
        before = time.monotonic()
        libc.usleep(4000)
        slept += time.monotonic() - before
print(slept, file=open("slept", "w"))
""",
    )
    _adds_up(run)
    slept_ns = float((tmp_path / "slept").read_text()) * 1e9  # or waited for a core
    table = run.breakdown(by=("operation", "layer")).where(
        operation="mine", layer="wait"
    )
    low, ns, high = (int(table[name][0]) for name in ("low_ns", "ns", "high_ns"))
    assert low < ns < high
    assert high > 500 * 4e6 and low < slept_ns


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
        ns
        for on, ns in zip(waits["on"], waits["ns"].tolist(), strict=True)
        if str(on).startswith("GIL:")
    )
    native = sum(
        ns
        for on, ns in zip(waits["on"], waits["ns"].tolist(), strict=True)
        if "native code" in str(on)
    )
    assert gil > 0.3e9 and native < 0.2 * gil
    assert evidence(digest_at(tmp_path / "run.cutaway")).gil > 0.05


def test_who_holds_the_gil_is_told_by_thread_and_line(tmp_path: Path) -> None:
    """Beside it runs a thread that computes without the lock, and one that sleeps."""
    run = _run(
        tmp_path,
        """
import hashlib
import cutaway
end = time.monotonic() + 2

def pack():
    while time.monotonic() < end:
        sum(i % 7 for i in range(100_000))  # holds

def digest():
    data = bytes(1 << 25)
    while time.monotonic() < end:
        hashlib.sha256(data)

threading.Thread(target=pack, name="packer").start()
threading.Thread(target=digest, name="digester").start()
threading.Thread(target=time.sleep, args=(2,), name="sleeper").start()
while time.monotonic() < end:
    with cutaway.operation("simulation"):
        sum(i * i for i in range(100_000))
""",
    )
    text = (tmp_path / "train.py").read_text().splitlines()
    holds = 1 + next(i for i, line in enumerate(text) if "# holds" in line)
    found = gil_holders(run.steady())
    packer = [one for one in found if one.thread == "packer"]
    assert {one.line for one in packer} == {holds}
    assert sum(one.share for one in packer) > 0.5
    assert not [one for one in found if one.thread in ("sleeper", "MainThread")]
    assert sum(one.share for one in found if one.thread == "digester") < 0.2
    said = evidence(digest_at(tmp_path / "run.cutaway"))
    assert said.gil_thread == "packer" and said.gil_at.endswith(f"train.py:{holds}")


def test_without_a_fight_nobody_holds_the_gil(tmp_path: Path) -> None:
    run = _run(
        tmp_path, "threading.Thread(target=time.sleep, args=(1,)).start()\nspin(1.0)"
    )
    assert gil_holders(run.steady()) == []
    assert evidence(digest_at(tmp_path / "run.cutaway")).gil_thread == ""


def test_native_calls_that_wait_for_the_gil_at_their_end_say_so(tmp_path: Path) -> None:
    """Compressing gives the GIL up. The other thread takes it, and keeps it for a switch interval."""
    program = """
import zlib
import cutaway
cutaway.layer("zlib", "simulator")
data, end = bytes(100_000), time.monotonic() + 1.5
{other}
while time.monotonic() < end:
    with cutaway.operation("simulation"):
        zlib.compress(data)
"""
    (tmp_path / "alone").mkdir()
    (tmp_path / "fight").mkdir()
    alone = _run(tmp_path / "alone", program.format(other=""))
    fight = _run(
        tmp_path / "fight",
        program.format(other="threading.Thread(target=spin, args=(1.5,)).start()"),
    )
    _adds_up(fight)
    assert gil_in_calls(alone).ns == 0
    native = fight.breakdown(by=("process", "layer")).where(layer="simulator")
    # Nearly all of it on a quiet machine; on a busy one the thread mostly waits for a core.
    assert gil_in_calls(fight).ns > 0.01 * int(native["ns"].sum())
