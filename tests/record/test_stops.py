"""A recording that ends before the program does is never called whole, by any reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded import cutaway, script
from streams import array_of, only_process, recording, run

import cutaway as api
from cutaway import _recorder, _sweep
from cutaway.trace import format as fmt
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

COUNTS = """
import cutaway, resource
{before}
op = cutaway.operation("work")
for i in range(400_000):
    with op:
        pass
{after}
print("done")
"""
LIMITS = {
    "size": ("", "", ["--max-size", "300KB"], "the size limit was reached"),
    "file": (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))",
        "",
        [],
        "File too large",
    ),
    "descriptors": (
        "import contextlib, os\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
        "with contextlib.suppress(OSError):\n    while True:\n        os.dup(0)",
        "",
        [],
        "Too many open files",
    ),
    "memory": (
        "size = int(open('/proc/self/statm').read().split()[0]) * 4096 + 3_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, -1))",
        "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        [],
        "Cannot allocate memory",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_why_and_when_reach_the_command_and_the_tables(
    tmp_path: Path, limit: str
) -> None:
    before, after, words, why = LIMITS[limit]
    script(tmp_path, COUNTS.format(before=before, after=after))
    done = cutaway("run", "-q", "-o", "r.cutaway", *words, "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert f"recording stopped early in 1 process ({why})" in done.stderr
    opened = api.open(tmp_path / "r.cutaway")
    (stop,) = opened.stops()
    (process,) = opened.processes()
    assert stop["why"] == why
    assert process["start_ns"] < stop["t_ns"] < process["end_ns"]
    assert process["events"] < 800_000


def test_show_page_and_json_say_so(tmp_path: Path) -> None:
    script(tmp_path, COUNTS.format(before="", after=""))
    done = cutaway(
        "run", "-o", "r.cutaway", "--max-size", "300KB", "train.py", cwd=tmp_path
    )
    sentence = "Recording of train stopped after"
    assert (
        sentence in done.stderr
        and "and everything after recording stopped" in " ".join(done.stderr.split())
    )
    told = json.loads(cutaway("show", "--json", "r.cutaway", cwd=tmp_path).stdout)
    assert told["state"] == "stopped"
    (stopped,) = told["stopped"]
    assert stopped["why"] == "the size limit was reached" and stopped["missed_ns"] > 0
    assert any(note.startswith(sentence) for note in told["notes"])
    assert sentence in cutaway("show", "r.cutaway", cwd=tmp_path).stdout
    assert cutaway("report", "r.cutaway", "-o", "r.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "r.html").read_text()
    assert sentence in page and "and everything after recording stopped" in page


def test_a_recorder_that_is_left_behind_loses_nothing_and_stays_small(
    tmp_path: Path,
) -> None:
    program = """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    recorder.start(folder)
    op, most = recorder.operation("work"), 0
    for i in range(6_000_000):
        with op:
            pass
        if i % 100_000 == 0:
            most = max(most, recorder.stats()["live_bytes"])
    recorder.stop()
    print(most)
    """
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    process = only_process(tmp_path)
    kinds = fmt.kinds(array_of(process, 0))
    assert (
        int((kinds == Kind.OP_ENTER).sum())
        == int((kinds == Kind.OP_EXIT).sum())
        == 6_000_000
    )
    assert process.losses.total == 0 and process.stop is None
    assert int(done.stdout) < 80 << 20  # all of it would be 192 MB


@pytest.mark.parametrize("kept", [20, 56, 200])
def test_a_kill_while_a_segment_is_packed_loses_nothing(
    tmp_path: Path, kept: int
) -> None:
    """The beginning of a block and its whole segment, as such a kill leaves them."""
    run(
        "recorder.start(folder)\nfor i in range(1000): recorder.step(i)\nos.kill(os.getpid(), 9)",
        tmp_path,
    )
    process = only_process(tmp_path)
    records = array_of(process, 0)
    with recording(tmp_path / "donor"):
        _recorder.step(1)
    donor = (only_process(tmp_path / "donor").folder / "events.bin").read_bytes()
    head = bytearray(donor[: fmt.BLOCK_HEAD_DTYPE.itemsize])
    fields = np_head(head)
    fields["id"], fields["seq"], fields["count"] = 0, 0, len(records)
    payload = bytes(_sweep.pack(records.view("u1")))
    fields["bytes"] = len(payload)
    head[-4:] = _sweep.crc32c(bytes(head[:-4])).to_bytes(4, "little")
    (process.folder / "events.bin").write_bytes((bytes(head) + payload)[:kept])
    again = only_process_of(tmp_path, process.folder.name)
    assert again.losses.total == 0
    assert len(array_of(again, 0)) == len(records)
    next(process.folder.glob("live-*.seg")).unlink()
    assert only_process_of(tmp_path, process.folder.name).losses.total == 1


def np_head(head: bytearray):  # type: ignore[no-untyped-def]
    import numpy as np

    return np.frombuffer(head, fmt.BLOCK_HEAD_DTYPE)[0:1]


def only_process_of(folder: Path, name: str):  # type: ignore[no-untyped-def]
    from cutaway.trace.reader import ProcessTrace

    return ProcessTrace(folder / name)
