"""Moves one host's part of a run from its local disk into the run's folder.

    python -m cutaway.cluster.move PART TARGET    goes on until the last process of the part has ended

What processes append (log, packed events) follows every second. What they change in place (live segments, device records) follows
when the process has ended. A part that could not be moved stays where it is; `cutaway gather` moves the rest.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from cutaway.trace.running import is_alive, locked

GROWING = ("log.jsonl", "events.bin")
LOCK = "mover.lock"
PIECE = 1 << 24  # bytes of a file that are in memory at once
_EVERY_S = 1.0
_PATIENCE_S = 5.0
Listing = list[tuple[str, int, bool]]
"""Files of a part: path in it, size, whether its process still runs."""


def move(part: Path, target: Path) -> bool:
    """Moves what is there by now; what has ended is gone from the part afterwards. Returns whether a process is alive."""
    listing = list_part(part)
    copy_part(target, listing, partial(read_piece, part))
    remove_files(part, [one for one in listing if not one[2]])
    return any(map(is_alive, part.glob("p*-*")))


def list_part(part: Path) -> Listing:
    """The files of a part that can be copied now."""
    listing = []
    for folder in sorted(part.glob("p*-*")):
        alive = is_alive(folder)
        for path in sorted(folder.iterdir()):
            if not alive or path.name in GROWING:
                listing.append(
                    (f"{folder.name}/{path.name}", path.stat().st_size, alive)
                )
    return listing


def read_piece(part: Path, name: str, at: int) -> bytes:
    """A piece of a file."""
    with (part / name).open("rb") as file:
        file.seek(at)
        return file.read(PIECE)


def remove_files(part: Path, listing: Listing) -> None:
    """Removes what has been copied, if it has not grown since, and the folders that are empty then."""
    for name, size, _ in listing:
        path = part / name
        if path.is_file() and path.stat().st_size == size:
            path.unlink()
    for folder in {(part / name).parent for name, _, _ in listing}:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def clean(part: Path) -> None:
    """Removes a part that has been moved, and the folders in and around it that are empty then."""
    for name in (LOCK, "shared"):
        (part / name).unlink(missing_ok=True)
    for folder in (*part.glob("p*-*"), part, part.parent):
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def copy_part(
    target: Path, listing: Listing, read: Callable[[str, int], bytes]
) -> None:
    """Brings what the files of a part have more than their copies, of files that only grow, or all of it. `read(name, at)` gives
    the next piece of a file. A kill leaves the old copy or the new one."""
    for name, size, _ in listing:
        copy = target / name
        for folder in (target, copy.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if copy.name in GROWING and copy.exists():
            at = copy.stat().st_size
        else:
            at = 0
        at = 0 if at > size else at  # it was written anew
        if at:
            draft = copy
        else:
            draft = copy.with_name(f".{copy.name}")
        with draft.open("ab" if at else "wb") as file:
            while at < size and (piece := read(name, at)):
                file.write(piece)
                at += len(piece)
            os.fsync(file.fileno())
        draft.replace(copy)


def main(part: Path, target: Path) -> None:
    """Detaches from the process that started it, and moves files until every process of the part has ended."""
    if os.fork():
        os._exit(0)
    os.chdir("/")
    with locked(part, LOCK) as only:
        quiet = 0.0
        while only and quiet < _PATIENCE_S:
            if move(part, target):
                quiet = 0.0
            else:
                quiet = quiet + _EVERY_S
            time.sleep(_EVERY_S)
        if only:
            clean(part)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
