"""`cutaway run`: the program behaves as if we were not there, and the folder tells what ran."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recorded import cutaway, read, record, script
from recorded_calls import calls

pytestmark = pytest.mark.core


def test_everything_after_the_script_goes_to_the_script(tmp_path: Path) -> None:
    script(tmp_path, "import sys; print(sys.argv[1:])")
    done = cutaway(
        "run",
        "-o",
        "a.cutaway",
        "train.py",
        "-o",
        "x",
        "--for",
        "--",
        "-m",
        cwd=tmp_path,
    )
    assert done.stdout == "['-o', 'x', '--for', '--', '-m']\n"
    assert (tmp_path / "a.cutaway" / "run.json").exists()


def test_a_module_is_run_as_python_does(tmp_path: Path) -> None:
    script(tmp_path, "import sys; print(__name__, sys.argv[1:])", "pkg.py")
    done = cutaway("run", "-o", "a.cutaway", "-m", "pkg", "-o", "1", cwd=tmp_path)
    assert done.stdout == "__main__ ['-o', '1']\n"


def test_any_command_is_run_and_python_below_it_is_recorded(tmp_path: Path) -> None:
    script(tmp_path, "import cutaway\nwith cutaway.operation('work'): pass")
    seen = record(tmp_path, "sh", "-c", f"{sys.executable} train.py; exit 0")
    assert [p.operations["work"] for p in seen] == [1]


def test_streams_are_the_programs_own(tmp_path: Path) -> None:
    script(
        tmp_path,
        "import sys; print(sys.stdin.read().upper()); print('oops', file=sys.stderr)",
    )
    done = cutaway("run", "-q", "train.py", cwd=tmp_path, input="hello")
    assert (done.stdout, done.stderr) == ("HELLO\n", "oops\n")


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_programs(tmp_path: Path, code: int) -> None:
    script(tmp_path, f"raise SystemExit({code})")
    done = cutaway("run", "-q", "-o", "a.cutaway", "train.py", cwd=tmp_path)
    assert done.returncode == code
    assert (
        json.loads((tmp_path / "a.cutaway" / "exit.json").read_text())["code"] == code
    )


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT]
)
def test_death_by_a_signal_is_ours_too(tmp_path: Path, number: signal.Signals) -> None:
    script(tmp_path, f"import os; os.kill(os.getpid(), {int(number)})")
    done = cutaway("run", "-q", "-o", "a.cutaway", "train.py", cwd=tmp_path)
    assert done.returncode == -number
    assert (
        json.loads((tmp_path / "a.cutaway" / "exit.json").read_text())["signal"]
        == number
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_program(tmp_path: Path, number: signal.Signals) -> None:
    script(
        tmp_path,
        f"""
        import signal, sys, time
        signal.signal({int(number)}, lambda *_: sys.exit(7))
        print("ready", flush=True)
        for _ in range(600):  # a signal just before one long sleep would be seen only after it
            time.sleep(0.1)
        """,
    )
    command = [sys.executable, "-m", "cutaway", "run", "-q", "train.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(300) == 7


def test_tracebacks_are_the_same(tmp_path: Path) -> None:
    script(tmp_path, "def f(): raise ValueError('no')\nf()")
    plain = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True
    )
    done = cutaway("run", "-q", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


def test_the_folder_is_private_and_holds_no_environment(tmp_path: Path) -> None:
    script(tmp_path, "pass")
    cutaway(
        "run",
        "-o",
        "a.cutaway",
        "train.py",
        cwd=tmp_path,
        env={"TOKEN": "a-secret-value"},
    )
    folder = tmp_path / "a.cutaway"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    about = json.loads((folder / "run.json").read_text())
    assert about["command"][-1] == "train.py"
    assert about["cpus"] >= 1
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"a-secret-value" not in path.read_bytes()


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    script(tmp_path, "print('ran')")
    (tmp_path / "a.cutaway").mkdir()
    done = cutaway("run", "-o", "a.cutaway", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "never overwrites a run" in done.stderr
    assert not list((tmp_path / "a.cutaway").iterdir())


def test_default_names_differ(tmp_path: Path) -> None:
    script(tmp_path, "pass")
    for _ in range(2):
        assert cutaway("run", "-q", "train.py", cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob("train-*.cutaway"))) == 2


def test_training_goes_on_where_no_folder_can_be_made(tmp_path: Path) -> None:
    script(tmp_path, "print('trained')")
    done = cutaway("run", "-o", "/proc/nowhere.cutaway", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.count("\n") == 1
    assert "without recording" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to run"),
        (("nowhere.py",), "no file nowhere.py"),
        (("no-such-command",), "neither"),
        (("--window", "soon", "x.py"), "is not a duration"),
        (("--max-size", "big", "x.py"), "is not a size"),
        (("--calibrate-share", "5", "x.py"), "share"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = cutaway("run", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_verbose_shows_the_traceback(tmp_path: Path) -> None:
    done = cutaway("-v", "run", "nowhere.py", cwd=tmp_path)
    assert "Traceback" in done.stderr


def test_every_verb_has_help(tmp_path: Path) -> None:
    done = cutaway("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "cutaway run train.py" in done.stdout
    assert "run " in done.stdout


def test_a_simulator_named_on_the_command_line(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import _codecs_kr
        for _ in range(7): _codecs_kr.getcodec("euc_kr")
        """,
    )
    record(tmp_path, "--simulator", "_codecs_kr", "train.py")
    assert [c.fn for c in calls(tmp_path / "run.cutaway", "simulator")] == [
        "_codecs_kr.getcodec"
    ] * 7


