"""The processes of a measured program, children's children included: their CPU time, and that none is left behind.

While a program is measured, its orphans come to us instead of to init: a fork server or daemon that outlives its parent is waited for,
and what it used counts as the program's, not as that of strangers.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 3.0  # seconds that orphans get to leave by themselves


class Family:
    """Adopts orphans from its creation until `gather`."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._before = _children()
        self._used = _waited_for()

    def gather(self) -> float:
        """Waits for the orphans, ends those that stay, and returns the CPU seconds of all who were waited for since the start."""
        start = time.monotonic()
        while orphans := _children() - self._before:
            late = time.monotonic() - start > PATIENCE
            for pid in orphans:
                _wait(pid, end=late)
            time.sleep(0.01)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return _waited_for() - self._used


def _wait(pid: int, end: bool) -> None:
    try:
        if end:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0 if end else os.WNOHANG)
    except (ChildProcessError, ProcessLookupError):
        pass


def _children() -> set[int]:
    me, found = str(os.getpid()), set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[1] == me:
            found.add(int(stat.parent.name))
    return found


def _waited_for() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
