"""Layer wait: only what blocked, and who was waited for."""

from __future__ import annotations

import multiprocessing
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocked import until_blocked, when_blocked
from recorded_calls import Seen, calls, recording

import cutaway
from cutaway.record.layers import waits
from cutaway.trace.reader import read_run

pytestmark = pytest.mark.core

LATER = 0.02


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    import _multiprocessing
    import _queue
    import _socket
    import _thread
    import posix

    for module in (posix, time, _thread, _socket, select, _multiprocessing, _queue):
        waits.MODULES[module.__name__](module)
    with recording(tmp_path):
        yield tmp_path


def _waits(run: Path) -> list[Seen]:
    """What this test's own thread waited for."""
    import cutaway._recorder as recorder

    recorder.restore()
    recorder.stop()
    return [
        c for c in calls(run, "wait") if c.pid == os.getpid() and c.file == __file__
    ]


def test_sleep(run: Path) -> None:
    time.sleep(LATER)
    (seen,) = _waits(run)
    assert seen.fn == "time.sleep"


def test_a_pipe_is_named_by_its_inode(run: Path) -> None:
    read, write = os.pipe()
    thread = when_blocked(os.write, write, b"x")
    assert os.read(read, 1) == b"x"
    thread.join()
    seen = [c for c in _waits(run) if c.fn == "os.read"]
    assert [c.on for c in seen] == [f"pipe:{os.fstat(write).st_ino}"]


def test_reading_a_file_is_no_wait(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(20_000_000))
    fd = os.open(path, os.O_RDONLY)
    assert len(os.read(fd, 20_000_000)) == 20_000_000
    os.close(fd)
    assert [c for c in _waits(run) if c.fn == "os.read"] == []


def test_a_descriptor_that_was_reused_is_looked_at_again(run: Path) -> None:
    inodes = []
    for _ in range(2):
        read, write = os.pipe()
        inodes.append(os.fstat(read).st_ino)
        thread = when_blocked(os.write, write, b"x")
        os.read(read, 1)
        thread.join()
        os.close(read)
        os.close(write)
    assert [c.on for c in _waits(run) if c.fn == "os.read"] == [
        f"pipe:{inode}" for inode in inodes
    ]


def test_both_ends_of_a_socket_pair_are_known(run: Path) -> None:
    ours, theirs = socket.socketpair()
    thread = when_blocked(theirs.sendall, b"x")
    assert ours.recv(1) == b"x"
    thread.join()
    (seen,) = [c for c in _waits(run) if c.fn == "socket.socket.recv"]
    assert seen.on == f"socket:{os.fstat(ours.fileno()).st_ino}"
    assert seen.peer == f"socket:{os.fstat(theirs.fileno()).st_ino}"


@pytest.mark.parametrize("how", ["select", "poll", "epoll"])
def test_waiting_for_many_names_the_one_that_came(run: Path, how: str) -> None:
    pipes = [os.pipe() for _ in range(3)]
    thread = when_blocked(os.write, pipes[1][1], b"x")
    reads = [read for read, _ in pipes]
    if how == "select":
        assert select.select(reads, [], [])[0] == [reads[1]]
    else:
        many = select.poll() if how == "poll" else select.epoll()
        for fd in reads:
            many.register(fd, select.POLLIN)
        assert [fd for fd, _ in many.poll()] == [reads[1]]
    thread.join()
    (seen,) = [c for c in _waits(run) if how in c.fn.rpartition(".")[2] + c.fn]
    assert seen.on == f"pipe:{os.fstat(reads[1]).st_ino}"


def test_a_held_lock_is_a_wait_and_a_free_one_is_not(run: Path) -> None:
    lock = threading.Lock()
    for _ in range(1000):
        with lock:
            pass
    lock.acquire()
    thread = when_blocked(lock.release)
    with lock:
        pass
    thread.join()
    longest = max(
        _waits(run),
        key=lambda c: c.end - c.start if c.fn.startswith("threading.lock") else 0,
    )
    assert longest.fn == "threading.lock.__enter__"
    assert longest.line == _line_of("    with lock:\n        pass\n    thread.join()")


def _line_of(text: str) -> int:
    whole = Path(__file__).read_text(encoding="utf-8")
    return whole[: whole.index(text)].count("\n") + 1


def test_a_thread_that_waits_with_a_timeout_keeps_its_exception(run: Path) -> None:
    with pytest.raises(queue.Empty):
        queue.SimpleQueue().get(timeout=LATER)
    ours, _theirs = socket.socketpair()
    ours.settimeout(LATER)
    with pytest.raises(TimeoutError):
        ours.recv(1)
    assert [c.fn for c in _waits(run)] == [
        "queue.SimpleQueue.get",
        "socket.socket.recv",
    ]


def test_a_semaphore_between_processes_is_named(run: Path) -> None:
    semaphore = multiprocessing.get_context("spawn").Semaphore(0)
    thread = when_blocked(semaphore.release)
    assert semaphore.acquire()
    thread.join()
    (seen,) = [
        c for c in calls_after(run) if c.fn == "_multiprocessing.SemLock.acquire"
    ]
    assert seen.on == f"sem:{semaphore._semlock.name}"  # type: ignore[attr-defined]


def calls_after(run: Path) -> list[Seen]:
    import cutaway._recorder as recorder

    recorder.stop()
    return calls(run, "wait")


def test_children_are_named_and_their_end_is_logged(run: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; sys.stdin.read(); raise SystemExit(7)",
    ]
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert child.stdin is not None
    thread = when_blocked(child.stdin.close)
    assert os.waitpid(child.pid, 0)[1] == 7 << 8
    child.returncode = 7
    thread.join()
    parent = os.getpid()
    other = os.fork()
    if other == 0:
        until_blocked(parent, parent)
        os.kill(os.getpid(), 9)
    os.waitid(os.P_PID, other, os.WEXITED)
    on = [c.on for c in _waits(run) if c.fn.startswith("os.wait")]
    assert on == [f"pid:{child.pid}", f"pid:{other}"]
    (process,) = [p for p in read_run(run).processes if p.pid == os.getpid()]
    ended = {
        entry["pid"]: (entry.get("code"), entry.get("signal"))
        for entry in process.log.children
    }
    assert ended[child.pid] == (7, None)
    assert ended[other] == (None, 9)


def test_nothing_that_did_not_block_is_recorded(run: Path) -> None:
    read, write = os.pipe()
    for _ in range(300):
        os.write(write, b"x")
    for _ in range(300):
        assert os.read(read, 1) == b"x"
    # A busy machine may take the core away within a call; that too is time without progress.
    assert len([c for c in _waits(run) if c.fn == "os.read"]) < 30


def test_who_tells_what_was_waited_for_may_wait_as_well(run: Path) -> None:
    """The wait then ends after it, by the name it had: records of a thread stay in the order of time, and nested."""
    import signal

    import cutaway._recorder as recorder

    def told(_: tuple[object, ...]) -> str:
        time.sleep(LATER)
        return "mine"

    recorder.patch_wait(signal.sigtimedwait, "signal.sigtimedwait", told)
    signal.sigtimedwait([], LATER)
    seen = {c.fn: c.on for c in _waits(run)}
    assert seen == {"signal.sigtimedwait": "", "time.sleep": ""}
    assert cutaway.open(run).losses()["records out of order"] == 0
