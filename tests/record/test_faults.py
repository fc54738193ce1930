"""When the disk is full, read-only or gone, training goes on and the trace says what is missing."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from streams import array_of, events, only_process, outline, recording, run

from cutaway import _recorder
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    """A file system of its own, in memory."""
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "cutaway", str(place)], check=True
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


UNTIL_FULL = """
recorder.start(folder)
i = 0
while recorder.recording() and i < 3_000_000:
    i += 1
    recorder.step(i)
stopped = i < 3_000_000
for j in range(1000):
    with recorder.operation("goes on"):
        pass
recorder.stop()
print("stopped" if stopped else "went on", i)
"""


def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=3m") as disk:
        done = run(UNTIL_FULL, disk / "run.cutaway")
        assert (done.returncode, done.stderr) == (0, "")
        verdict, count = done.stdout.split()
        process = only_process(disk / "run.cutaway")
        values = array_of(process, 0)
        steps = values["value"][(values["tag"] & 0xFF) == Kind.STEP]
        assert verdict == "stopped"
        assert np.array_equal(steps, np.arange(1, len(steps) + 1))
        assert int(count) - 1 <= len(steps) <= int(count)
        assert outline(process).endswith("pause:5")
        (loss,) = process.log.losses
        assert loss["what"] == "recording stopped: the disk is full"


def test_a_disk_that_others_fill_meanwhile(tmp_path: Path) -> None:
    program = """
    recorder.start(folder)
    with open(os.path.join(os.path.dirname(folder), "other"), "wb") as other:
        try:
            while True:
                os.write(other.fileno(), bytes(4096))
        except OSError:
            pass
    for i in range(1, 200_001):
        recorder.step(i)
    recorder.stop()
    print("done")
    """
    with small_disk(tmp_path / "disk", "size=2m") as disk:
        done = run(program, disk / "run.cutaway")
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
        process = only_process(disk / "run.cutaway")
        records = array_of(process, 0)
        steps = records["value"][(records["tag"] & 0xFF) == Kind.STEP]
        assert len(steps) > 3000 and np.array_equal(steps, np.arange(1, len(steps) + 1))
        assert [loss["what"] for loss in process.log.losses] == [
            "recording stopped: the disk is full"
        ]


def test_a_read_only_place_is_refused_at_the_start(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "ro") as disk:
        with pytest.raises(OSError, match="Read-only file system"):
            _recorder.start(str(disk / "run.cutaway"))
    assert not _recorder.recording()
    with recording(tmp_path / "next.cutaway"), _recorder.operation("a"):
        pass
    assert outline(only_process(tmp_path / "next.cutaway")) == "begin a( a) end"


def test_a_folder_that_is_removed_meanwhile(tmp_path: Path) -> None:
    program = """
    import shutil
    recorder.start(folder)
    shutil.rmtree(folder)
    for i in range(300_000):
        with recorder.operation("a"):
            pass
    recorder.stop()
    print("done", recorder.recording())
    """
    done = run(program, tmp_path / "run.cutaway")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done False\n", "")


def test_descriptors_that_the_program_closes_and_uses_again(tmp_path: Path) -> None:
    program = """
    recorder.start(folder)
    os.closerange(3, 5000)
    mine = [os.open(os.path.join(folder, f"mine{i}"), os.O_CREAT | os.O_RDWR) for i in range(900)]
    for i in range(100_000):
        with recorder.operation("a"):
            pass
    time.sleep(0.2)
    recorder.stop()
    print(sum(os.fstat(fd).st_size for fd in mine))
    """
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n    "
    done = run(program.replace("recorder.start", limit + "recorder.start", 1), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    entered = array_of(only_process(tmp_path), 0)["tag"] & 0xFF
    assert (entered == Kind.OP_ENTER).sum() == 100_000


def test_only_the_owner_may_look_and_no_environment_is_kept(tmp_path: Path) -> None:
    done = run(
        "recorder.start(folder)\nrecorder.stop()",
        tmp_path / "x.cutaway",
        env={**os.environ, "SECRET": "tr0ub4dor"},
    )
    assert done.returncode == 0
    process = only_process(tmp_path / "x.cutaway")
    for path in (tmp_path / "x.cutaway", process.folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in (tmp_path / "x.cutaway").rglob("*"):
        assert path.is_dir() or b"tr0ub4dor" not in path.read_bytes()


def test_a_clock_that_was_set_does_not_move_the_events(tmp_path: Path) -> None:
    with recording(tmp_path, sample_hz=10):
        for _ in range(3):
            with _recorder.operation("a"):
                pass
    before = [
        only_process(tmp_path).to_ns(e.time, 0) for e in events(only_process(tmp_path))
    ]
    log = only_process(tmp_path).folder / "log.jsonl"
    last = only_process(tmp_path).log.anchors[-1]
    lines = log.read_text().splitlines()
    for i, line in enumerate(lines):
        entry = json.loads(line[9:])
        if entry["k"] == "anchor" and entry["mono"] == last.mono:
            entry["real"] -= 3600 * 10**9  # someone set the clock back an hour
            text = json.dumps(entry)
            lines[i] = f"{_recorder.crc32c(text.encode()):08x} {text}"
    log.write_text("\n".join(lines) + "\n")
    changed = only_process(tmp_path)
    assert changed.log.anchors[-1].real < changed.log.anchors[0].real
    assert [changed.to_ns(e.time, 0) for e in events(changed)] == before


def test_a_run_can_be_copied_and_read_elsewhere(tmp_path: Path) -> None:
    with recording(tmp_path / "here"), _recorder.operation("a"):
        pass
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert len(read_run(tmp_path / "there").processes) == 1
    assert outline(only_process(tmp_path / "there")) == "begin a( a) end"
