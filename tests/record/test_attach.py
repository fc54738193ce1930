"""`cutaway attach`: a program that runs already is recorded for a while and goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recorded import cutaway, read, script

import cutaway as product
from cutaway import injection

pytestmark = pytest.mark.core

# Goes on until its standard input closes; then says what came out, and what of us is left in it.
PLAIN = """
    import hashlib, os, select, sys, threading, time
    import numpy as np

    def rolled(passes):
        state = np.arange(16.0)
        for _ in range(100):
            state = np.roll(state, 1) * 1.5 % 7.0
        for number in range(10_000):  # enough of its own for a few samples
            passes += number
        return hashlib.sha256(state.tobytes()).hexdigest()

    print("ready", flush=True)
    results = {rolled(100)}
    while not select.select([sys.stdin], [], [], 0)[0]:
        results.add(rolled(100))
        time.sleep(0.001)
    mine = sorted(name for name in dir() if not name.startswith("__"))
    print(sorted(results), mine, len(sys.path), threading.active_count())
    print([type(finder).__module__ for finder in sys.meta_path])
    time.sleep(0.2)
"""


@contextmanager
def running(
    folder: Path, text: str, python: str = sys.executable, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    environment = (
        {k: v for k, v in os.environ.items() if k != "CUTAWAY"}
        | variables
        | {"OMP_NUM_THREADS": "1"}
    )
    program = subprocess.Popen(
        [python, str(script(folder, text))], cwd=folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
        yield program
    finally:
        program.kill()
        program.communicate()


def ends(program: subprocess.Popen[str]) -> str:
    """Lets the program end, which must go well; what it printed."""
    out, err = program.communicate(timeout=300)
    assert (program.returncode, err) == (0, "")
    return str(out)


def test_a_running_program_is_recorded_and_left_as_it_was(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN) as program:
        alone = ends(program)
    with running(tmp_path, PLAIN) as program:
        done = cutaway(
            "attach", program.pid, "--for", "2s", "-o", "a.cutaway", cwd=tmp_path
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "continues without Cutaway" in done.stderr
        assert (
            "show a.cutaway" in done.stderr
        )  # the verdict, as `cutaway run` prints it
        before = [
            (f, f.stat().st_size)
            for f in (tmp_path / "a.cutaway").rglob("*")
            if f.is_file()
        ]
        attached = ends(program)
        assert before == [
            (f, f.stat().st_size) for f, _ in before
        ]  # nothing was written after the end
    assert attached == alone
    (seen,) = read(tmp_path / "a.cutaway")
    assert (seen.pid, seen.name) == (program.pid, "train")
    assert seen.calls > 0
    about = json.loads((tmp_path / "a.cutaway/run.json").read_text())
    assert about["source"] == "cutaway attach"
    run = product.open(str(tmp_path / "a.cutaway"))
    functions = set(run.lines("function")["function"].tolist())
    assert "rolled" in functions  # Python stacks are sampled
    assert set(run.threads()["name"].tolist()) == {
        "MainThread"
    }  # ours is none of the program's


def test_attaching_twice_gives_two_runs(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN) as program:
        for name in ("one", "two"):
            done = cutaway(
                "attach", program.pid, "--for", "1s", "-q", "-o", name, cwd=tmp_path
            )
            assert (done.returncode, done.stderr) == (0, "")
        ends(program)
    assert all(read(tmp_path / name)[0].calls > 0 for name in ("one", "two"))


def test_the_program_needs_no_cutaway_of_its_own(tmp_path: Path) -> None:
    python = str(getattr(sys, "_base_executable", sys.executable))
    text = PLAIN.replace("import numpy as np", "np = None").replace(
        "rolled(100)", "len(os.listdir('.'))", 1
    )
    text = text.replace("results.add(rolled(100))", "time.sleep(0.001)")
    with running(tmp_path, text, python) as program:
        done = cutaway(
            "attach", program.pid, "--for", "1s", "-q", "-o", "a", cwd=tmp_path
        )
        assert (done.returncode, done.stderr) == (0, "")
        ends(program)
    assert read(tmp_path / "a")[0].calls > 0


def test_a_python_without_our_extension_is_named(tmp_path: Path) -> None:
    find = Path(__file__).parents[2] / "scripts/python-for"
    wanted = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
    found = subprocess.run([find, wanted], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"no Python {wanted} here")
    text = "import sys\nprint('ready', flush=True)\nfor line in iter(lambda: sum(range(1000)), -1): pass\n"
    with running(tmp_path, text, found.stdout.strip()) as program:
        done = cutaway("attach", program.pid, "-o", "a", cwd=tmp_path)
        assert done.returncode == 1
        assert (
            f"it is Python {wanted}, and Cutaway is not built for that here"
            in done.stderr
        )
        assert program.poll() is None
    assert not (tmp_path / "a").exists()


def attaching(program: subprocess.Popen[str], cwd: Path) -> subprocess.Popen[str]:
    """An attach for ten minutes that has begun to record."""
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "attach",
        str(program.pid),
        "--for",
        "10m",
        "-o",
        "a",
    ]
    attach = subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True)
    assert attach.stderr is not None
    assert any(
        "cutaway: recording process" in line
        for line in iter(attach.stderr.readline, "")
    )
    return attach


def test_ctrl_c_ends_it_early_and_leaves_the_program(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN) as program:
        attach = attaching(program, tmp_path)
        attach.send_signal(signal.SIGINT)
        said = attach.communicate(timeout=300)[1]
        assert (
            attach.returncode == 0
            and "continues without Cutaway" in said
            and "cutaway show a" in said
        )
        ends(program)


def test_a_killed_attach_leaves_the_program_too(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN) as program:
        attach = attaching(program, tmp_path)
        attach.kill()
        attach.communicate()
        for _ in range(20):  # until it has noticed
            done = cutaway(
                "attach", program.pid, "--for", "1s", "-q", "-o", "b", cwd=tmp_path
            )
            if "recorded already" not in done.stderr:
                break
        assert (done.returncode, done.stderr) == (0, "")
        ends(program)


def test_children_forked_meanwhile_are_recorded(tmp_path: Path) -> None:
    forks = """
    while not select.select([sys.stdin], [], [], 0)[0]:
        child = os.fork()
        if not child:
            hashlib.sha256(b"x" * 10000).hexdigest()
            os._exit(7)
        results.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        time.sleep(0.01)
    """
    head, _, tail = PLAIN.partition("    while not")
    text = (
        head.replace("{rolled(100)}", "set()")
        + forks.strip("\n")
        + "\n    mine"
        + tail.partition("    mine")[2]
    )
    with running(tmp_path, text) as program:
        done = cutaway(
            "attach", program.pid, "--for", "2s", "-q", "-o", "a", cwd=tmp_path
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert ends(program).startswith("[7] ")
    seen = read(tmp_path / "a")
    assert program.pid in [one.pid for one in seen] and len(seen) > 1
    assert {one.ppid for one in seen} >= {program.pid}


CHILDREN = """
    import multiprocessing, select, sys, time
    import numpy as np

    def work(started):
        started.set()
        while True:
            np.roll(np.arange(16.0), 1)
            time.sleep(0.001)

    if __name__ == "__main__":
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            started = context.Event()
            context.Process(target=work, args=(started,), name=method, daemon=True).start()
            started.wait()
        context = multiprocessing.get_context("fork")
        idle = context.Process(target=time.sleep, args=(1000,), daemon=True)
        idle.start()
        print("ready", flush=True)
        print(idle.pid, flush=True)
        while not select.select([sys.stdin], [], [], 0.01)[0]: pass
