"""Reads snapshots of PyTorch's caching allocator (`torch.cuda.memory._dump_snapshot`): pickles of plain lists and dicts.

A snapshot tells what the allocator has now (`segments`, divided into `blocks`) and, after `_record_memory_history`, what it did before
(`device_traces`, the latest events only). Nothing in a file is called: a pickle that asks for a class or function is refused.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE
from cutaway.trace.imports.allocator import UNKNOWN, Event, Key
from cutaway.trace.imports.device_memory import write_sums
from cutaway.trace.imports.recorded import HOST_DTYPE, Recorded
from cutaway.trace.imports.source import Limits, Progress, read_chunks
from cutaway.trace.writer import ProcessWriter

_SIGNS = {"alloc": 1, "free_completed": -1}
_SEGMENT_SIGNS = {
    "segment_alloc": 1,
    "segment_map": 1,
    "segment_free": -1,
    "segment_unmap": -1,
}
_LARGEST = 1 << 60
_DEEPEST = 64  # frames of a stack
_NOBODY: Key = ("", 0)
_Entry = dict[str, Any]


class _Plain(pickle.Unpickler):
    """Reads pickles that hold numbers, texts, lists and dicts."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


@dataclass
class Pool:
    """What the allocator of one device has when the snapshot is taken; bytes."""

    reserved: int = 0
    allocated: int = 0
    requested: int = 0  # of what is allocated: the rest is rounding
    stuck: int = 0  # free, but in segments that are in use and cannot shrink
    largest: int = 0  # free block

    def add(self, segment: _Entry) -> None:
        """Take in a segment."""
        used = free = largest = 0
        for block in _dicts(segment.get("blocks")):
            size = _size(block, "size")
            if block.get("state") == "inactive":
                free += size
                largest = max(largest, size)
            else:
                used += size
                self.requested += _size(block, "requested_size") or size
        self.reserved += _size(segment, "total_size")
        self.allocated += used
        self.largest = max(self.largest, largest)
        self.stuck += free if used and not segment.get("is_expandable") else 0


@dataclass
class Snapshot:
    """A snapshot, as it becomes part of a run."""

    content: _Entry
    left_out: int = 0
    _keys: dict[int, Key] = field(default_factory=dict)
    _stacks: dict[int, int] = field(default_factory=dict)
    _frames: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _codes: dict[tuple[str, str], int] = field(default_factory=dict)

    def write(self, writer: ProcessWriter) -> None:
        """Log entries `device_memory`, `device_pool` and `device_refused`."""
        pools = self.pools()
        events: list[Event] = []
        refused: list[list[int]] = []
        for device, trace in enumerate(_lists(self.content.get("device_traces"))):
            pool = pools.get(device, Pool())
            entries = list(self._sound(_dicts(trace)))
            events += self._events(writer, device, pool, entries)
            refused += self._refused(writer, device, pool, entries)
        if not events:
            events = list(self._blocks(writer))
        write_sums(writer, events)
        rows = [[device, *vars(pool).values()] for device, pool in pools.items()]
        writer.log("device_pool", {"rows": rows})
        if refused:
            writer.log("device_refused", {"rows": refused})
        if self.left_out:
            text = f"{self.left_out} entries of the snapshot are impossible (no size, or one that is too large) and were left out"
            writer.log("note", {"text": text})

    def pools(self) -> dict[int, Pool]:
        """By device."""
        found: dict[int, Pool] = {}
        for segment in _dicts(self.content.get("segments")):
            found.setdefault(_device(segment), Pool()).add(segment)
        return found

    def _sound(self, entries: Iterator[_Entry]) -> Iterator[_Entry]:
        for entry in entries:
            sized = _size(entry, "size") or entry.get("action") == "snapshot"
            if sized and isinstance(entry.get("action"), str):
                yield entry
            else:
                self.left_out += 1

    def _events(
        self, writer: ProcessWriter, device: int, pool: Pool, entries: list[_Entry]
    ) -> Iterator[Event]:
        """The history of a device. What it had before is what it has now, less what was added since."""
        reserved = max(0, pool.reserved - _added(entries, _SEGMENT_SIGNS))
        allocated = max(0, pool.allocated - _added(entries, _SIGNS))
        inside = _Annotations(self.content, device)
        owners: dict[int, tuple[int, Key]] = {}
        if allocated:
            yield Event(device, UNKNOWN, allocated, allocated, reserved, _NOBODY)
        for entry in entries:
            action = str(entry["action"])
            size = _size(entry, "size")
            reserved = max(0, reserved + size * _SEGMENT_SIGNS.get(action, 0))
            address = _size(entry, "addr")
            if action == "alloc":
                key = (inside.at(entry), self._frame(writer, entry))
                owners[address] = (size, key)
            elif action == "free_completed":
                size, key = owners.pop(address, (size, _NOBODY))
                size = -size
            else:
                continue
            allocated = max(0, allocated + size)
            yield Event(device, address, size, allocated, reserved, key)

    def _blocks(self, writer: ProcessWriter) -> Iterator[Event]:
        """Without a history: what is allocated now, one block after the other."""
        pools = self.pools()
        allocated = dict.fromkeys(pools, 0)
        for segment in _dicts(self.content.get("segments")):
            device = _device(segment)
            for block in _dicts(segment.get("blocks")):
                size = _size(block, "size")
                if block.get("state") == "inactive" or not size:
                    continue
                allocated[device] += size
                key = ("", self._frame(writer, block))
                total = allocated[device], pools[device].reserved
                yield Event(device, id(block), size, *total, key)

    def _refused(
        self, writer: ProcessWriter, device: int, pool: Pool, entries: list[_Entry]
    ) -> Iterator[list[int]]:
        """Allocations that failed: device, bytes asked for, bytes the device had left, bytes reserved, frame."""
        reserved = max(0, pool.reserved - _added(entries, _SEGMENT_SIGNS))
        for entry in entries:
            size = _size(entry, "size")
            reserved += size * _SEGMENT_SIGNS.get(str(entry["action"]), 0)
            if entry.get("action") == "oom":
                frame = self._frame(writer, entry)
                left = _size(entry, "device_free")
                yield [device, size, left, max(0, reserved), frame]

    def _frame(self, writer: ProcessWriter, entry: _Entry) -> int:
        """The number of the innermost frame of a stack; a stack that several entries share is written once."""
        frames = entry.get("frames")
        if not isinstance(frames, list):
            return 0
        if id(frames) not in self._stacks:
            self._stacks[id(frames)] = self._write_stack(writer, frames)
        return self._stacks[id(frames)]

    def _write_stack(self, writer: ProcessWriter, frames: list[Any]) -> int:
        up = 0
        for frame in reversed(frames[:_DEEPEST]):
            if not isinstance(frame, dict):
                continue
            file = str(frame.get("filename", ""))
            code = self._code(writer, file, str(frame.get("name", "")))
            line = frame.get("line")
            up = self._numbered(writer, up, code, line if _is_size(line) else 0)
        return up

    def _code(self, writer: ProcessWriter, file: str, function: str) -> int:
        known = self._codes
        if (file, function) not in known:
            known[file, function] = len(known) + 1
            about = {"id": len(known), "file": file, "func": function, "first": 0}
            writer.log("code", about)
        return known[file, function]

    def _numbered(self, writer: ProcessWriter, up: int, code: int, line: Any) -> int:
        known = self._frames
        if (up, code, line) not in known:
            known[up, code, line] = len(known) + 1
            about = {"id": len(known), "up": up, "code": code, "line": line}
            writer.log("frame", about)
        return known[up, code, line]


