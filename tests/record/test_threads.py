"""Many processes with many threads, and one thread with many events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorded import record, script
from streams import array_of, only_process, outline, recording, run

import cutaway
from cutaway import _recorder
from cutaway.record import tasks
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Kind
from effort import effort

pytestmark = pytest.mark.core


def test_sixty_four_processes_with_eight_threads_each(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, name="first", sample_hz=1)
    gate, opened = os.pipe()

    def work():
        os.read(gate, 1)
        for i in range(1, 201):
            recorder.step(i)

    pids = []
    for number in range(63):
        pid = os.fork()
        if pid == 0:
            break
        pids.append(pid)
    threads = [threading.Thread(target=work, name=f"t{i}") for i in range(8)]
    for thread in threads:
        thread.start()
    if pids and len(pids) == 63:
        os.write(opened, bytes(8 * 64))
    for thread in threads:
        thread.join()
    recorder.stop()
    if len(pids) == 63:
        print([os.waitpid(pid, 0)[1] for pid in pids] == [0] * 63)
    """
    done = run(program, tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
    processes = read_run(tmp_path).processes
    assert len(processes) == 64
    expected = np.arange(1, 201)
    for process in processes:
        counted = 0
        for thread in process.threads:
            records = array_of(process, thread)
            steps = records["value"][(records["tag"] & 0xFF) == Kind.STEP]
            if process.log.threads[thread].name != "MainThread":
                assert np.array_equal(steps, expected)
                counted += 1
        assert counted == 8
        assert process.losses.total == 0
        assert not list(process.folder.glob("live-*"))


def test_ten_million_events_in_one_thread(tmp_path: Path) -> None:
    operation, times = _recorder.operation("a"), effort(5_000_000, 1_000_000)
    with recording(tmp_path):
        for _ in range(times):
            with operation:
                pass
    process = only_process(tmp_path)
    entered = left = 0
    last = 0
    for block in process.records(0):
        kinds = block["tag"] & 0xFF
        entered += int((kinds == Kind.OP_ENTER).sum())
        left += int((kinds == Kind.OP_EXIT).sum())
        assert block["time"][0] >= last
        assert (block["time"][1:] >= block["time"][:-1]).all()
        last = block["time"][-1]
    assert (entered, left) == (times, times)
    assert process.losses.total == 0
    assert (process.folder / "events.bin").stat().st_size < 6 * 2 * times


def test_short_threads_leave_small_traces_and_no_segments(tmp_path: Path) -> None:
    program = """
    def work():
        with recorder.operation("short"):
            pass

    recorder.start(folder)
    for i in range(300):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    deadline = time.monotonic() + 300
    while (
        len(segments := [n for n in os.listdir(recorder.folder()) if n.endswith(".seg")]) > 4
        or recorder.stats()["threads"] > 1
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    print(len(segments), recorder.stats()["threads"])
    recorder.stop()
    """
    done = run(program, tmp_path)
    segments, threads = map(int, done.stdout.split())
    assert threads == 1 and segments <= 4
    process = only_process(tmp_path)
    outlines = [
        [int(tag) & 0xFF for tag in array_of(process, t)["tag"]]
        for t in sorted(process.threads)
    ]
    assert outlines[1:] == [[Kind.BEGIN, Kind.OP_ENTER, Kind.OP_EXIT, Kind.END]] * 300
    assert (process.folder / "events.bin").stat().st_size < 300 * 120


def test_threads_that_record_on_after_the_end_and_into_the_next_recording(
    tmp_path: Path,
) -> None:
    program = """
    go_on, rounds = True, 0

    def work():
        global rounds
        while go_on:
            with recorder.operation("forever"):
                pass
            rounds += 1

    def wait_for(more):
        end = rounds + more
        while rounds < end:
            time.sleep(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    for name in ("one", "two", "three"):
        recorder.start(f"{folder}/{name}")
        wait_for(1000)
        recorder.stop()
        wait_for(100)
    go_on = False
    thread.join()
    print("done")
    """
    done = run(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    for name in ("one", "two", "three"):
        process = only_process(tmp_path / name)
        (worker,) = (
            t for t, info in process.log.threads.items() if info.name != "MainThread"
        )
        kinds = array_of(process, worker)["tag"] & 0xFF
        assert kinds[0] == Kind.BEGIN and kinds[-1] == Kind.END
        body = [int(kind) for kind in kinds[1:-1]]
        start = 1 if body[0] == Kind.OP_EXIT else 0
        pairs = body[start : len(body) - (len(body) - start) % 2]
        assert pairs == [Kind.OP_ENTER, Kind.OP_EXIT] * (len(pairs) // 2) and pairs


class Greenlet:
    """Stands for one: all that is asked of it is an identity that can die."""


def test_greenlets_have_operations_of_their_own(tmp_path: Path) -> None:
    main, worker, gone = Greenlet(), Greenlet(), Greenlet()
    with recording(tmp_path):
        with _recorder.operation("inference"):
            _recorder.switched("switch", (main, worker))
            with _recorder.operation("simulation"):
                _recorder.switched("switch", (worker, main))
                _recorder.switched("switch", (main, worker))
            _recorder.switched("switch", (worker, main))
        _recorder.operation("replay").__enter__()
        _recorder.switched("switch", (gone, main))
        del gone
        _recorder.switched("switch", (main, Greenlet()))
    stretches = [
        "inference",
        "simulation",
        "inference",
        "simulation",
        "inference",
        "replay",
    ]
    assert outline(only_process(tmp_path)) == " ".join(
        ["begin", *(f"{s}( {s})" for s in stretches), "end"]
    )


class FakeGreenletModule:
    def __init__(self, trace: object) -> None:
        self.trace = trace

    def gettrace(self) -> object:
        return self.trace

    def settrace(self, trace: object) -> None:
        self.trace = trace


def test_greenlets_are_followed_unless_another_tool_does(tmp_path: Path) -> None:
    free, taken = FakeGreenletModule(None), FakeGreenletModule(print)
    with recording(tmp_path):
        for module in (free, taken):
            tasks.follow_greenlets(module)  # type: ignore[arg-type]
        assert (free.trace, taken.trace) == (_recorder.switched, print)
        for module in (free, taken):
            tasks.leave_greenlets(module)  # type: ignore[arg-type]
    assert (free.trace, taken.trace) == (None, print)
    (note,) = only_process(tmp_path).log.notes
    assert "greenlets" in note


def test_threads_of_the_recorder_are_not_recorded(tmp_path: Path) -> None:
    """Their waits would stand among those of the program."""
    script(
        tmp_path,
        """
        import threading
        from cutaway.record.own_thread import OwnThread
        for kind in (OwnThread, threading.Thread):
            thread = kind(target=threading.Event().wait, args=(0.05,), name=kind.__name__)
            thread.start()
            thread.join()
        """,
    )
    record(tmp_path, "train.py")
    names = cutaway.open(tmp_path / "run.cutaway").threads()["name"].tolist()
    assert "Thread" in names and "OwnThread" not in names
