"""Who was waited for: the process or thread that really ended a wait, and nobody where that is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

import cutaway

pytestmark = pytest.mark.core

OWN = """
    import multiprocessing, os, queue, socket, subprocess, sys, threading, time
    import cutaway

    mp = multiprocessing.get_context("fork")

    def later(act, *args):
        def soon():
            time.sleep(0.15)
            act(*args)
        threading.Thread(target=soon, name="helper").start()

    def all_kinds():
        a, b = os.pipe()
        later(os.write, b, b"x")
        with cutaway.operation("pipe"): os.read(a, 1)
        a, b = socket.socketpair()
        later(b.send, b"x")
        with cutaway.operation("socket"): a.recv(1)
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        later(server.sendall, b"x")
        with cutaway.operation("tcp"): client.recv(1)
        semaphore = mp.Semaphore(0)
        later(semaphore.release)
        with cutaway.operation("semaphore"): semaphore.acquire()
        event = mp.Event()
        later(event.set)
        with cutaway.operation("mp.Event"): event.wait()
        event = threading.Event()
        later(event.set)
        with cutaway.operation("Event"): event.wait()
        barrier = threading.Barrier(2)
        later(barrier.wait)
        with cutaway.operation("Barrier"): barrier.wait()
        for kind in (queue.Queue, queue.SimpleQueue):
            line = kind()
            later(line.put, 1)
            with cutaway.operation(kind.__name__): line.get()
        with cutaway.operation("stranger"):
            other = subprocess.Popen(["sh", "-c", "sleep .15; echo x"], stdout=subprocess.PIPE)
            other.stdout.read()
        other.wait()

    idle = mp.Process(target=time.sleep, args=(60,), name="idle")
    idle.start()
    child = mp.Process(target=all_kinds, name="child")
    child.start()
    all_kinds()
    child.join()
    idle.kill()
    idle.join()
"""

KINDS = (
    "pipe",
    "socket",
    "tcp",
    "semaphore",
    "mp.Event",
    "Event",
    "Barrier",
    "Queue",
    "SimpleQueue",
)


def test_waits_served_by_an_own_thread_are_given_to_it_and_never_to_a_relative(
    tmp_path: Path,
) -> None:
    # Given: parent and child each wait for helper threads of their own, and for a shell that is not recorded.
    record(tmp_path, script(tmp_path, OWN))
    run = cutaway.open(tmp_path / "run.cutaway")
    names, threads = run.processes()["name"].tolist(), run.threads()["name"].tolist()
    for process in (names.index("train"), names.index("child")):
        own = run.waits().where(process=process)
        longest = {
            row["operation"]: row
            for row in reversed(list(own.sort("ns", descending=True)))
        }
        # Then: each wait names the thread that ended it …
        for kind in KINDS:
            row = longest[kind]
            assert (kind, row["for_process"]) == (kind, process)
            assert threads[row["for_thread"]] == "helper", kind
        # … and what cannot be known is not.
        assert longest["stranger"]["function"] == "io.FileIO.readall"
        assert (longest["stranger"]["for_process"], longest["stranger"]["among"]) == (
            -1,
            "",
        )


WORKERS = """
    import multiprocessing, time
    import cutaway

    mp = multiprocessing.get_context("fork")

    def one(pipe):
        while pipe.recv():
            time.sleep(0.05)
            pipe.send(1)

    def many(results):
        for _ in range(5):
            time.sleep(0.05)
            results.put(1)

    def counted(semaphore):
        time.sleep(0.15)
        semaphore.release()

    if __name__ == "__main__":
        ours, theirs = mp.Pipe()
        results, semaphore = mp.Queue(), mp.Semaphore(0)
        workers = [mp.Process(target=one, args=(theirs,), name="one", daemon=True)]
        workers += [mp.Process(target=many, args=(results,), name=f"many-{i}") for i in range(2)]
        workers += [mp.Process(target=counted, args=(semaphore,), name="counted")]
        for worker in workers:
            worker.start()
        for _ in range(4):
            with cutaway.operation("pipe"):
                ours.send(1)
                ours.recv()
        with cutaway.operation("queue"):
            for _ in range(10):
                results.get()
        with cutaway.operation("semaphore"):
            semaphore.acquire()
        ours.send(0)
"""


def test_other_processes_are_named_and_several_are_all_named(tmp_path: Path) -> None:
    record(
        tmp_path, script(tmp_path, WORKERS.replace("time.sleep(0.15)", "time.sleep(2)"))
    )
    run = cutaway.open(tmp_path / "run.cutaway")
    names = run.processes()["name"].tolist()
    own = run.waits().where(process=names.index("train"))
    longest = {
        row["operation"]: row for row in reversed(list(own.sort("ns", descending=True)))
    }
    assert names[longest["pipe"]["for_process"]] == "one"
    assert names[longest["semaphore"]["for_process"]] == "counted"
    among = {names[int(i)] for i in longest["queue"]["among"].split(",")}
    assert longest["queue"]["for_process"] == -1 and among == {"many-0", "many-1"}


FORKED = """
    import os, time
    import cutaway
    from cutaway import _recorder

    _recorder.set_process(role="learner")  # as the first backward() does
    with cutaway.operation("backpropagation"):
        time.sleep(0.01)
    for _ in range(2):
        if os.fork() == 0:
            with cutaway.operation("simulation"):
                time.sleep(0.01)
            os._exit(0)
    for _ in range(2):
        os.wait()
"""


def test_a_forked_worker_has_the_role_of_what_it_does(tmp_path: Path) -> None:
    record(tmp_path, script(tmp_path, FORKED))
    roles = cutaway.open(tmp_path / "run.cutaway").processes()["role"].tolist()
    assert sorted(roles) == ["env worker", "env worker", "learner"]
