"""Reads log.jsonl of one process: what the numbers in its binary files mean, and what happened to it.

A line that fails its checksum or makes no sense is counted and left out; nothing in the file is fatal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cutaway import _sweep
from cutaway.trace.files import next_data, open_file, parse_object

_TIMES = ("t", "until", "mono")
_MAX_ID = (1 << 24) - 1
_LONGEST = 1 << 20


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

    tid: int
    name: str
    t: int


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

    mono: int
    real: int
    raw: int
    ticks: int


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
    sample_stream: int | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    children: list[dict[str, Any]] = field(default_factory=list)
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

    def name(self, id: int) -> str:
        """The text of a name id; 0 is no name."""
        return self.names.get(id, f"name {id}" if id else "")


def read_log(log: Log, path: Path, start: int = 0) -> int:
    """Takes in the complete lines of a file from `start` on, whatever state it is in; returns where it stopped. A line
    that is still being written stays for the next time."""
    try:
        with open_file(path) as file:
            file.seek(start)
            while line := file.readline(_LONGEST):
                if not line.endswith(b"\n") and len(line) < _LONGEST:
                    break
                try:
                    _add(log, _entry(line))
                except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
                    log.bad_lines += 1
                start += len(line)
                if len(line) == _LONGEST:
                    start = file.seek(next_data(file, start))
    except OSError:
        pass
    return start


def _entry(line: bytes) -> dict[str, Any]:
    text = line[9:].rstrip(b"\n")
    if line[8:9] != b" " or not line.endswith(b"\n") or line[:8] != b"%08x" % _sweep.crc32c(text):
        raise ValueError("checksum")
    return parse_object(text)


def _add(log: Log, entry: dict[str, Any]) -> None:
    kind = entry.pop("k")
    _check(entry)
    for key in _TIMES if log.shift else ():
        if entry.get(key):
            entry[key] += log.shift
    if kind == "process":
        for key in ("pid", "ppid", "t"):
            entry[key] = entry.get(key) or 0
        log.process = {**entry, **log.process}
    elif kind == "rename":
        log.process.update({k: v for k, v in entry.items() if k in ("name", "role", "ppid")})
        if isinstance(entry.get("versions"), dict):
            told = log.process.get("versions")
            log.process["versions"] = {**(told if isinstance(told, dict) else {}), **entry["versions"]}
    elif kind == "thread":
        tid, name = _whole(entry.get("tid", 0)), str(entry.get("name") or "")
        before = log.threads.get(_id(entry))
        log.threads[_id(entry)] = ThreadInfo(tid, name, before.t if before else _whole(entry.get("t") or 0))
    elif kind == "name":
        log.names[_id(entry)] = str(entry["s"])
    elif kind == "call":
        log.calls[_id(entry)] = _call(entry)
    elif kind == "anchor":
        log.anchors.append(Anchor(*(_whole(entry.get(clock, 0)) for clock in Anchor._fields)))
    elif kind == "frame":
        log.frames[_id(entry)] = Frame(*(_whole(entry[key]) for key in Frame._fields))
    elif kind == "code":
        log.codes[_id(entry)] = Code(str(entry["file"]), str(entry["func"]), _whole(entry["first"]))
    elif kind == "samples":
        log.sample_stream = _whole(entry["stream"]) if "stream" in entry else log.sample_stream
    elif kind == "exit":
        log.exit = entry
    elif kind == "describe":
        log.facts.update(entry["facts"])
    elif kind == "link":
        log.links.append(Link(str(entry["on"]), *(_whole(entry[key]) for key in Link._fields[1:])))
    elif kind == "feeds":
        log.feeds.append((str(entry["on"]), _whole(entry.get("tid") or 0)))
    elif kind == "note":
        log.notes.append(str(entry["text"]))
    else:
        lists = {"sample": log.samples, "child": log.children, "loss": log.losses, "device": log.devices}
        lists.get(kind, log.others).append(entry if kind in lists else {"k": kind, **entry})


def _check(entry: dict[str, Any]) -> None:
    """Fields with one meaning have one type; an entry where that is not so was not written by us."""
    for key, value in entry.items():
        fine = _FIELDS.get(key)
        if fine and value is not None and not fine(value):
            raise ValueError(f"{key} makes no sense")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < math.inf


def _are_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


_FIELDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("t", "pid", "ppid", "n", "rss", "own", "mono", "real", "raw", "ticks"), _is_count),
    **dict.fromkeys(("code", "signal", "tid"), lambda value: isinstance(value, int)),
    **dict.fromkeys(("cores", "foreign", "sms", "major", "minor"), _is_number),
    **dict.fromkeys(("rapl_uj", "power"), _are_numbers),
    **dict.fromkeys(("threads", "versions"), lambda value: isinstance(value, dict)),
    "id": lambda value: isinstance(value, (int, str)),
    "gpu": lambda value: isinstance(value, list) and all(map(_are_numbers, value)),
}


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError("not a whole number")
    return value


def _id(entry: dict[str, Any]) -> int:
    value = _whole(entry["id"])
    if not 0 <= value <= _MAX_ID:
        raise ValueError("id out of range")
    return value


def _call(entry: dict[str, Any]) -> Call:
    texts = {key: str(entry.get(key) or "") for key in ("layer", "fn", "file", "func", "on", "peer")}
    return Call(**texts, line=_whole(entry.get("line") or 0))
