"""Layer wait: built-ins that can block. A call shorter than about 2 µs did not block and is not recorded.

Calls that end other waits are recorded too: writes, releases, puts. So a reader can tell which process was waited for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial, wraps

from cutaway import _recorder
from cutaway.record.imports import Any

_SEND = "send sendall sendto sendmsg"
_RECEIVE = "recv recv_into recvfrom recvfrom_into recvmsg recvmsg_into accept _accept connect connect_ex"
# Module, type, its methods (or functions of the module), and how to tell what was waited for: a descriptor given first, the object's
# own, the ready ones in the result, a process, a semaphore's name, or the thread that released the object.
_WAITS = (
    ("posix", "", "read readv write", "fd"),
    ("posix", "", "waitpid waitid wait wait3 wait4", "pid"),
    ("time", "", "sleep", ""),
    ("select", "", "select", "ready"),
    ("select", "poll", "poll", "ready"),
    ("select", "epoll", "poll", "ready"),
    ("_io", "FileIO", "read readall readinto write", "self"),
    ("_socket", "socket", f"{_RECEIVE} {_SEND}", "self"),
    ("_thread", "lock", "acquire __enter__", "object"),
    ("_thread", "RLock", "acquire __enter__", "object"),
    ("_thread", "_ThreadHandle", "join", ""),  # 3.13: Thread.join waits here
    ("_multiprocessing", "SemLock", "acquire __enter__", "semaphore"),
    ("_queue", "SimpleQueue", "get", "queue"),
    ("faster_fifo", "Queue", "get get_many", ""),  # Sample Factory's event loops
)
_ENDS_WAITS = (
    ("_thread", "lock", "release __exit__", "object"),
    ("_thread", "RLock", "release __exit__ _release_save", "object"),
    ("_multiprocessing", "SemLock", "release __exit__", "semaphore"),
    ("_queue", "SimpleQueue", "put", "queue"),
)
_WRITES = frozenset(f"write {_SEND}".split())
_SHOWN = {
    "posix": "os",
    "_io": "io",
    "_socket": "socket",
    "_thread": "threading",
    "_queue": "queue",
}


def _apply(home: str, module: Any) -> None:
    for kind, name, value, on in _natives(_WAITS, home, module):
        path = (_SHOWN.get(home, home), kind.replace("_ThreadHandle", "Thread"), name)
        _recorder.patch_wait(
            value, ".".join(filter(None, path)), on, "wait", name in _WRITES
        )
    for _, _, value, on in _natives(_ENDS_WAITS, home, module):
        _recorder.patch_feed(value, on)
    if home == "posix":
        _recorder.patch_awaited(module.kill, "os.kill", "python", _kills)


def _kills(arguments: tuple[Any, ...], _: Any) -> None:
    """A program that kills its own workers with SIGKILL when it ends has not lost them."""
    pid, number = arguments
    if number and pid > 0 and pid != os.getpid():
        told = f'"pid":{int(pid)},"signal":{int(number)},"t":{time.monotonic_ns()}'
        _recorder.log("kill", told)


def _natives(table: Any, home: str, module: Any) -> Iterator[tuple[str, str, Any, str]]:
    """The rows of a table about a module that exist in this Python."""
    for _, kind, names, on in (row for row in table if row[0] == home):
        owner: Any = getattr(module, kind, None) if kind else module
        if kind == "poll":
            owner = type(module.poll())  # the name is a function's
        elif kind == "lock":
            owner = module.LockType
        for name in names.split():
            if owner is not None and name in vars(owner):
                yield kind, name, vars(owner)[name], on


def _count(module: Any) -> None:
    """A `queue.Queue` is Python around a lock: what goes in and out without waiting is counted here."""
    for name in ("Queue", "PriorityQueue", "LifoQueue"):
        kind = getattr(module, name)
        if not hasattr(kind._put, "__wrapped__"):
            kind._put, kind._get = _counted_put(kind._put), _counted_get(kind._get)


def _counted_put(put: Any) -> Any:
    @wraps(put)
    def _put(queue: Any, item: Any) -> None:
        put(queue, item)
        _recorder.gave(queue)

    return _put


def _counted_get(get: Any) -> Any:
    @wraps(get)
    def _get(queue: Any) -> Any:
        item = get(queue)
        _recorder.took(queue)
        return item

    return _get


MODULES: dict[str, Any] = {row[0]: partial(_apply, row[0]) for row in _WAITS}
MODULES["queue"] = _count
