"""Reads log.jsonl of one process: what the numbers in its binary files mean, and what happened to it.

A line that fails its checksum or is invalid is counted and skipped; nothing in the file is fatal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cutaway import _sweep
from cutaway.trace.files import next_data, open_file, parse_object
from cutaway.vocabulary import (
    BLOCKED_CALL,
    GIL,
    GIL_CALL,
    NATIVE_CODE,
    PROCESS_METERS,
)

_LONGEST = 1 << 20
_MOST_ENVIRONMENTS = 1 << 20
_TEXTS = {
    "layer",
    "fn",
    "file",
    "func",
    "on",
    "peer",
    "name",
    "what",
}  # fields of what is below; the others are whole numbers


class Call(NamedTuple):
    """What a call id stands for."""

    layer: str = ""
    fn: str = ""
    file: str = ""
    line: int = 0
    func: str = ""
    on: str = ""
    peer: str = ""


class ThreadInfo(NamedTuple):
    """What a thread id stands for."""

    tid: int = 0
    name: str = ""
    t: int = 0


class Frame(NamedTuple):
    """What a frame id of a sampled stack stands for; `up` is the id of its caller's frame, 0 for none."""

    up: int
    code: int
    line: int


class Code(NamedTuple):
    """A Python function as the sampler saw it."""

    file: str
    func: str
    first: int


class HeapSite(NamedTuple):
    """Where memory was allocated: the innermost frame of the stack, the operation (log "name"), and what kind of memory it is."""

    frame: int
    operation: int = 0
    what: str = "malloc"


class Link(NamedTuple):
    """How far a connection to another host had got, at a moment between two times."""

    on: str
    t: int
    until: int
    sent: int
    acked: int
    got: int


class Anchor(NamedTuple):
    """One instant on four clocks."""

    mono: int = 0
    real: int = 0
    raw: int = 0
    ticks: int = 0


