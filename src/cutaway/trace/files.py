"""Opens the files of a run, and writes what is made from them. A run may come from anyone, so only regular files are
read: no links, no pipes, no devices, and never more of a small file than a valid one can hold."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

_LONG_NUMBER = re.compile(rb"[0-9]{19,}")
SMALL = 1 << 22  # no run.json, exit.json or calibration.json is longer


def open_file(path: Path) -> BinaryIO:
    """A regular file, to be read; OSError for anything else."""
    descriptor = os.open(
        path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    )
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_object(path: Path) -> dict[str, Any]:
    """The object in a small JSON file; an empty one if there is none that can be read."""
    try:
        with open_file(path) as file:
            return parse_object(file.read(SMALL))
    except (OSError, ValueError, RecursionError):
        return {}


def _whole_number(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 63:
        raise ValueError("a number is too large")
    return int(digits)


def parse_object(text: bytes) -> dict[str, Any]:
    """A JSON object whose text can be printed anywhere and whose numbers fit into 64 bits; else ValueError."""
    # Long digits are rare, and may be part of a name or of a fraction.
    if _LONG_NUMBER.search(text):
        whole = _whole_number
    else:
        whole = None
    value = json.loads(text, parse_int=whole)
    if (
        b"\\ud" in text or b"\\uD" in text
    ):  # halves of surrogate pairs, which nothing can encode
        value = json.loads(
            json.dumps(value, ensure_ascii=False).encode(errors="replace")
        )
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def write_private(path: Path, content: str | bytes) -> None:
    """Writes a file that only its owner can read, because a run may hold private names."""
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(descriptor, "wb") as file:
        file.write(
            content.encode(errors="replace") if isinstance(content, str) else content
        )


def is_folder(path: Path) -> bool:
    """A folder, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def next_data(file: BinaryIO, offset: int) -> int:
    """Where the next bytes lie that are not a hole of a sparse file; its end if there are none."""
    try:
        return os.lseek(file.fileno(), offset, os.SEEK_DATA)
    except OSError:
        return os.fstat(file.fileno()).st_size
