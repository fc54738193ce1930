"""Which processes still work on a run: those that write it, and their helpers.

Standard library only: the helpers that move or shrink a run start with it.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_JUST_BEGUN_S = 5.0
_STATE, _START_TIME = 0, 19  # fields of /proc/PID/stat after the name
_ENDED = "ZX"


def is_alive(folder: Path) -> bool:
    """Whether the process that writes a folder still runs on this host.

    The start time tells it from a later process with the same pid.
    """
    log = folder / "log.jsonl"
    try:
        if not log.exists() or not log.stat().st_size:
            return time.time() - folder.stat().st_mtime < _JUST_BEGUN_S
        with log.open("rb") as file:
            about = json.loads(file.readline()[9:])
        text = Path(f"/proc/{about['pid']}/stat").read_text()
        started = str(about["os_start"])
    except (OSError, ValueError, KeyError):
        return False
    fields = text.rpartition(")")[2].split()
    return fields[_START_TIME] == started and fields[_STATE] not in _ENDED


@contextmanager
def locked(folder: Path, name: str) -> Iterator[bool]:
    """Takes the lock `name` of a folder; False if another process holds it."""
    with (folder / name).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
