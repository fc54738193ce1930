"""Every Python process of a run is recorded, with its name, parent and end; others are noted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorded import one, record, script

import cutaway
from cutaway.reports.digests import digest_of
from cutaway.trace.reader import read_run

pytestmark = pytest.mark.core

WORKERS = """
import multiprocessing as mp, os, sys, time
import cutaway

def work(number):
    for _ in range(10):
        with cutaway.operation(f"work {number}"): pass
    if number == 1: sys.exit(5)

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with cutaway.operation("main"): pass
    workers = [context.Process(target=work, args=(n,), name=f"worker-{n}") for n in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    script(tmp_path, WORKERS)
    seen = record(tmp_path, "train.py", method)
    main = one(seen, name="train")
    assert dict(main.operations) == {"main": 1}
    for number in range(2):
        worker = one(seen, name=f"worker-{number}")
        assert dict(worker.operations) == {f"work {number}": 10}
    assert len(seen) == 3
    table = list(cutaway.open(tmp_path / "run.cutaway").processes())
    assert [row["parent"] for row in table] == [
        -1,
        0,
        0,
    ]  # the fork server is no part of the run
    ends = {row["name"]: row["exit"] for row in table}
    assert ends["worker-0"] in ("0", "exit 0", "ok")
    assert "5" in ends["worker-1"]


def test_a_plain_fork_and_its_end(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway, os
        with cutaway.operation("parent"): pass
        pid = os.fork()
        with cutaway.operation("child" if pid == 0 else "parent"): pass
        if pid == 0: os._exit(0)
        os.waitpid(pid, 0)
        """,
    )
    parent, child = sorted(
        record(tmp_path, "train.py"), key=lambda p: -p.operations["parent"]
    )
    assert dict(parent.operations) == {"parent": 2}
    assert dict(child.operations) == {"child": 1}
    assert child.ppid == parent.pid


def test_subprocesses_running_python_and_others(tmp_path: Path) -> None:
    script(
        tmp_path, "import cutaway\nwith cutaway.operation('below'): pass", "below.py"
    )
    script(
        tmp_path,
        """
        import subprocess, sys
        subprocess.run([sys.executable, "below.py"], check=True)
        subprocess.run(["sh", "-c", "exit 3"])
        subprocess.run(["sh", "-c", "kill -9 $$"], preexec_fn=lambda: sum(range(10)))
        """,
    )
    seen = record(tmp_path, "train.py")
    assert one(seen, name="below").operations["below"] == 1
    parent = next(
        p
        for p in read_run(tmp_path / "run.cutaway").processes
        if p.pid == one(seen, name="train").pid
    )
    ends = [(c.get("code"), c.get("signal")) for c in parent.log.children]
    assert ends == [(0, None), (3, None), (None, 9)]
    recorded = {p.pid for p in seen}
    assert [c["pid"] in recorded for c in parent.log.children] == [True, False, False]


def test_the_end_of_a_child_is_told_once(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import multiprocessing as mp, os, subprocess, sys
        def end(code): sys.exit(code)
        if __name__ == "__main__":
            for code, method in enumerate(("fork", "spawn", "forkserver")):
                worker = mp.get_context(method).Process(target=end, args=(code,))
                worker.start(); worker.join(); worker.is_alive(); assert worker.exitcode == code
            shell = subprocess.Popen(["sh", "-c", "exit 3"])
            for _ in range(2):
                os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)
            assert shell.wait() == 3 and shell.poll() == 3
        """,
    )
    record(tmp_path, "train.py")
    told = [
        c["code"]
        for p in read_run(tmp_path / "run.cutaway").processes
        for c in p.log.children
    ]
    assert sorted(told) == [0, 1, 2, 3]


def test_versions_of_what_is_imported_later_are_told(tmp_path: Path) -> None:
    script(tmp_path, "__version__ = '9.8+cu7'", "jax.py")
    script(tmp_path, "import sys, numpy; import jax; assert 'jax' in sys.modules")
    record(tmp_path, "train.py")
    (process,) = read_run(tmp_path / "run.cutaway").processes
    assert process.log.process["versions"] == {
        "numpy": np.__version__,
        "jax": "9.8+cu7",
    }


def test_a_killed_child_is_seen_by_its_parent(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import multiprocessing as mp, os, signal
        import cutaway
        def work():
            with cutaway.operation("last words"): pass
            os.kill(os.getpid(), signal.SIGKILL)
        if __name__ == "__main__":
            worker = mp.get_context("fork").Process(target=work, name="victim")
            worker.start(); worker.join()
        """,
    )
    seen = record(tmp_path, "train.py")
    assert one(seen, name="victim").operations["last words"] == 1
    ends = {
        row["name"]: row["exit"]
        for row in cutaway.open(tmp_path / "run.cutaway").processes()
    }
    assert "9" in ends["victim"] or "KILL" in ends["victim"]


def test_threads_have_their_names(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway, threading
        def work():
            with cutaway.operation("work"): pass
        threads = [threading.Thread(target=work, name=f"feeder-{n}") for n in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        with cutaway.operation("main"): pass
        """,
    )
    record(tmp_path, "train.py")
    (process,) = read_run(tmp_path / "run.cutaway").processes
    names = {thread.name for thread in process.log.threads.values()}
    assert {"MainThread", "feeder-0", "feeder-1", "feeder-2"} <= names


def test_pools_and_executors(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import multiprocessing as mp
        from concurrent.futures import ProcessPoolExecutor
        import cutaway
        def work(n):
            with cutaway.operation("work"): return n
        if __name__ == "__main__":
            with mp.get_context("fork").Pool(2) as pool: print(sum(pool.map(work, range(20))))
            with ProcessPoolExecutor(2, mp_context=mp.get_context("spawn")) as pool:
                print(sum(pool.map(work, range(20))))
        """,
    )
    seen = record(tmp_path, "train.py")
    assert sum(p.operations["work"] for p in seen) == 40


def test_what_a_program_outside_the_run_started_is_a_helper(tmp_path: Path) -> None:
    """As Ray's dashboard does, which is left alone and has modules in processes of their own."""
    services = tmp_path / "ray" / "dashboard"
    services.mkdir(parents=True)
    script(
        services,
        """
        import multiprocessing as mp
        if __name__ == "__main__":
            context = mp.get_context("spawn")
            modules = [context.Process(target=len, args=("",), name=f"DataHead-{n}") for n in range(2)]
            for module in modules: module.start()
            for module in modules: module.join()
        """,
        "serve.py",
    )
    script(
        tmp_path,
        """
        import cutaway, subprocess, sys
        with cutaway.operation("main"): pass
        subprocess.run([sys.executable, sys.path[0] + "/ray/dashboard/serve.py"], check=True)
        """,
    )
    record(tmp_path, "train.py")
    table = cutaway.open(tmp_path / "run.cutaway").processes()
    roles = dict(zip(table["name"].tolist(), table["role"].tolist(), strict=True))
    assert roles == {"train": "", "DataHead-0": "helper", "DataHead-1": "helper"}


def test_a_snippet_that_answers_its_parent_is_a_helper(tmp_path: Path) -> None:
    """As glfw does: a short `python -c` looks at the machine and writes what it found."""
    script(
        tmp_path,
        """
        import cutaway, subprocess, sys
        with cutaway.operation("main"): pass
        print(subprocess.check_output([sys.executable, "-c", "import os; os.write(1, b'2')"]))
        """,
    )
    record(tmp_path, "train.py")
    table = cutaway.open(tmp_path / "run.cutaway").processes()
    roles = dict(zip(table["name"].tolist(), table["role"].tolist(), strict=True))
    assert roles == {"train": "", "-c": "helper"}


@pytest.mark.parametrize("by_itself", [False, True])
def test_a_worker_that_its_program_kills_as_it_leaves_is_no_failure(
    tmp_path: Path, by_itself: bool
) -> None:
    """As vLLM's server ends its engine; one that is killed by something else is told."""
    script(
        tmp_path,
        f"""
        import multiprocessing as mp, os, signal, time
        import cutaway
        def work(ready):
            with cutaway.operation("decode"): pass
            ready.set()
            if {by_itself}: os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        if __name__ == "__main__":
            context = mp.get_context("fork")
            ready = context.Event()
            worker = context.Process(target=work, args=(ready,), name="engine")
            worker.start()
            ready.wait()
            if not {by_itself}: worker.kill()
            worker.join()
        """,
    )
    record(tmp_path, "train.py")
    said = digest_of(cutaway.open(tmp_path / "run.cutaway"))
    ended = {process.name: process.exit for process in said.processes}
    assert ended["engine"] == ("SIGKILL" if by_itself else "by parent")
    assert bool(said.ending.failure) is by_itself
