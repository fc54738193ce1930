"""The live view reads what is new, once, and shows the same figures as a whole run would."""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutaway
from cutaway.commands import main
from cutaway.errors import CutawayError
from cutaway.reports.digests import digest_at
from cutaway.reports.live import WINDOW_S, LiveRun, newest_run
from cutaway.reports.printer import Printer
from cutaway.reports.screen import View, draw, ordered, print_once, read_keys
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import (
    BLOCK_MAGIC,
    DEVICE_CHUNK,
    FORMAT_VERSION,
    SEGMENT_MAGIC,
    UNUSED_SEQ,
    Clock,
    DeviceKind,
    Kind,
    Stream,
)
from effort import effort

from .runs import MS, START, add_samples, begin, crowd, learner_records, single

pytestmark = pytest.mark.core


def live_segment(folder: Path, number: int, room: int, seq: int = UNUSED_SEQ) -> Path:
    """A segment as the recorder prepares it: a head, then zeros. The number in its name says nothing of its place."""
    path = folder / f"live-0-{number}.seg"
    path.write_bytes(segment_head(seq) + bytes(room * fmt.RECORD_DTYPE.itemsize))
    return path


def segment_head(seq: int) -> bytes:
    head = np.zeros(1, fmt.SEGMENT_HEAD_DTYPE)
    head["magic"], head["version"], head["clock"] = (
        SEGMENT_MAGIC,
        FORMAT_VERSION,
        Clock.MONOTONIC,
    )
    head["thread"], head["seq"] = 0, seq
    return head.tobytes()


def write_at(path: Path, at: int, records: np.ndarray) -> None:
    with path.open("r+b") as file:
        file.seek(fmt.SEGMENT_HEAD_DTYPE.itemsize + at * fmt.RECORD_DTYPE.itemsize)
        file.write(records.tobytes())


class Follower:
    """One thread, read on at each look."""

    def __init__(self, folder: Path) -> None:
        self.process = ProcessTrace(folder)
        self.reader = self.process.reader(0)

    def new_times(self) -> list[int]:
        self.process.refresh()
        return [
            int(t)
            for events in self.process.events(0, reader=self.reader)
            for t in events["time"]
        ]


def test_a_growing_segment_is_read_once(tmp_path: Path):
    with RunWriter(tmp_path / "r.cutaway") as run:
        process, _ = begin(run, 7, "main", "learner")
        records, _ = learner_records(process, 3)
    segment = live_segment(process.folder, 5, 1000, seq=0)
    tail = Follower(process.folder)
    assert tail.new_times() == []
    write_at(segment, 0, records[:5])
    assert tail.new_times() == records["time"][:5].tolist()
    assert tail.new_times() == []
    write_at(segment, 5, records[5:9])
    assert tail.new_times() == records["time"][5:9].tolist()