def test_only_chosen_iterations_are_recorded(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway
        for number in range(100):
            cutaway.iteration()
            with cutaway.operation(f"it{number}"): pass
        """,
    )
    (seen,) = record(tmp_path, "--after", "10it", "--for", "20it", "train.py")
    assert set(seen.operations) == {f"it{n}" for n in range(10, 30)}


def test_steps_before_recording_are_in_no_later_pause(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway, time
        for number in range(320):
            cutaway.iteration()
            cutaway.step(100 if number < 20 else 1)
            time.sleep(0.002)
        """,
    )
    (seen,) = record(
        tmp_path, "--after", "20it", "--calibrate-share", "0.5", "train.py"
    )
    assert seen.pauses > 0
    assert 200 < seen.steps <= 300  # the last pause may not have ended


def test_the_size_limit_stops_recording_and_not_the_program(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway
        for number in range(3_000_000):
            with cutaway.operation("work"): pass
        print("done")
        """,
    )
    done = cutaway(
        "run", "-o", "a.cutaway", "--max-size", "1MB", "train.py", cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    size = sum(
        p.stat().st_size for p in (tmp_path / "a.cutaway").rglob("*") if p.is_file()
    )
    assert size < 8_000_000
    (seen,) = read(tmp_path / "a.cutaway")
    assert 0 < seen.operations["work"] < 3_000_000
    assert seen.pauses == 1


def test_a_window_ends_and_training_goes_on(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway, time
        from cutaway import _recorder
        with cutaway.operation("first"): pass
        while _recorder.recording():
            with cutaway.operation("work"): time.sleep(0.001)
        with cutaway.operation("last"): pass
        """,
    )
    (seen,) = record(tmp_path, "--window", "2s", "train.py")
    assert seen.operations["first"] == 1
    assert seen.operations["work"] > 0
    assert seen.operations["last"] == 0
    assert seen.pauses == 1


def test_a_lost_supervisor_does_not_stop_training(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import pathlib, time
        print("ready", flush=True)
        time.sleep(1)
        pathlib.Path("done").touch()
        """,
    )
    command = [sys.executable, "-m", "cutaway", "run", "-q", "train.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    for _ in range(3000):
        if (tmp_path / "done").exists():
            break
        time.sleep(0.1)
    assert (tmp_path / "done").exists()