class _Annotations:
    """Spans of `record_function`, which PyTorch notes beside the history (`external_annotations`, 2.6 and later)."""

    def __init__(self, content: _Entry, device: int) -> None:
        told = [
            one
            for one in _dicts(content.get("external_annotations"))
            if _is_size(one.get("time_us")) and one.get("device", device) == device
        ]
        self._coming = sorted(told, key=lambda one: -int(one["time_us"]))
        self._open: list[str] = []

    def at(self, entry: _Entry) -> str:
        """The innermost span around an entry; entries come in order."""
        t = entry.get("time_us")
        while _is_size(t) and self._coming and self._coming[-1]["time_us"] <= t:
            one = self._coming.pop()
            name = str(one.get("name", ""))
            if one.get("stage") == "START":
                self._open.append(name)
            elif name in self._open:
                last = len(self._open) - 1 - self._open[::-1].index(name)
                del self._open[last]
        if self._open:
            return self._open[-1]
        return str(entry.get("user_metadata") or "")


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a snapshot."""
    content = _unpickled(path, b"".join(read_chunks(path, limits, progress)))
    if isinstance(content, list):  # of `torch.cuda.memory_snapshot()`
        content = {"segments": content}
    if not isinstance(content, dict) or not isinstance(content.get("segments"), list):
        raise CutawayError(
            f"{path} is no snapshot of PyTorch's memory; write one with torch.cuda.memory._dump_snapshot(FILE)."
        )
    events = sum(map(len, _lists(content.get("device_traces"))))
    if events > limits.events:
        raise CutawayError(
            f"{path} has more than {limits.events} events; if you trust it, raise --max-events."
        )
    if not events and not content["segments"]:
        raise CutawayError(
            f"{path} contains no memory of a device; dump it in the process that uses the GPU, before it ends."
        )
    empty = np.zeros(0, HOST_DTYPE), np.zeros(0, DEVICE_DTYPE)
    process = Recorded(1, path.name, [""], *empty)
    process.more = Snapshot(content).write
    process.counts = {"format": "torch-memory", "events": events}
    if not events:
        process.notes.append(
            "the snapshot has no history: call torch.cuda.memory._record_memory_history() at the start, and it tells the peak"
        )
    return [process]


def _unpickled(path: Path, data: bytes) -> Any:
    try:
        return _Plain(io.BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        reason = str(error)
    except (EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError):
        reason = "it is damaged or cut off"
    except (MemoryError, OverflowError, RecursionError, UnicodeDecodeError):
        reason = "it is damaged"
    raise CutawayError(
        f"{path} cannot be read as a snapshot of PyTorch's memory ({reason}); copy it again."
    )


def _added(entries: list[_Entry], signs: dict[str, int]) -> int:
    """By how much entries changed what there is."""
    return sum(
        signs[entry["action"]] * _size(entry, "size")
        for entry in entries
        if entry.get("action") in signs
    )


def _device(segment: _Entry) -> int:
    return _size(segment, "device")


def _size(entry: _Entry, name: str) -> int:
    value: Any = entry.get(name)
    if _is_size(value):
        return int(value)
    return 0


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _dicts(value: Any) -> Iterator[_Entry]:
    if isinstance(value, list):
        found = value
    else:
        found = []
    return (one for one in found if isinstance(one, dict))


def _lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        found = value
    else:
        found = []
    return (one for one in found if isinstance(one, list))
