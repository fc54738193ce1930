"""Recording a part only: by size, by iterations, by time, and all but a random share."""

from __future__ import annotations

from pathlib import Path

import pytest
from streams import events, only_process, outline, recording, run

import cutaway
from cutaway import _recorder
from cutaway.analysis.diff import diff
from cutaway.calibration.estimate import units as calibration_units
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core


def test_a_size_limit_stops_the_recording_and_not_the_program(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, max_bytes=1_000_000)
    deadline = time.monotonic() + 300
    i = 0
    while recorder.recording() and time.monotonic() < deadline:
        i += 1
        recorder.step(i * 7919 % 100_003 + 1)
    for _ in range(1000):
        recorder.step(1)
    recorder.stop()
    print(i)
    """
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    process = only_process(tmp_path)
    size = sum(path.stat().st_size for path in process.folder.iterdir())
    assert 800_000 < size < 1_300_000
    assert outline(process).endswith("pause:4")
    assert [loss["what"] for loss in process.log.losses] == [
        "recording stopped: the size limit was reached"
    ]
    steps = [e for e in events(process) if e.kind is Kind.STEP]
    assert int(done.stdout) - 1 <= len(steps) <= int(done.stdout)


def test_the_size_limit_is_that_of_the_whole_run(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, max_bytes=1_500_000)
    pid = os.fork()
    deadline = time.monotonic() + 300
    i = 0
    while time.monotonic() < deadline:
        i += 1
        recorder.step(i * 7919 % 100_003 + 1)
        if i > 100 and not recorder.recording():
            break
    recorder.stop()
    if pid:
        os.waitpid(pid, 0)
        print(time.monotonic() < deadline)
    os._exit(0) if pid == 0 else None
    """
    done = run(program, tmp_path)
    assert done.stdout == "True\n"
    processes = read_run(tmp_path).processes
    assert len(processes) == 2 and all(
        outline(p).endswith("pause:4") for p in processes
    )


def test_a_window_of_iterations(tmp_path: Path) -> None:
    with recording(tmp_path, after_iterations=3, for_iterations=2):
        for i in range(1, 9):
            _recorder.iteration()
            with _recorder.operation(f"pass {i}"):
                pass
    process = only_process(tmp_path)
    inside = "cpu_time iteration:4 pass 4( pass 4) cpu_time iteration:5 pass 5( pass 5)"
    assert outline(process) == f"begin {inside} pause:2"


def test_other_processes_follow_the_window(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, after_iterations=2, for_iterations=1, sample_hz=50)
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        for recording in (False, True, False):
            with recorder.operation("looks"):
                pass
            while recorder.recording() != recording:
                with recorder.operation("works" if recording is False else "waits"):
                    time.sleep(0.001)
            os.write(tell, b".")
        recorder.stop()
        os._exit(0)
    os.read(told, 1)
    for _ in range(3):
        recorder.iteration()
    os.read(told, 1)
    recorder.iteration()
    os.read(told, 1)
    os.waitpid(pid, 0)
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
    parent, child = sorted(
        read_run(tmp_path).processes, key=lambda p: p.log.process["t"]
    )
    assert outline(parent) == "begin cpu_time iteration:3 pause:2"
    words = outline(child)
    assert words.removeprefix("begin ").startswith(
        ("waits( waits) looks(", "looks( looks) works(")
    )
    assert words.endswith("pause:2")


def test_a_window_of_time(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, window_s=1.5, sample_hz=50)
    while recorder.recording():
        with recorder.operation("a"):
            time.sleep(0.001)
    with recorder.operation("later"):
        pass
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
    process = only_process(tmp_path)
    assert outline(process).endswith("a) pause:2") or outline(process).endswith(
        "a( pause:2"
    )
    assert (
        process.to_ns(events(process)[-1].time, 0) - process.log.process["t"]
        >= 1_499_000_000
    )
    assert "later" in process.log.names.values() and "later" not in outline(process)


