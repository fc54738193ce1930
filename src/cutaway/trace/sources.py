"""Where the records of a process lie: blocks of events.bin and device.bin, live segments, pulses."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.trace.files import open_file
from cutaway.trace.format import Structured
from cutaway.trace.past import Past
from cutaway.trace.pulses import Pulse, read_pulses, written
from cutaway.vocabulary import (
    FORMAT_VERSION,
    LARGEST_SEGMENT,
    SEGMENT_MAGIC,
    UNUSED_SEQ,
    Stream,
)

NOWHERE = np.zeros(0, fmt.SOURCE_DTYPE)
MAY_GROW = 256
"""Blocks at the end of device.bin that may still be filled."""


@dataclass
class Losses:
    """Records of one process that could not be read, or were not written."""

    damaged_blocks: int = 0
    damaged_device_blocks: dict[tuple[int, int], int] = field(default_factory=dict)
    damaged_bytes: int = 0
    bad_lines: int = 0
    missing_segments: int = 0
    dropped_events: int = 0
    late_device_records: int = (
        0  # whose time is in the totals of the past already, without them
    )

    @property
    def total(self) -> int:
        """Everything together; 0 means that nothing is known to be missing."""
        damaged = self.damaged_blocks + sum(self.damaged_device_blocks.values())
        lost = self.bad_lines + self.missing_segments + self.dropped_events
        return damaged + lost + self.late_device_records


class BlockFile:
    """The blocks of a file that grows. What was there and sound at the last look is not looked at again, so a look takes no longer
    when the file is long."""

    def __init__(self, path: Path, *, chunked: bool) -> None:
        self.path = str(path)
        self._chunked = chunked
        self._settled = NOWHERE
        self._end = 0  # of what is settled

    def look(self, start: int = 0) -> tuple[Structured, int, int]:
        """All blocks from `start` on; how many were damaged, and bytes."""
        if start:
            self._settled = NOWHERE
            self._end = start
        raw, damaged, damaged_bytes = _sweep.scan(self.path, self._chunked, self._end)
        new = raw.view(fmt.SOURCE_DTYPE)
        found = np.concatenate([self._settled, new])
        if not damaged:
            self._settle(new)
        return found, damaged, damaged_bytes

    def _settle(self, new: Structured) -> None:
        """Chunks at the end of device.bin may still be filled."""
        if self._chunked:
            done = new[:-MAY_GROW]
        else:
            done = new
        if len(done):
            self._settled = np.concatenate([self._settled, done])
            head = fmt.BLOCK_HEAD_DTYPE.itemsize
            first_left = new["offset"][len(done) :] - head
            end = done["offset"][-1] + done["bytes"][-1]
            self._end = int(first_left[0] if self._chunked else end)


class Sources:
    """One look at the folder of a process. Of what its past knows (`--keep`), only the rest is here. `known`: the files that were
    looked at before."""

    def __init__(
        self,
        folder: Path,
        past: Past | None,
        losses: Losses,
        known: dict[str, BlockFile],
    ) -> None:
        self.folder = folder
        self.past = past
        self.losses = losses
        self._known = known
        self.files: list[str] = []
        # Segments before blocks: one that is packed between the two looks is in both then, never in none.
        segments = self._segments()
        self.device = self._device_blocks()
        self.threads = self._thread_sources(segments)

    def _device_blocks(self) -> Structured:
        """Blocks of device.bin; of those that are in the past only, `device_gone` says where some are still there."""
        found = self._scan("device.bin", chunked=True)
        gone = np.isin(found["offset"], self.past.devices.gone if self.past else ())
        self.device_gone: list[int] = found["offset"][gone].tolist()
        return found[~gone]

    def _scan(self, name: str, *, chunked: bool, start: int = 0) -> Structured:
        if self.past or name not in self._known:  # blocks of a past are given back
            self._known[name] = BlockFile(self.folder / name, chunked=chunked)
        sources, damaged, damaged_bytes = self._known[name].look(start)
        sources["file"] = len(self.files)
        self.files.append(self._known[name].path)
        self.losses.damaged_blocks += damaged
        self.losses.damaged_bytes += damaged_bytes
        return sources

    def _segments(self) -> Structured:
        """The live segments; one that vanishes meanwhile was packed a moment ago."""
        found = [NOWHERE]
        for path in sorted(self.folder.glob("live-*.seg")):
            try:
                with open_file(path) as file:
                    raw = file.read(fmt.SEGMENT_HEAD_DTYPE.itemsize)
                    size = min(os.fstat(file.fileno()).st_size, LARGEST_SEGMENT)
            except OSError:
                continue
            whole = len(raw) == fmt.SEGMENT_HEAD_DTYPE.itemsize
            if whole:
                head = np.frombuffer(raw, fmt.SEGMENT_HEAD_DTYPE)[0]
            else:
                head = None
            if (
                head is None
                or head["magic"] != SEGMENT_MAGIC
                or head["version"] != FORMAT_VERSION
            ):
                self.losses.damaged_blocks += any(raw) if whole else bool(raw)
            elif head["seq"] != UNUSED_SEQ:
                about = {name: int(head[name]) for name in ("clock", "thread", "seq")}
                room = (size - len(raw)) // fmt.RECORD_DTYPE.itemsize
                found.append(_source(len(raw), room, file=len(self.files), **about))
                self.files.append(str(path))
        return np.concatenate(found)

    def _thread_sources(self, segments: Structured) -> dict[int, Structured]:
        """Blocks and live segments of each thread by sequence number; a segment that also stands in a sound
        block is a duplicate."""
        blocks = self._scan(
            "events.bin", chunked=False, start=self.past.offset if self.past else 0
        )
        self.blocks = blocks = blocks[blocks["stream"] == Stream.THREAD]
        if self.losses.damaged_blocks and len(segments):
            self._forgive_torn_end(blocks, segments)
        chosen = {
            key: i for i, key in enumerate(_keys(blocks))
        }  # of two with the same key the last counts
        for i, key in enumerate(_keys(segments), len(blocks)):
            if chosen.get(key, len(blocks)) < len(blocks):
                block = blocks[chosen[key]]
            else:
                block = None
            if (
                block is None
                or _sweep.payloads(self.files[block["file"]], as_bytes(block))[1]
            ):
                chosen[key] = i
        found = np.concatenate([blocks, segments])[
            [chosen[key] for key in sorted(chosen)]
        ]
        threads: dict[int, Structured] = {}
        for thread in np.unique(found["thread"]).tolist():
            threads[thread] = own = np.ascontiguousarray(
                found[found["thread"] == thread]
            )
            if self.past:
                first = int(own["seq"][0])
            else:
                first = 0
            self.losses.missing_segments += min(
                int(own["seq"][-1]) + 1 - first - len(own), 1 << 20
            )
        return threads

    def _forgive_torn_end(self, blocks: Structured, segments: Structured) -> None:
        """A kill while a segment is packed leaves the beginning of its block, and the segment: nothing is lost."""
        if len(blocks):
            end = int((blocks["offset"] + blocks["bytes"]).max())
        else:
            end = 0
        try:
            with open_file(self.folder / "events.bin") as file:
                file.seek(end)
                raw = file.read(fmt.BLOCK_HEAD_DTYPE.itemsize)
                torn = file.seek(0, 2) - end
        except OSError:
            return
        if len(raw) == fmt.BLOCK_HEAD_DTYPE.itemsize:
            head = np.frombuffer(raw, fmt.BLOCK_HEAD_DTYPE)
        else:
            head = None
        if torn > 0 and (
            head is None
            or int(head["id"][0]) << 32 | int(head["seq"][0]) in _keys(segments)
        ):
            self.losses.damaged_blocks -= 1
            self.losses.damaged_bytes -= torn

    def follow_pulses(self) -> dict[int, tuple[Pulse, int]]:
        """Lets the stream of a thread go on to its last pulse; with each pulse, the end of the last record before."""
        path = self.folder / "pulse.bin"
        found = {}
        for pulse in read_pulses(path):
            sources = self.threads.get(pulse.thread)
            if (
                sources is None
                or sources[-1]["packed"]
                or sources[-1]["seq"] != pulse.seq
            ):
                continue
            count, last = written(self.files[sources[-1]["file"]], sources[-1])
            if count == pulse.written:
                about = {
                    "thread": pulse.thread,
                    "seq": pulse.seq,
                    "file": len(self.files),
                }
                source = _source(pulse.offset, pulse.records, **about)
                self.threads[pulse.thread] = np.concatenate([sources, source])
                found[pulse.thread] = pulse, last
        if found:
            self.files.append(str(path))
        return found


def as_bytes(sources: Any) -> NDArray[np.uint8]:
    """In the form the native code takes."""
    return np.array(sources, fmt.SOURCE_DTYPE).reshape(-1).view(np.uint8)


def _source(offset: int, records: int, **about: int) -> Structured:
    """Where plain records lie."""
    source = np.zeros(1, fmt.SOURCE_DTYPE)
    about |= {
        "offset": offset,
        "count": records,
        "bytes": records * fmt.RECORD_DTYPE.itemsize,
    }
    for name, value in about.items():
        source[name] = value
    return source


def _keys(sources: Structured) -> list[int]:
    keys: list[int] = (
        sources["thread"].astype(np.uint64) << np.uint64(32) | sources["seq"]
    ).tolist()
    return keys
