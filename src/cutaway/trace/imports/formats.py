"""The formats that can be imported: how each is recognised by its content, never by its name.

To add one: a file beside this one with `read`, and its row in `FORMATS`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from cutaway.errors import CutawayError
from cutaway.trace.imports.source import Limits, read_chunks

_HEAD = 4096
_SQLITE = b"SQLite format 3\0"
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
# pprof's Profile begins with a ValueType, two numbers; XPlane's first field holds a text as well.
_PROFILE = re.compile(rb"\n[\x04-\x0c]\x08[\x80-\xff]*[\x00-\x7f]\x10")


class Format(NamedTuple):
    """The module that reads it, what people call it, and whether a file is one, by its path and its first bytes."""

    reader: str
    title: str
    recognises: Callable[[Path, bytes], bool]


def detect(path: Path) -> str:
    """The format of a file, which is the name of its reader."""
    if path.is_dir():
        raise CutawayError(f"{path} is a folder; name the trace files in it.")
    head = next(read_chunks(path, Limits(), lambda read: None, _HEAD), b"")
    if not head:
        raise CutawayError(f"{path} is empty; there is nothing to import.")
    for known in FORMATS:
        if known.recognises(path, head):
            return known.reader
    titles = [known.title for known in FORMATS]
    raise CutawayError(
        f"{path} is not a trace Cutaway can import; use {', '.join(titles[:-1])} or {titles[-1]}."
    )


def _is_json(_: Path, head: bytes) -> bool:
    return head.lstrip(b" \t\r\n\xef\xbb\xbf")[:1] in (b"{", b"[")


def _is_rocprof(path: Path, head: bytes) -> bool:
    return _is_json(path, head) and b'"rocprofiler-sdk-tool"' in head


def _is_rocpd(path: Path, head: bytes) -> bool:
    """Whether a SQLite file is one of rocprofv3."""
    if not head.startswith(_SQLITE):
        return False
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    query = (
        "SELECT 1 FROM sqlite_master WHERE name LIKE 'rocpd\\_%' ESCAPE '\\' LIMIT 1"
    )
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            return database.execute(query).fetchone() is not None
    except sqlite3.Error:
        return False  # the reader of other databases says what is wrong with it


def _is_counter_csv(_: Path, head: bytes) -> bool:
    """Whether a file begins with the header of a CSV of hardware counters (rocprofv3 `--pmc`, rocprof-compute)."""
    first = head.decode("utf-8", "replace").partition("\n")[0]
    columns = {column.strip(' \r"') for column in first.split(",")}
    return "Kernel_Name" in columns and bool(
        columns & {"Counter_Name", "Workgroup_Size"}
    )


def _is_xplane(_: Path, head: bytes) -> bool:
    """XSpace: field 1 (plane), length-delimited, or 2–4 for errors, warnings and host names."""
    return head[:1] in (b"\x0a", b"\x12", b"\x1a", b"\x22")


FORMATS = (
    Format("rocpd", "a database of rocprofv3", _is_rocpd),
    Format(
        "nsys",
        "an Nsight Systems SQLite export",
        lambda _, head: head.startswith(_SQLITE),
    ),
    Format(
        "ncu",
        "a report of Nsight Compute",
        lambda _, head: head.startswith(b"NVR\0"),
    ),
    Format(
        "torch_memory",
        "a memory snapshot of PyTorch",
        lambda _, head: bool(_PICKLE.match(head)),
    ),
    Format(
        "jax_memory",
        "a memory profile of JAX",
        lambda _, head: bool(_PROFILE.match(head)),
    ),
    Format("rocprof", "a rocprofv3 JSON", _is_rocprof),
    Format("kineto", "a PyTorch profiler JSON", _is_json),
    Format("rocm_csv", "counters of rocprofv3 or rocprof-compute", _is_counter_csv),
    Format("xplane", "an XPlane .pb of JAX", _is_xplane),
)
"""The first one that recognises a file reads it."""
