"""Forked children write into folders of their own, whatever the parent's threads are doing at that moment."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from streams import array_of, outline, run, thread_named

from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core


def steps_of(process: ProcessTrace, thread: int) -> list[int]:
    records = array_of(process, thread)
    return list(records["value"][(records["tag"] & 0xFF) == Kind.STEP])


def test_fork_while_other_threads_record(tmp_path: Path) -> None:
    program = """
    import warnings
    warnings.simplefilter("ignore")  # Python's own, of forking with threads
    recorder.start(folder, name="parent", role="learner")
    counts, go_on = {}, True

    def count(name):
        i = 0
        while go_on:
            i += 1
            recorder.step(i)
            counts[name] = i

    threads = [threading.Thread(target=count, args=(f"t{i}",), name=f"t{i}") for i in range(3)]
    for thread in threads:
        thread.start()
    while len(counts) < len(threads):
        time.sleep(0.001)
    for child in range(20):
        pid = os.fork()
        if pid == 0:
            for i in range(50):
                with recorder.operation(f"of child {child}"):
                    pass
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    go_on = False
    for thread in threads:
        thread.join()
    recorder.stop()
    print(os.getpid(), *(counts[f"t{i}"] for i in range(3)))
    """
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    pid, *counts = map(int, done.stdout.split())
    by_pid = {process.pid: process for process in read_run(tmp_path).processes}
    parent = by_pid.pop(pid)
    for i, count in enumerate(counts):
        assert steps_of(parent, thread_named(parent, f"t{i}")) == list(
            range(1, count + 1)
        )
    assert len(by_pid) == 20
    for process in by_pid.values():
        assert process.log.process["ppid"] == pid
        (words,) = (outline(process, thread) for thread in process.threads)
        name = words.split("(")[0].removeprefix("begin ")
        assert words == "begin " + " ".join([f"{name}( {name})"] * 50)
        assert process.losses.total == parent.losses.total == 0


def test_python_sees_no_more_threads_than_the_program_has(tmp_path: Path) -> None:
    program = """
    import warnings
    warnings.simplefilter("error")  # from 3.12 on: forking with threads is deprecated
    recorder.start(folder)
    for i in range(20_000):
        recorder.step(1)
    if os.fork() == 0:
        recorder.step(2)
        os._exit(0)
    os.wait()
    recorder.step(3)
    recorder.stop()
    """
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    parent, child = sorted(
        read_run(tmp_path).processes, key=lambda p: p.log.process["t"]
    )
    assert steps_of(parent, 0) == [1] * 20_000 + [3] and steps_of(child, 0) == [2]
    assert not list(parent.folder.glob("live-*"))


def test_a_child_that_records_nothing_leaves_no_folder(tmp_path: Path) -> None:
    program = """
    recorder.start(folder)
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
    assert len(read_run(tmp_path).processes) == 1


def test_an_open_operation_stays_with_the_parent(tmp_path: Path) -> None:
    program = """
    recorder.start(folder, name="parent")
    with recorder.operation("outer"):
        pid = os.fork()
        if pid == 0:
            recorder.set_process(name="child", role="actor")
            with recorder.operation("mine"):
                pass
    if pid == 0:
        recorder.stop()
        os._exit(0)
    os.waitpid(pid, 0)
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
    outlines = {p.log.process["name"]: outline(p) for p in read_run(tmp_path).processes}
    assert outlines == {
        "parent": "begin outer( outer) end",
        "child": "begin mine( mine) end",
    }


def test_a_grandchild_and_a_pool(tmp_path: Path) -> None:
    program = """
    import multiprocessing

    def work(i):
        with recorder.operation("job"):
            return i * i

    recorder.start(folder)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(sum(pool.map(work, range(60), chunksize=1)))
    if os.fork() == 0:
        recorder.step(1)
        if os.fork() == 0:
            recorder.step(2)
            os._exit(0)
        os.wait()
        os._exit(0)
    os.wait()
    recorder.stop()
    """
    done = run(program, tmp_path)
    assert done.stdout == f"{sum(i * i for i in range(60))}\n"
    processes = read_run(tmp_path).processes
    tags = np.concatenate(
        [array_of(p, thread)["tag"] for p in processes for thread in p.threads]
    )
    assert ((tags & 0xFF) == Kind.OP_ENTER).sum() == 60
    (child,) = (p for p in processes if any(steps_of(p, t) == [1] for t in p.threads))
    (grandchild,) = (
        p for p in processes if any(steps_of(p, t) == [2] for t in p.threads)
    )
    assert grandchild.log.process["ppid"] == child.pid
    assert grandchild.log.process["host"] == os.uname().nodename


def test_a_program_that_forks_all_the_time_does_not_starve_the_meters(
    tmp_path: Path,
) -> None:
    program = """
    import glob, warnings

    def samples():
        with open(glob.glob(folder + "/p%d-*/log.jsonl" % os.getpid())[0]) as log:
            return sum('"k":"sample"' in line for line in log)

    warnings.simplefilter("ignore")
    recorder.start(folder)
    before = samples()
    while samples() < before + 5:
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    recorder.stop()
    """
    assert run(program, tmp_path).returncode == 0