@settings(max_examples=effort(100, 30), deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_segments_prepared_used_and_packed_between_looks_lose_and_repeat_nothing(
    sizes, random
):
    """The recorder prepares segments ahead, uses them in an order of its own, packs and removes them behind."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunWriter(Path(folder) / "r.cutaway")
        process, thread = begin(run, 7, "main", "learner")
        records = learner_records(process, 40)[0][: sum(sizes)]
        prepared = [
            live_segment(process.folder, n, 60)
            for n in random.sample(range(20), len(sizes))
        ]
        tail, seen, at = Follower(process.folder), [], 0
        for size, path in zip(sizes, prepared, strict=True):
            with path.open("r+b") as file:
                file.write(segment_head(prepared.index(path)))
            half = at + size // 2
            write_at(path, 0, records[at:half])
            seen += tail.new_times() if random.random() < 0.7 else []
            write_at(path, half - at, records[half : at + size])
            seen += tail.new_times() if random.random() < 0.7 else []
            thread.append(records[at : at + size])
            thread.flush()
            process._events.flush()
            if random.random() < 0.5:
                path.unlink()
            at += size
        seen += tail.new_times()
        run.close()
    assert seen == records["time"].tolist()


def test_log_lines_are_read_when_they_are_complete(tmp_path: Path):
    path = single(tmp_path / "r.cutaway")
    folder = next(path.glob("p*-*"))
    whole = (folder / "log.jsonl").read_bytes()
    (folder / "log.jsonl").write_bytes(whole[:-7])
    process = ProcessTrace(folder)
    assert (
        process.log.exit is None
        and process.log.bad_lines == 0
        and process.losses.bad_lines == 1
    )
    (folder / "log.jsonl").write_bytes(whole)
    process.refresh()
    assert process.log.exit is not None and process.losses.bad_lines == 0


def test_the_window_holds_the_last_seconds(tmp_path: Path):
    run = LiveRun(single(tmp_path / "r.cutaway", iterations=200))
    run.refresh()
    totals = run.main().totals()
    assert sum(totals.values()) == pytest.approx(WINDOW_S * 1e9, rel=0.03)
    assert totals["simulation", "simulator"] / sum(totals.values()) == pytest.approx(
        0.4, abs=0.02
    )
    assert run.steps_per_second() == pytest.approx(80, rel=0.05)
    assert run.main().iterations == 200
    assert run.up_ns == pytest.approx(20e9, rel=0.01)
    assert run.judge.look(run.finished, wait=True).rule == "simulation-bound"


def test_a_view_attached_in_mid_run_knows_what_was_open_long_before(tmp_path: Path):
    """One update of a minute, in it calls of 3 in 4 ms; the view comes when 50 s of it are over."""
    with RunWriter(tmp_path / "r.cutaway", cpus=2) as run:
        process, thread = begin(run, 7, "main", "learner")
        name, call = (
            process.name("backpropagation"),
            process.call(layer="backend", fn="f"),
        )
        thread.write([START], 0, Kind.OP_ENTER, name)
        thread.write(START + MS * np.arange(0, 50_000, 4), 3 * MS, Kind.CALL, call)
        process.log("anchor", {"mono": START + 50_000 * MS})
    live = LiveRun(tmp_path / "r.cutaway")
    live.refresh()
    totals = live.main().totals()
    assert totals.keys() == {
        ("backpropagation", "backend"),
        ("backpropagation", "python"),
    }
    assert sum(totals.values()) == pytest.approx(WINDOW_S * 1e9, rel=0.03)
    assert totals["backpropagation", "backend"] / sum(totals.values()) == pytest.approx(
        0.75, abs=0.01
    )
    assert live.main().now() == ("backpropagation", "python")


def test_steps_made_in_pauses_count(tmp_path: Path):
    """A step of 4 every 100 ms; each fifth is left out for calibration."""
    rows = []
    for i in range(1, 200):
        rows.append(
            (100 * i, 4, Kind.STEP, 0) if i % 5 else (100 * i, 4, Kind.RESUME, 0)
        )
        rows += [(100 * i, 0, Kind.PAUSE, 1)] if i % 5 == 4 else []
    with RunWriter(tmp_path / "r.cutaway", cpus=2) as run:
        _, thread = begin(run, 7, "main", "learner")
        time, value, kind, id = (np.array(column) for column in zip(*rows, strict=True))
        thread.write(START + time * MS, value, kind, id)
    live = LiveRun(tmp_path / "r.cutaway")
    live.refresh()
    assert live.steps_per_second() == pytest.approx(40, rel=0.03)


def test_cpu_comes_from_the_samples(tmp_path: Path):
    run = LiveRun(single(tmp_path / "r.cutaway", finish=False))
    run.refresh()
    assert next(iter(run.processes.values())).cpu() == pytest.approx(0.9, abs=0.01)


def test_memory_is_the_newest_sample(tmp_path: Path):
    run = LiveRun(single(tmp_path / "r.cutaway", finish=False))
    run.refresh()
    process = next(iter(run.processes.values()))
    assert process.resident() == process.trace.log.samples[-1]["rss"]
    out = io.StringIO()
    print_once(run, out)
    assert "  memory " in out.getvalue() and "268.4 MB" in out.getvalue()


def test_the_live_verdict_sees_a_machine_that_is_too_small(tmp_path: Path):
    with RunWriter(tmp_path / "o.cutaway", source="cutaway run", cpus=2) as run:
        for pid in range(100, 104):
            process, thread = begin(run, pid, f"w{pid}", "actor")
            records, stop = learner_records(process, 60)
            thread.append(records)
            add_samples(process, pid, stop, cpu=0.5, queue=0.5)
    live = LiveRun(tmp_path / "o.cutaway")
    live.refresh()
    verdict = live.judge.look(live.finished, wait=True)
    assert (
        verdict.rule == "cpu-oversubscription"
        and "want to run at once, and they wait 50 %" in verdict.because
    )


def test_one_picture_in_a_pipe_is_ascii_of_80_columns(tmp_path: Path):
    out = io.StringIO()
    print_once(LiveRun(crowd(tmp_path / "r.cutaway")), out)
    text = out.getvalue()
    assert text.isascii() and max(map(len, text.splitlines())) <= 80
    assert "env-03" in text and "learner" in text and "steps/s  " in text
    assert "ssss" in text  # the bar of simulation


def test_devices_and_power_are_shown_where_there_are_any(tmp_path: Path):
    path = tmp_path / "gpu.cutaway"
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as writer:
        process, thread = begin(writer, 10, "learner", "learner")
        records, stop = learner_records(process, 40)
        thread.append(records)
        work = np.zeros(40, fmt.DEVICE_DTYPE)
        work["start"] = START + 100 * MS * np.arange(40)
        work["end"], work["kind"] = work["start"] + 25 * MS, DeviceKind.KERNEL
        process.device(work[:30])
        process.device(work[30:])
        gpu = [
            {"id": 0, "utilisation": 97, "power_mw": 211_000},
            {"id": 1, "utilisation": 0},
        ]
        add_samples(process, 10, stop, gpu=gpu, power={"gpu": 211.0, "cpu": 64.6})
    run = LiveRun(path)
    run.refresh()
    run.refresh()
    assert run.gpu(*run.processes.values()) == {
        0: (pytest.approx(0.25, abs=0.01), pytest.approx(0.98, abs=0.03))
    }
    picture = io.StringIO()
    print_once(run, picture)
    lines = picture.getvalue().splitlines()
    assert any(
        line
        == "GPU 0 busy 25 % nvidia-smi 97 % 211 W - GPU 1 nvidia-smi 0 % - CPU 65 W"
        for line in lines
    )
    assert any(line.endswith("90 %   25 %") for line in lines)
    assert max(map(len, lines)) <= 80


def test_without_a_meter_the_screen_says_what_nvidia_smi_would_say(tmp_path: Path):
    path = tmp_path / "opencl.cutaway"
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as writer:
        process, thread = begin(writer, 10, "learner", "learner")
        records, _ = learner_records(process, 40)
        thread.append(records)
        work = np.zeros(40, fmt.DEVICE_DTYPE)
        work["start"] = START + 100 * MS * np.arange(40)
        work["end"], work["kind"] = work["start"] + MS, DeviceKind.KERNEL
        process.device(work)
    run = LiveRun(path)
    run.refresh()
    run.refresh()
    picture = io.StringIO()
    print_once(run, picture)
    assert re.search(
        r"GPU 0 busy 1(\.0)? % \(nvidia-smi would say (9\d|100) %\)", picture.getvalue()
    )


def test_a_damaged_device_file_is_passed_over(tmp_path: Path):
    path = single(tmp_path / "r.cutaway")
    folder = next(path.glob("p*-*"))
    head = np.zeros(1, fmt.BLOCK_HEAD_DTYPE)
    head["magic"], head["stream"], head["count"], head["bytes"] = (
        BLOCK_MAGIC,
        Stream.DEVICE,
        7,
        95,
    )
    torn = head.copy()
    torn["count"], torn["bytes"] = 1, fmt.DEVICE_DTYPE.itemsize
    chunks = [part.tobytes().ljust(DEVICE_CHUNK, b"x") for part in (head, torn)]
    (folder / "device.bin").write_bytes(b"".join(chunks) + head.tobytes()[:20])
    run = LiveRun(path)
    run.refresh()
    assert run.gpu(*run.processes.values()) == {}


def test_keys_choose_sort_and_enter(tmp_path: Path):
    run = LiveRun(crowd(tmp_path / "r.cutaway"))
    run.refresh()
    view = View()
    for key in ("down", "down", "s", "s", "s"):
        view.press(key, run)
    assert view.chosen == 2 and view.sort == "waits"
    assert ordered(run, view)[-1].name == "learner"  # 40 % against 60 % of the workers
    view.press("\r", run)
    p = Printer(io.StringIO())
    with p.console.capture() as picture:
        p.console.print(draw(run, view, p, 24))
    assert "operation" in picture.get() and "pid 10" in picture.get()
    view.press("o", run)
    assert view.operation == "simulation"
    view.press("back", run)
    view.press("q", run)
    assert not view.inside and view.quit


def test_arrow_keys_and_escape_are_told_apart():
    reader, writer = os.pipe()
    os.write(writer, b"\x1b[A\x1b[Bq")
    assert read_keys(reader, 0) == ["up", "down", "q"]
    os.write(writer, b"\x1b")
    assert read_keys(reader, 0) == ["back"]
    assert read_keys(reader, 0) == []
    os.close(reader), os.close(writer)


def test_the_newest_run_is_the_default(tmp_path: Path):
    with pytest.raises(CutawayError, match="There is no run in"):
        newest_run(tmp_path)
    older, newer = single(tmp_path / "a.cutaway"), single(tmp_path / "b.cutaway")
    os.utime(older / "run.json", (1, 1))
    assert newest_run(tmp_path) == newer


def test_the_command_takes_the_newest_run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    single(tmp_path / "here.cutaway")
    monkeypatch.chdir(tmp_path)
    assert main(["top"]) == 0  # not a terminal: one picture
    assert capsys.readouterr().out.startswith("cutaway top  here.cutaway - 1 process")
    assert main(["top", "--once", "absent.cutaway"]) == 1
    assert "is not a Cutaway run" in capsys.readouterr().err


@pytest.mark.parametrize("finished", [True, False])
def test_the_verdict_is_the_one_that_show_gives(tmp_path: Path, finished: bool):
    path = crowd(tmp_path / "r.cutaway")
    if not finished:
        (path / "exit.json").unlink()
    live = LiveRun(path)
    live.refresh()
    said = live.judge.look(live.finished, wait=True)
    assert said == digest_at(path).verdict and said.rule == "simulation-bound-workers"
    shown = io.StringIO()
    print_once(live, shown)
    assert (
        said.label in shown.getvalue()
        and f"Try: {said.advice}"[:60] in shown.getvalue()
    )


def test_the_window_says_what_the_sweep_says(tmp_path: Path):
    """A run of less than ten seconds, looked at 30 times while it grows: the same nanoseconds by operation and layer."""
    path = tmp_path / "r.cutaway"
    with RunWriter(path, cpus=2) as run:
        process, thread = begin(run, 7, "main", "learner")
        records, stop = learner_records(process, 80)
        live = LiveRun(path)
        for part in np.array_split(records, 30):
            thread.append(part)
            thread.flush()
            process.flush()
            live.refresh()
        process.exit(t=stop, code=0)
    live.refresh()
    assert live.up_ns < WINDOW_S * 1e9
    cells = cutaway.open(path).breakdown(by=("operation", "layer"))
    expected = {(row["operation"], row["layer"]): row["raw_ns"] for row in cells}
    assert live.main().totals() == expected


def test_a_refresh_reads_what_is_new_however_long_the_run_is(tmp_path: Path):
    """Bytes read from files at a look that finds ten new iterations, after 50 blocks and after 1,000."""
    read = [bytes_of_a_refresh(tmp_path / f"{n}.cutaway", n) for n in (50, 1000)]
    assert read[1] < 1.1 * read[0]


def bytes_of_a_refresh(path: Path, blocks: int) -> int:
    with RunWriter(path, cpus=2) as run:
        process, thread = begin(run, 7, "main", "learner")
        records, _ = learner_records(process, 10 * (blocks + 2))
        parts = np.array_split(records, blocks + 2)
        for part in parts[:-2]:
            thread.append(part)
            thread.flush()
        process.flush()
        live = LiveRun(path)
        for part in parts[-2:]:
            live.refresh()
            thread.append(part)
            thread.flush()
            process.flush()
            before = bytes_read()
        live.refresh()
        return bytes_read() - before


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])
