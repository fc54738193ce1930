"""Reads a run folder: which processes it holds, what their logs say, where their records lie.

Opening a run reads logs and the heads of blocks only; records are decoded block by block when they are asked
for (or by the native sweep), so memory does not grow with the trace. A run that is still being written can be
read. What is damaged is counted in `losses` and stepped over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cutaway import _sweep
from cutaway.errors import CutawayError
from cutaway.trace import format as fmt
from cutaway.trace.clocks import ClockMap, clock_map
from cutaway.trace.format import Stream, Structured
from cutaway.trace.log import Anchor, Log, read_log

_LONGEST_ABOUT = 1 << 22


@dataclass
class Losses:
    """What could not be read, or was not written, in one process."""

    damaged_blocks: int = 0
    damaged_device_blocks: dict[tuple[int, int], int] = field(default_factory=dict)
    damaged_bytes: int = 0
    bad_lines: int = 0
    missing_segments: int = 0
    dropped_events: int = 0

    @property
    def total(self) -> int:
        """Everything together; 0 means that nothing is known to be missing."""
        damaged = self.damaged_blocks + sum(self.damaged_device_blocks.values())
        return damaged + self.bad_lines + self.missing_segments + self.dropped_events


class ProcessTrace:
    """One process of a run on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log: Log = read_log(folder / "log.jsonl")
        self.losses = Losses(bad_lines=self.log.bad_lines)
        self.losses.dropped_events = sum(_count(entry.get("n")) for entry in self.log.losses)
        self.borrowed_anchors: list[Anchor] = []
        self.files: list[str] = []
        self._device_sources = self._scan("device.bin", chunked=True)
        self.threads: dict[int, Structured] = self._thread_sources()

    @property
    def pid(self) -> int:
        """As the operating system said."""
        return int(self.log.process.get("pid") or self.folder.name[1:].split("-")[0])

    @cached_property
    def maps(self) -> dict[int, ClockMap]:
        """For each clock, the map to nanoseconds of CLOCK_MONOTONIC."""
        return {clock: clock_map(clock, self.log.anchors, self.borrowed_anchors) for clock in fmt.Clock}

    def records(self, thread: int) -> Iterator[Structured]:
        """The records of a thread, one array a block, as they were written (in the block's own clock). A damaged
        payload gives nothing; the sweep counts these."""
        for source in self.threads.get(thread, ()):
            raw, _ = _sweep.decode(self.files[source["file"]], _bytes(source))
            yield raw.view(fmt.RECORD_DTYPE)

    def api(self) -> Structured:
        """All accelerator API calls, in nanoseconds, ordered by start."""
        return self._device_records(Stream.API, fmt.API_DTYPE)

    def device(self) -> Structured:
        """All device work, in nanoseconds, ordered by start."""
        return self._device_records(Stream.DEVICE, fmt.DEVICE_DTYPE)

    def _device_records(self, stream: Stream, dtype: np.dtype[Any]) -> Structured:
        parts = []
        sources = self._device_sources[self._device_sources["stream"] == stream]
        for clock in np.unique(sources["clock"]).tolist():
            chosen = np.ascontiguousarray(sources[sources["clock"] == clock])
            raw, damaged = _sweep.payloads(str(self.folder / "device.bin"), chosen.view(np.uint8))
            self.losses.damaged_device_blocks[stream, clock] = damaged
            part = raw.view(dtype)
            if clock != fmt.Clock.MONOTONIC:
                for column in ("start", "end"):
                    part[column] = self.to_ns(part[column], clock)
            parts.append(part)
        out = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])
        start = np.ascontiguousarray(out["start"])
        return out if (start[1:] >= start[:-1]).all() else out[np.argsort(start, kind="stable")]

    def to_ns(self, times: Any, clock: int) -> Any:
        """Times of a clock as nanoseconds of CLOCK_MONOTONIC."""
        return self.maps[clock].apply(times)

    def _scan(self, name: str, *, chunked: bool) -> Structured:
        path = str(self.folder / name)
        raw, damaged, damaged_bytes = _sweep.scan(path, chunked)
        sources = raw.view(fmt.SOURCE_DTYPE)
        sources["file"] = len(self.files)
        self.files.append(path)
        self.losses.damaged_blocks += damaged
        self.losses.damaged_bytes += damaged_bytes
        return sources

    def _thread_sources(self) -> dict[int, Structured]:
        """Blocks and live segments of each thread by sequence number; a segment that also stands in a sound
        block is a duplicate."""
        found: dict[tuple[int, int], Any] = {}
        blocks = self._scan("events.bin", chunked=False)
        for block in blocks[blocks["stream"] == Stream.THREAD]:
            found[int(block["thread"]), int(block["seq"])] = block
        for segment in self._segments():
            key = int(segment["thread"]), int(segment["seq"])
            if key in found and not _sweep.payloads(self.files[found[key]["file"]], _bytes(found[key]))[1]:
                continue
            found[key] = segment
        threads: dict[int, list[Any]] = {}
        for thread, seq in sorted(found):
            threads.setdefault(thread, []).append(found[thread, seq])
        for sources in threads.values():
            seqs = [int(s["seq"]) for s in sources]
            self.losses.missing_segments += min(seqs[-1] + 1 - len(seqs), 1 << 20)
        return {thread: np.array(sources, fmt.SOURCE_DTYPE) for thread, sources in threads.items()}

    def _segments(self) -> Iterator[Any]:
        for path in sorted(self.folder.glob("live-*.seg")):
            try:
                with path.open("rb") as file:
                    head = file.read(fmt.SEGMENT_HEAD_DTYPE.itemsize)
                    size = path.stat().st_size
            except OSError:
                continue  # compacted a moment ago; its block is in events.bin or will be at the next look
            if len(head) < fmt.SEGMENT_HEAD_DTYPE.itemsize:
                self.losses.damaged_blocks += bool(head)
                continue
            fields = np.frombuffer(head, fmt.SEGMENT_HEAD_DTYPE)[0]
            if fields["magic"] != fmt.SEGMENT_MAGIC or fields["version"] != fmt.FORMAT_VERSION:
                self.losses.damaged_blocks += any(head)
                continue
            if fields["seq"] == fmt.UNUSED_SEQ:
                continue
            source = np.zeros((), fmt.SOURCE_DTYPE)
            source["file"], source["offset"] = len(self.files), len(head)
            source["bytes"] = size - len(head)
            source["count"] = min((size - len(head)) // fmt.RECORD_DTYPE.itemsize, 0xFFFFFFFF)
            source["clock"], source["thread"], source["seq"] = (fields[k] for k in ("clock", "thread", "seq"))
            self.files.append(str(path))
            yield source


@dataclass
class Trace:
    """A run on disk."""

    path: Path
    about: dict[str, Any]
    processes: list[ProcessTrace] = field(default_factory=list)


def read_run(path: str | Path) -> Trace:
    """Opens a run folder."""
    folder = Path(path)
    if not folder.exists():
        raise CutawayError(
            f"There is no run at {folder}; give the folder NAME.cutaway that a recording made."
        )
    folders = (
        [p for p in folder.glob("p*-*") if p.is_dir() and _is_process(p.name)] if folder.is_dir() else []
    )
    if not folders and not (folder / "run.json").is_file():
        raise CutawayError(
            f"{folder} is not a Cutaway run; record one with `cutaway run` or `cutaway import`."
        )
    trace = Trace(folder, _about(folder / "run.json"), [ProcessTrace(p) for p in folders])
    trace.processes.sort(key=lambda p: (_count(p.log.process.get("t")), p.pid))
    _lend_anchors(trace.processes)
    return trace


def _lend_anchors(processes: list[ProcessTrace]) -> None:
    by_host: dict[Any, list[Anchor]] = {}
    for process in processes:
        by_host.setdefault(str(process.log.process.get("host")), []).extend(process.log.anchors)
    for process in processes:
        process.borrowed_anchors = by_host[str(process.log.process.get("host"))]


def _is_process(name: str) -> bool:
    pid, _, start = name[1:].partition("-")
    return pid.isdecimal() and pid.isascii() and bool(start)


def _about(path: Path) -> dict[str, Any]:
    try:
        with path.open() as file:
            about = json.loads(file.read(_LONGEST_ABOUT))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(about, dict):
        return {}
    if isinstance(about.get("format"), int) and about["format"] > fmt.FORMAT_VERSION:
        raise CutawayError(
            f"{path.parent} was written by a newer Cutaway (format {about['format']}); update to read it."
        )
    return about


def _bytes(source: Any) -> Any:
    return np.array(source, fmt.SOURCE_DTYPE).reshape(1).view(np.uint8)


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
