"""A run that is read where it lies, without its events, has the tables it has in one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.analysis import Run
from cutaway.cluster import in_place
from cutaway.errors import CutawayError

pytestmark = pytest.mark.core

PROGRAM = """
import os, threading, time, zlib
import cutaway

done = threading.Event()
threading.Thread(target=done.wait, daemon=True).start()
worker = os.fork()
for number in range(1500):
    if worker:
        cutaway.iteration()
    with cutaway.operation("simulation"):
        for _ in range(200):
            zlib.crc32(b"step")
        cutaway.step(5)
    with cutaway.operation("backpropagation"):
        time.sleep(0.0002)
done.set()
if worker:
    os.waitpid(worker, 0)
"""


def on_this_host(tmp_path: Path, program: str) -> tuple[Path, dict[str, in_place.Ask]]:
    """A run, its processes in a part of this host, and what asks that host."""
    run, local = tmp_path / "run.cutaway", tmp_path / "disk"
    words = [
        "run",
        "-q",
        "--simulator",
        "zlib",
        "-o",
        str(run),
        sys.executable,
        "-c",
        program,
    ]
    subprocess.run([sys.executable, "-m", "cutaway", *words], check=True, timeout=120)
    part = local / f"host-{os.uname().nodename}"
    part.mkdir(parents=True)
    for process in run.glob("p*-*"):
        process.rename(part / process.name)
    return run, {os.uname().nodename: lambda function, *args: function(part, *args)}


def tables(run: Run) -> dict[str, object]:
    steady, found = run.steady(), {}
    for part, name in (
        (run, "whole"),
        (steady, "steady"),
        (run.startup(), "startup"),
        (run.shutdown(), "shutdown"),
    ):
        for table in (
            "breakdown",
            "operations",
            "callsites",
            "transitions",
            "waits",
            "iterations",
        ):
            found[f"{name} {table}"] = str(list(getattr(part, table)()))  # NaN is NaN
    lines = sorted(map(str, steady.lines(by="line")))
    return {
        **found,
        "lines": lines,
        "threads": list(run.threads()),
        "losses": run.losses(),
        "summary": run.summary(),
    }


def test_the_tables_are_the_same_and_the_events_stay(tmp_path: Path) -> None:
    run, asks = on_this_host(tmp_path, PROGRAM)
    part = tmp_path / "disk" / f"host-{os.uname().nodename}"
    before = {path: path.read_bytes() for path in part.rglob("*") if path.is_file()}
    view = tmp_path / "view.cutaway"
    in_place._bring(view, run, asks)
    assert before == {
        path: path.read_bytes() for path in part.rglob("*") if path.is_file()
    }
    brought = sum(path.stat().st_blocks for path in view.rglob("events.bin"))
    recorded = sum(path.stat().st_blocks for path in part.rglob("events.bin"))
    assert list(view.rglob("past.bin")) and brought < recorded
    part.rename(run / part.name)
    here, there = tables(cutaway.open(run)), tables(cutaway.open(view))
    for name, table in here.items():
        assert there[name] == table, name


def test_a_run_without_iterations_comes_in_full(tmp_path: Path) -> None:
    run, asks = on_this_host(tmp_path, PROGRAM.replace("cutaway.iteration()", "pass"))
    view = tmp_path / "view.cutaway"
    in_place._bring(view, run, asks)
    assert not list(view.rglob("past.bin"))
    (tmp_path / "disk" / f"host-{os.uname().nodename}").rename(
        run / f"host-{os.uname().nodename}"
    )
    assert tables(cutaway.open(run)) == tables(cutaway.open(view))


@pytest.mark.parametrize(
    "path", ["ray://", "ray://host:6379", "ray://host:6379/no/such.cutaway"]
)
def test_an_address_without_a_run_is_one_sentence(path: str) -> None:
    with (
        pytest.raises(CutawayError, match="names no run"),
        in_place.local_view(path, print),
    ):
        pass
