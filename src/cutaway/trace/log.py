"""Reads log.jsonl of one process: what the numbers in its binary files mean, and what happened to it.

A line that fails its checksum or makes no sense is counted and left out; nothing in the file is fatal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cutaway import _sweep

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
    samples: list[dict[str, Any]] = field(default_factory=list)
    children: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)
    exit: dict[str, Any] | None = None
    others: list[dict[str, Any]] = field(default_factory=list)
    bad_lines: int = 0

    def name(self, id: int) -> str:
        """The text of a name id; 0 is no name."""
        return self.names.get(id, f"name {id}" if id else "")


def read_log(path: Path) -> Log:
    """All that can be read of a log, whatever state it is in."""
    log = Log()
    if not path.is_file():
        return log
    with path.open("rb") as file:
        for line in file:
            add_line(log, line)
    return log


def add_line(log: Log, line: bytes) -> None:
    """Take in one line; live views read a log that is still growing with it."""
    try:
        _add(log, _entry(line))
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        log.bad_lines += 1


def _entry(line: bytes) -> dict[str, Any]:
    text = line[9:].rstrip(b"\n")
    if line[8:9] != b" " or not line.endswith(b"\n") or line[:8] != b"%08x" % _sweep.crc32c(text):
        raise ValueError("checksum")
    entry = json.loads(text)
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    return entry


def _add(log: Log, entry: dict[str, Any]) -> None:
    kind = entry.pop("k")
    if kind == "process":
        for key in ("pid", "ppid", "t"):
            entry[key] = int(entry.get(key) or 0)
        log.process = {**entry, **log.process}
    elif kind == "rename":
        log.process.update({k: v for k, v in entry.items() if k in ("name", "role")})
        if isinstance(entry.get("versions"), dict):
            told = log.process.get("versions")
            log.process["versions"] = {**(told if isinstance(told, dict) else {}), **entry["versions"]}
        if isinstance(entry.get("ppid"), int):
            log.process["ppid"] = entry["ppid"]
    elif kind == "thread":
        tid, name = int(entry.get("tid", 0)), str(entry.get("name") or "")
        before = log.threads.get(_id(entry))
        log.threads[_id(entry)] = ThreadInfo(tid, name, before.t if before else int(entry.get("t") or 0))
    elif kind == "name":
        log.names[_id(entry)] = str(entry["s"])
    elif kind == "call":
        log.calls[_id(entry)] = _call(entry)
    elif kind == "anchor":
        log.anchors.append(Anchor(*(int(entry.get(clock, 0)) for clock in Anchor._fields)))
    elif kind == "exit":
        log.exit = entry
    elif kind == "note":
        log.notes.append(str(entry["text"]))
    else:
        lists = {"sample": log.samples, "child": log.children, "loss": log.losses, "device": log.devices}
        lists.get(kind, log.others).append(entry if kind in lists else {"k": kind, **entry})


def _id(entry: dict[str, Any]) -> int:
    value = int(entry["id"])
    if not 0 <= value <= _MAX_ID:
        raise ValueError("id out of range")
    return value


def _call(entry: dict[str, Any]) -> Call:
    texts = {key: str(entry.get(key) or "") for key in ("layer", "fn", "file", "func", "on", "peer")}
    return Call(**texts, line=int(entry.get("line") or 0))