"""


def test_children_that_exist_are_recorded_or_named(tmp_path: Path) -> None:
    with running(tmp_path, CHILDREN) as program:
        assert program.stdout is not None
        idle = program.stdout.readline().strip()
        done = cutaway(
            "attach", program.pid, "--for", "2s", "-q", "-o", "a", cwd=tmp_path
        )
        assert done.returncode == 0
        assert (
            f"child process {idle} is not recorded" in done.stderr
            and done.stderr.count("child") == 1
        )
        ends(program)  # and its children with it
    seen = read(tmp_path / "a")
    assert len(seen) == 4 and all(one.calls > 0 for one in seen)


STARTS = """
    import select, subprocess, sys

    WORK = "import time, numpy as np\\nwhile True: np.roll(np.arange(16.0), 1); time.sleep(0.001)"

    print("ready", flush=True)
    child = None
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        if child is None and "cutaway" in sys.modules:
            child = subprocess.Popen([sys.executable, "-c", WORK])
    child.kill()
    print(child.wait())
"""


def test_an_interpreter_started_meanwhile_is_recorded_and_left(tmp_path: Path) -> None:
    with running(tmp_path, STARTS) as program:
        attach = attaching(program, tmp_path)
        child = None
        while child is None or not any(
            child.glob("events.bin")
        ):  # the test's own time limit ends this
            assert attach.poll() is None
            others = (
                folder
                for folder in tmp_path.glob("a/p*")
                if not folder.name.startswith(f"p{program.pid}-")
            )
            child = next(others, None)
            time.sleep(0.1)
        time.sleep(1)  # for a few calls
        attach.send_signal(signal.SIGINT)
        said = attach.communicate(timeout=300)[1]
        assert attach.returncode == 0 and "is not recorded" not in said
        assert ends(program).strip() == "-9"  # the child ran on until it was killed
    seen = read(tmp_path / "a")
    assert len(seen) == 2 and all(one.calls > 0 for one in seen)


def refusal(pid: int, cwd: Path, **options: object) -> str:
    done = cutaway("attach", pid, "-o", "refused", cwd=cwd, **options)
    assert done.returncode == 1 and not (cwd / "refused").exists()
    said = [line for line in done.stderr.splitlines() if "Traceback" not in line]
    assert len(said) == 1, done.stderr
    return said[0]


def test_what_cannot_be_attached_to_is_said_in_one_sentence(tmp_path: Path) -> None:
    assert "There is no process 4194305; find yours" in refusal(4194305, tmp_path)
    with subprocess.Popen(["sleep", "600"]) as other:
        assert f"Process {other.pid} is not Python" in refusal(other.pid, tmp_path)
        without = tmp_path / "bin"
        without.mkdir()
        needs_debugger = not hasattr(sys, "remote_exec")
        said = refusal(other.pid, tmp_path, env={"PATH": str(without)})
        assert (
            "install it, for instance with `apt install gdb`" in said
        ) is needs_debugger
        other.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, other.pid, os.WSTOPPED)
        assert f"kill -CONT {other.pid}" in refusal(other.pid, tmp_path)
        other.kill()


def test_a_program_may_forbid_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not hasattr(sys, "remote_exec"):

        def forbidden(pid: int, path: str) -> None:
            raise RuntimeError("Remote debugging is not enabled in the remote process")

        monkeypatch.setattr(sys, "remote_exec", forbidden, raising=False)
    script = tmp_path / "line.py"
    script.write_text("")
    with running(tmp_path, PLAIN, PYTHON_DISABLE_REMOTE_DEBUG="1") as program:
        with pytest.raises(
            product.CutawayError, match="start it without PYTHON_DISABLE_REMOTE_DEBUG"
        ):
            injection.inject(program.pid, script)
        ends(program)


def test_a_program_that_is_recorded_already_says_where(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN, CUTAWAY=str(tmp_path / "first.cutaway")) as program:
        assert "it is recorded already, into" in refusal(program.pid, tmp_path)
        ends(program)


def test_somebody_elses_process_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(product.CutawayError, match="attach as that user or as root"):
        injection.check(os.getpid())


def test_a_forbidden_attach_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "scope").write_text("1\n")
    gdb = tmp_path / "gdb"
    gdb.write_text("#!/bin/sh\necho 'ptrace: Operation not permitted.'\n")
    gdb.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(injection, "SCOPE", tmp_path / "scope")
    monkeypatch.delattr(sys, "remote_exec", raising=False)
    for user, remedy in (
        (1000, "sysctl kernel.yama.ptrace_scope=0"),
        (0, "--cap-add SYS_PTRACE"),
    ):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with pytest.raises(product.CutawayError, match=remedy):
            injection.inject(os.getpid(), gdb)


def test_a_debugger_that_may_not_look_does_not_say_that_it_is_no_python() -> None:
    said = 'ptrace: Operation not permitted.\nNo symbol table is loaded.  Use the "file" command.'
    assert "does not let you attach" in injection._why(1, said)


def test_python_itself_is_asked_where_it_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[int, str]] = []
    monkeypatch.setattr(
        sys, "remote_exec", lambda pid, path: asked.append((pid, path)), raising=False
    )
    injection.inject(7, tmp_path / "line.py")
    assert asked == [(7, str(tmp_path / "line.py"))]
