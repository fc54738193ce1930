"""Layer wait: built-ins that can block. A call shorter than about 2 µs did not block and is not recorded.

Who ends the waits of others is noted too: writes, releases, puts. So a reader can say who was waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from cutaway import _recorder
from cutaway.record.imports import Any

# What tells who was waited for: a descriptor given first, the object's own, the ready ones in the result, a process,
# a semaphore's name, or the thread that released the object.
_FUNCTIONS = {
    "posix": dict.fromkeys("read readv write".split(), "fd")
    | dict.fromkeys("waitpid waitid wait wait3 wait4".split(), "pid"),
    "time": {"sleep": ""},
    "select": {"select": "ready"},
}
_LOCK = {"acquire": "object", "__enter__": "object"}
_SOCKET = "recv recv_into recvfrom recvfrom_into recvmsg recvmsg_into accept _accept connect connect_ex"
_SEND = "send sendall sendto sendmsg"
_METHODS = {
    "_thread": {"lock": _LOCK, "RLock": _LOCK},
    "_socket": {"socket": dict.fromkeys(f"{_SOCKET} {_SEND}".split(), "self")},
    "io": {"FileIO": dict.fromkeys("read readall readinto write".split(), "self")},
    "select": {"poll": {"poll": "ready"}, "epoll": {"poll": "ready"}},
    "_multiprocessing": {"SemLock": {"acquire": "semaphore", "__enter__": "semaphore"}},
    "_queue": {"SimpleQueue": {"get": "object"}},
}
_WRITES = frozenset(f"write {_SEND}".split())
_ENDS_WAITS = {
    "lock": ("release", "__exit__"),
    "RLock": ("release", "__exit__", "_release_save"),
    "SemLock": ("release", "__exit__"),
    "SimpleQueue": ("put",),
}
_TYPES_WITHOUT_A_NAME: dict[str, Callable[[Any], Any]] = {
    "poll": lambda module: type(module.poll()),
    "lock": lambda module: module.LockType,
}
_SHOWN = {"posix": "os", "_socket": "socket", "_thread": "threading", "_queue": "queue"}


def _apply(module: ModuleType) -> None:
    name = "io" if module.__name__ == "_io" else module.__name__  # `_io` calls itself io up to 3.12
    shown = _SHOWN.get(name, name)
    for function, on in _FUNCTIONS.get(name, {}).items():
        if hasattr(module, function):
            value = getattr(module, function)
            _recorder.patch_wait(value, f"{shown}.{function}", on, "wait", function in _WRITES)
    for kind, methods in _METHODS.get(name, {}).items():
        find = _TYPES_WITHOUT_A_NAME.get(kind)
        cls = find(module) if find else getattr(module, kind, None)
        if cls is not None:
            _apply_type(cls, kind, shown, methods)
    if name == "_thread" and hasattr(module, "_ThreadHandle"):  # 3.13: Thread.join waits here
        _recorder.patch_wait(vars(module._ThreadHandle)["join"], "threading.Thread.join", "")


def _apply_type(cls: type, kind: str, shown: str, methods: dict[str, str]) -> None:
    own = vars(cls)
    for method, on in methods.items():
        if method in own:
            _recorder.patch_wait(own[method], f"{shown}.{kind}.{method}", on, "wait", method in _WRITES)
    on = "semaphore" if kind == "SemLock" else "object"
    for method in _ENDS_WAITS.get(kind, ()):
        if method in own:
            _recorder.patch_feed(own[method], on)


MODULES = dict.fromkeys(
    ("posix", "time", "_thread", "_socket", "_io", "select", "_multiprocessing", "_queue"), _apply
)