def test_a_window_of_time_counts_from_the_first_iteration(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, window_s=0.3, sample_hz=50, calibrate_share=0)
    while recorder.recording():
        time.sleep(0.01)
    for _ in range(1000):
        recorder.iteration()
        with recorder.operation("a"):
            time.sleep(0.002)
        if not recorder.recording():
            break
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
    table = cutaway.open(tmp_path).iterations()
    assert table["iteration"][0] == 1 and len(table) >= 2
    assert table["end_ns"][-1] - table["start_ns"][0] >= 290_000_000


def test_a_window_of_time_ends_in_a_program_that_never_gives_the_gil_away(
    tmp_path: Path,
) -> None:
    program = """
    recorder.start(folder, window_s=0.3, sample_hz=50, calibrate_share=0)
    end = time.thread_time() + 1
    while recorder.recording() and time.thread_time() < end:
        recorder.iteration()
        with recorder.operation("a"):
            sum(range(1000))
    assert not recorder.recording()
    recorder.stop()
    """
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert outline(only_process(tmp_path)).endswith("pause:2")


def busy_units(folder: Path, unit: str, share: float) -> None:
    program = f"""
    recorder.start(folder, calibrate_share={share})
    for i in range(60):
        end = time.thread_time() + 0.006
        while time.thread_time() < end:
            with recorder.operation("work"):
                sum(range(500))
        recorder.{unit}
    recorder.stop()
    """
    assert run(program, folder).returncode == 0


@pytest.mark.parametrize("steps", [False, True])
def test_no_iteration_is_lost_doubled_or_empty_around_a_pause(
    tmp_path: Path, steps: bool
) -> None:
    program = f"""
    recorder.start(folder, calibrate_share=0.4)
    for i in range(60):
        recorder.iteration()
        with recorder.operation("work"):
            time.sleep(0.006)
        if {steps}:
            recorder.step(4)
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
    recorded = cutaway.open(tmp_path)
    table = recorded.iterations()
    assert len(table) in (
        59,
        60,
    )  # of one that was left out to the end nobody knows how long it took
    assert table["iteration"].tolist() == list(range(1, len(table) + 1))
    assert (table["end_ns"] - table["start_ns"]).min() >= 5_900_000
    assert set(table["steps"].tolist()) == {4 if steps else 0}
    units = calibration_units(recorded.swept.units)[0]
    assert set(units.steps[units.off].tolist()) <= ({4} if steps else {0})
    assert set(units.iterations[units.off].tolist()) == {1}
    assert 5 < (table["recorded"] < 0.1).sum() < 50
    assert diff([recorded], [recorded]).a_ns >= 6_000_000


@pytest.mark.parametrize("unit", ["step(4)", "iteration()"])
def test_a_share_of_the_units_is_left_out_with_its_cpu_time(
    tmp_path: Path, unit: str
) -> None:
    busy_units(tmp_path, unit, 0.5)
    process = only_process(tmp_path)
    stream = events(process)
    pauses = [i for i, e in enumerate(stream) if e.kind is Kind.PAUSE]
    resumes = [i for i, e in enumerate(stream) if e.kind is Kind.RESUME]
    assert 2 < len(pauses) < 50 and all(stream[i].id == 1 for i in pauses)
    for pause, resume in zip(pauses, resumes, strict=False):
        assert {e.kind for e in stream[pause + 1 : resume]} <= {
            Kind.STEP,
            Kind.ITERATION,
        }
        before, begin, end, after = (
            stream[i] for i in (pause - 1, resume + 1, resume + 2, resume + 3)
        )
        cpu = [e.id << 32 | e.value for e in (before, begin, end, after)]
        assert {e.kind for e in (before, begin, end, after)} == {Kind.CPU_TIME}
        assert cpu == sorted(cpu) and cpu[2] - cpu[1] >= 5_900_000
    steps = sum(e.value for e in stream if e.kind in (Kind.STEP, Kind.RESUME))
    assert steps in (0, 240) or len(pauses) > len(resumes)


def test_no_share_no_pauses(tmp_path: Path) -> None:
    busy_units(tmp_path, "step()", 0.0)
    assert not {Kind.PAUSE, Kind.CPU_TIME} & {
        e.kind for e in events(only_process(tmp_path))
    }
