"""Runs from anybody: wrong in every field, with right checksums, or made of pipes, devices and holes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.fuzz.readers import failure_of, readers
from benchmarks.fuzz.seed import write_seed

import cutaway
from cutaway.commands import main
from cutaway.trace.writer import RunWriter
from effort import effort

pytestmark = pytest.mark.core

CASES = effort(200, 60)


def test_nothing_ends_in_a_traceback(tmp_path: Path) -> None:
    """In a process of its own: what other tests took of memory does not count."""
    call = [sys.executable, "-m", "benchmarks.fuzz", str(CASES)]
    done = subprocess.run(
        call, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_seed_is_read_whole(tmp_path: Path) -> None:
    """Else the cases would show nothing."""
    write_seed(tmp_path / "seed")
    run = cutaway.open(tmp_path / "seed")
    learner, worker = run.processes()
    assert (learner["lost"], worker["lost"]) == (3, 0)
    assert [row["function"] for row in run.unfinished()] == ["Tensor.item"]
    assert (
        len(run.iterations()) == 5 and len(run.kernels()) == 3 and len(run.stops()) == 1
    )


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "exit.json",
        "calibration.json",
        "log.jsonl",
        "events.bin",
        "device.bin",
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "zero", "sparse"])
def test_only_regular_files_are_read(tmp_path: Path, name: str, kind: str) -> None:
    write_seed(tmp_path / "seed")
    (path,) = [
        p for p in (tmp_path / "seed").rglob(name) if p.parent.name in ("seed", "p10-0")
    ]
    if kind == "sparse":
        os.truncate(path, 200 << 30)
    else:
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    for read in (*readers(random.Random(1)), show):
        assert failure_of(read, tmp_path / "seed", tmp_path) == ""


def show(run: Path, place: Path) -> None:
    assert main(["show", str(run)]) == 0


def test_a_folder_that_is_a_link_is_no_process(tmp_path: Path) -> None:
    write_seed(tmp_path / "seed")
    (tmp_path / "seed" / "p99-0").symlink_to(tmp_path / "seed" / "p10-0")
    assert len(cutaway.open(tmp_path / "seed").processes()) == 2


def test_empty_process_folders_are_left_aside(tmp_path: Path) -> None:
    write_seed(tmp_path / "seed")
    for number in range(500):
        (tmp_path / "seed" / f"p{number + 100}-0").mkdir()
    assert len(cutaway.open(tmp_path / "seed").processes()) == 2


def test_half_a_surrogate_pair_is_a_name_that_can_be_printed(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "r.cutaway") as run:
        process = run.process(pid=1, name="main \ud800")
        process.thread(tid=1).spans(
            [0], [10], ops=[process.name("a\udfff\ud83d\ude00")]
        )
    (row,) = cutaway.open(tmp_path / "r.cutaway").operations()
    assert row["operation"] == "a?😀"
