"""Moves one host's part of a run from its local disk into the run's folder.

    python -m cutaway.cluster.move PART TARGET    goes on until the last process of the part has ended

What processes append (log, packed events) follows every second. What they change in place (live segments, device records) follows
when the process has ended. A part that could not be moved stays where it is; `cutaway gather` moves the rest.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

GROWING = ("log.jsonl", "events.bin")
LOCK = "mover.lock"
_PIECE = 1 << 22
_EVERY_S, _PATIENCE_S = 1.0, 5.0


def follow(part: Path, target: Path) -> None:
    """Moves a part until nothing of it is alive any more."""
    quiet = 0.0
    while quiet < _PATIENCE_S:
        alive = move(part, target)
        quiet = 0.0 if alive else quiet + _EVERY_S
        time.sleep(_EVERY_S)
    clean(part)


def move(part: Path, target: Path) -> int:
    """Moves what is there by now; what has ended is gone from the part afterwards. Returns how many processes are alive."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    alive = 0
    for folder in sorted(part.glob("p*-*")):
        ended = not is_alive(folder)
        goal = target / folder.name
        goal.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(folder.iterdir()):
            if ended or path.name in GROWING:
                with path.open("rb") as file:
                    piece = partial(os.pread, file.fileno(), _PIECE)
                    copy(goal / path.name, path.stat().st_size, piece, path.name in GROWING)
        if ended:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        alive += not ended
    return alive


def clean(part: Path) -> None:
    """Removes a part that has been moved, and the folders around it that are empty then."""
    for name in (LOCK, "shared"):
        (part / name).unlink(missing_ok=True)
    for folder in (part, part.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def copy(target: Path, size: int, read: Callable[[int], bytes], grows: bool) -> None:
    """Brings what a file of this size has more than its copy, if it `grows`, or all of it; `read(at)` gives the next piece.
    A kill leaves the old copy or the new one."""
    at = target.stat().st_size if grows and target.exists() else 0
    at = 0 if at > size else at  # it was written anew
    draft = target if at else target.with_name(f".{target.name}")
    with draft.open("ab" if at else "wb") as file:
        while at < size and (piece := read(at)):
            file.write(piece)
            at += len(piece)
        os.fsync(file.fileno())
    draft.replace(target)


def is_alive(folder: Path) -> bool:
    """Whether the process that writes a folder still runs on this host; a pid may mean another one by now."""
    try:
        with (folder / "log.jsonl").open("rb") as log:
            about = json.loads(log.readline()[9:])
        fields = Path(f"/proc/{about['pid']}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError, KeyError):
        return False
    return fields[19] == str(about["os_start"]) and fields[0] not in "ZX"


@contextmanager
def alone(folder: Path, lock: str = LOCK) -> Iterator[bool]:
    """Whether nobody else does to this folder now what the lock is for: by default, moving it."""
    with (folder / lock).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def main(part: str, target: str) -> None:
    """Leaves the family of the process that started it, and moves."""
    if os.fork():
        os._exit(0)
    os.chdir("/")
    with alone(Path(part)) as only:
        if only:
            follow(Path(part), Path(target))


if __name__ == "__main__":
    main(*sys.argv[1:])
