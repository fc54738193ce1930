"""Layer wait: built-ins that can block. A call shorter than about 2 µs did not block and is not recorded."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from cutaway import _recorder

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

# What tells who was waited for: a descriptor given first, the object's own, the ready ones in the result, a process.
_FUNCTIONS = {
    "posix": {
        "read": "fd",
        "readv": "fd",
        "write": "fd",
        "waitpid": "pid",
        "waitid": "pid",
        "wait": "pid",
        "wait3": "pid",
        "wait4": "pid",
    },
    "time": {"sleep": ""},
    "select": {"select": "ready"},
}
_METHODS = {
    "_thread": {"lock": {"acquire": "", "__enter__": ""}, "RLock": {"acquire": "", "__enter__": ""}},
    "_socket": {
        "socket": dict.fromkeys(
            "recv recv_into recvfrom recvfrom_into recvmsg recvmsg_into accept _accept connect connect_ex "
            "send sendall sendto sendmsg".split(),
            "self",
        )
    },
    "select": {"poll": {"poll": "ready"}, "epoll": {"poll": "ready"}},
    "_multiprocessing": {"SemLock": {"acquire": "semaphore", "__enter__": "semaphore"}},
    "_queue": {"SimpleQueue": {"get": ""}},
}
_TYPES_WITHOUT_A_NAME: dict[str, Callable[[Any], Any]] = {
    "poll": lambda module: type(module.poll()),
    "lock": lambda module: module.LockType,
}


def _apply(module: ModuleType) -> None:
    name = module.__name__
    shown = {"posix": "os", "_socket": "socket", "_thread": "threading", "_queue": "queue"}.get(name, name)
    for function, on in _FUNCTIONS.get(name, {}).items():
        if hasattr(module, function):
            _recorder.patch_wait(getattr(module, function), f"{shown}.{function}", on)
    for kind, methods in _METHODS.get(name, {}).items():
        find = _TYPES_WITHOUT_A_NAME.get(kind)
        cls = find(module) if find else getattr(module, kind, None)
        for method, on in methods.items():
            if cls is not None and method in vars(cls):
                _recorder.patch_wait(vars(cls)[method], f"{shown}.{kind}.{method}", on)
    if name == "_thread" and hasattr(module, "_ThreadHandle"):  # 3.13: Thread.join waits here
        _recorder.patch_wait(vars(module._ThreadHandle)["join"], "threading.Thread.join", "")


MODULES = dict.fromkeys(
    ("posix", "time", "_thread", "_socket", "select", "_multiprocessing", "_queue"), _apply
)
