"""Hardware counters of NVIDIA GPUs over time (CUPTI's PM sampling), on request.

A GPU has one set of counters: one process of the run samples those of all GPUs it sees, whichever holds the lock in the run's folder;
when it ends another one takes over. CUDA is not started here: we wait until the program has.
"""

from __future__ import annotations

import fcntl
import os
import threading

from cutaway import _recorder
from cutaway.record.devices import cupti, library
from cutaway.record.own_thread import OwnThread

NOT_STARTED = -4  # CUDA, in this process
_WATCH_SECONDS = 0.25

_stopping = threading.Event()
_thread: threading.Thread | None = None


def start(folder: str, interval_s: float) -> None:
    """Sample once the program uses CUDA."""
    global _thread
    if _thread is None:
        _stopping.clear()
        _thread = OwnThread(
            target=_run, args=(folder, interval_s), name="cutaway-counters", daemon=True
        )
        _thread.start()


def stop() -> None:
    """Take what the GPU still has, and leave its counters."""
    global _thread
    _stopping.set()
    if _thread is not None:
        _thread.join()
        _thread = None


def _in_child() -> None:
    """A forked child has no such thread."""
    global _thread
    _thread = None


os.register_at_fork(after_in_child=_in_child)


def _run(folder: str, interval_s: float) -> None:
    while "libcuda.so" not in library.mapped():
        if _stopping.wait(_WATCH_SECONDS):
            return
    with _open(os.path.join(folder, "counters.lock")) as lock:
        while not _locked(lock):
            if _stopping.wait(1.0):
                return
        _sample(interval_s)


def _sample(interval_s: float) -> None:
    code, said = _begin(interval_s)
    while code == NOT_STARTED and not _stopping.wait(_WATCH_SECONDS):
        code, said = _begin(interval_s)
    if said and code != NOT_STARTED:
        _recorder.note(f"hardware counters are not sampled: {said}")
    if code == 0:
        _stopping.wait()
        if loaded := library.load():
            loaded.cutaway_counters_stop()


def _begin(interval_s: float) -> tuple[int, str]:
    import ctypes

    interval = ctypes.c_uint64(max(1, round(interval_s * 1e9)))
    return cupti.answer("cutaway_counters_start", None, interval)


def _open(path: str):  # type: ignore[no-untyped-def]
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _locked(lock) -> bool:  # type: ignore[no-untyped-def]
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