@dataclass
class Log:
    """The entries of one log.jsonl, by kind."""

    process: dict[str, Any] = field(default_factory=dict)
    threads: dict[int, ThreadInfo] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    anchors: list[Anchor] = field(default_factory=list)
    frames: dict[int, Frame] = field(default_factory=dict)
    codes: dict[int, Code] = field(default_factory=dict)
    sites: dict[int, HeapSite] = field(default_factory=dict)
    heap: list[dict[str, Any]] = field(default_factory=list)
    compiled: list[tuple[str, str]] = field(default_factory=list)
    environments: dict[int, int] = field(default_factory=dict)
    sample_stream: int | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    children: list[dict[str, Any]] = field(default_factory=list)
    kills: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    shift: int = 0  # added to all times: those of another host's clock
    feeds: list[tuple[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    exit: dict[str, Any] | None = None
    others: list[dict[str, Any]] = field(default_factory=list)
    bad_lines: int = 0

    def call(self, id: int) -> Call:
        """What a call id stands for: a recorded call, or what a thread was blocked in according to samples."""
        if id < BLOCKED_CALL:
            return self.calls.get(id, Call(fn=f"call {id}"))
        frame = self.frames.get(
            id - (GIL_CALL if id >= GIL_CALL else BLOCKED_CALL), Frame(0, 0, 0)
        )
        code = self.codes.get(frame.code, Code("", "", 0))
        if id >= GIL_CALL:
            what = GIL
        else:
            what = NATIVE_CODE
        on = f"{what}:{code.file.rpartition('/')[2]}:{frame.line}"
        return Call("wait", what, code.file, frame.line, code.func, on)

    def name(self, id: int) -> str:
        """The text of a name id; 0 is no name."""
        return self.names.get(id, f"name {id}" if id else "")


def read_log(log: Log, path: Path, start: int = 0) -> int:
    """Reads the complete lines of a file from `start` on, even if the file is damaged; returns where it stopped. A line
    that is still being written stays for the next time."""
    try:
        with open_file(path) as file:
            file.seek(start)
            while line := file.readline(_LONGEST):
                if not line.endswith(b"\n") and len(line) < _LONGEST:
                    break
                try:
                    text = line[9:].rstrip(b"\n")
                    if not line.endswith(b"\n") or line[:9] != b"%08x " % _sweep.crc32c(
                        text
                    ):
                        raise ValueError("checksum")
                    _add(log, parse_object(text))
                except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
                    log.bad_lines += 1
                start += len(line)
                if len(line) == _LONGEST:
                    start = file.seek(next_data(file, start))
    except OSError:
        pass
    return start


def _add(log: Log, entry: dict[str, Any]) -> None:
    kind = entry.pop("k")
    for key, value in entry.items():
        fine = _FIELDS.get(key)
        if fine and value is not None and not fine(value):
            raise ValueError(f"{key} makes no sense")
    for key in ("t", "until", "mono") if log.shift else ():
        if entry.get(key):
            entry[key] += log.shift
    if kind == "process":
        log.process = {
            **entry,
            **{key: entry.get(key) or 0 for key in ("pid", "ppid", "t")},
            **log.process,
        }
    elif kind == "rename":
        log.process.update(
            {k: v for k, v in entry.items() if k in ("name", "role", "ppid")}
        )
        if entry.get("versions"):
            log.process["versions"] = (log.process.get("versions") or {}) | entry[
                "versions"
            ]
    elif kind == "thread":
        before = log.threads.get(_id(entry))
        thread = _row(ThreadInfo, entry)
        if before:
            log.threads[_id(entry)] = thread._replace(t=before.t)
        else:
            log.threads[_id(entry)] = thread
    elif kind == "name":
        log.names[_id(entry)] = str(entry["s"])
    elif kind in _BY_ID:
        getattr(log, f"{kind}s")[_id(entry)] = _row(_BY_ID[kind], entry)
    elif kind in _IN_ORDER:
        getattr(log, f"{kind}s").append(_row(_IN_ORDER[kind], entry))
    elif kind == "samples":
        if "stream" in entry:
            log.sample_stream = _whole(entry["stream"])
    elif kind == "exit":
        log.exit = entry
    elif kind == "compiled":
        log.compiled.append((str(entry["function"]), str(entry["holds"])))
    elif kind == "environment":
        log.environments[_environment(entry)] = _whole(entry["intervals"])
    elif kind == "describe":
        log.facts.update(entry["facts"])
    elif kind == "feeds":
        log.feeds.append((str(entry["on"]), _whole(entry.get("tid") or 0)))
    elif kind == "note":
        log.notes.append(str(entry["text"]))
    else:
        lists = {
            "sample": log.samples,
            "child": log.children,
            "kill": log.kills,
            "loss": log.losses,
            "device": log.devices,
            "heap": log.heap,
        }
        lists.get(kind, log.others).append(
            entry if kind in lists else {"k": kind, **entry}
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < math.inf


def _are_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_heap_row(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_count, value))


def _is_point(value: Any) -> bool:
    """Nanoseconds since the `t` of the entry, and a value."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and _is_count(value[0])
        and isinstance(value[1], (int, float))
        and math.isfinite(value[1])
    )


# A field with one meaning has one type; Cutaway did not write an entry that breaks this.
_FIELDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("t", "pid", "ppid", "n", "own"), _is_count),
    **dict.fromkeys(("mono", "real", "raw", "ticks"), _is_count),
    **dict.fromkeys(("anon", "mapped", "pss", "private", "shmem"), _is_count),
    **dict.fromkeys(("lost", "interval"), _is_count),
    **dict.fromkeys(("code", "signal", "tid"), lambda value: isinstance(value, int)),
    **dict.fromkeys(("sms", "major", "minor"), _is_number),
    **{m.key: _is_count if m.whole else _is_number for m in PROCESS_METERS},
    **dict.fromkeys(("rapl_uj", "power"), _are_numbers),
    **dict.fromkeys(("threads", "versions"), lambda value: isinstance(value, dict)),
    "id": lambda value: isinstance(value, (int, str)),
    "at": lambda value: isinstance(value, list) and all(map(_is_point, value)),
    "live": lambda value: isinstance(value, list) and all(map(_is_heap_row, value)),
    "gpu": lambda value: isinstance(value, list) and all(map(_are_numbers, value)),
}


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError("not a whole number")
    return value


def _id(entry: dict[str, Any]) -> int:
    value = _whole(entry["id"])
    if not 0 <= value < 1 << 24:
        raise ValueError("id out of range")
    return value


def _environment(entry: dict[str, Any]) -> int:
    number = _id(entry)
    if number >= _MOST_ENVIRONMENTS:
        raise ValueError("number out of range")
    return number


_BY_ID: dict[str, Any] = {"call": Call, "frame": Frame, "code": Code, "site": HeapSite}
_IN_ORDER: dict[str, Any] = {"anchor": Anchor, "link": Link}


def _row(kind: Any, entry: dict[str, Any]) -> Any:
    """A named tuple from the fields of an entry; those without a default must be there."""
    defaults = kind._field_defaults
    values = []
    for name in kind._fields:
        if name in defaults:
            value = entry.get(name) or defaults[name]
        else:
            value = entry[name]
        values.append(str(value) if name in _TEXTS else _whole(value))
    return kind._make(values)
