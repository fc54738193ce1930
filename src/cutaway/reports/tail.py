"""Follows the files of a run that is being recorded, reading only bytes it has not read yet.

A thread's records stand in `live-<thread>-<seq>.seg` until the segment is full and packed into a block of
`events.bin`. What was read from the segment is not read again from the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.trace.clocks import ClockMap, clock_map
from cutaway.trace.format import Structured
from cutaway.trace.log import Log, add_line

_HEAD = fmt.SEGMENT_HEAD_DTYPE.itemsize
_RECORD = fmt.RECORD_DTYPE.itemsize
_CHUNK = 1 << 16
_MOST_RECORDS = 1 << 20  # of one thread at one look: a view that lags is better than one that hangs


@dataclass
class Place:
    """How far a thread has been read."""

    seq: int
    taken: int = 0  # records of that segment


class ProcessTail:
    """One process folder, read forward."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Log()
        self._log_at = 0
        self._blocks_at = 0
        self._blocks: dict[tuple[int, int], Any] = {}
        self._places: dict[int, Place] = {}

    def read_log(self) -> None:
        """Take in the complete lines that were added."""
        try:
            with (self.folder / "log.jsonl").open("rb") as file:
                file.seek(self._log_at)
                new = file.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._log_at += len(whole)
        for line in whole.splitlines(keepends=True):
            add_line(self.log, line)

    def clock(self, clock: int) -> ClockMap:
        """The map of a clock as far as the anchors go."""
        return clock_map(clock, self.log.anchors)

    def read_records(self, since_ns: int) -> Iterator[tuple[int, int, Structured]]:
        """New records as (thread, clock, records). At the first look, packed blocks that ended before `since_ns`
        are passed over."""
        self._scan_blocks()
        live = self._live()
        for thread in sorted({t for t, _ in live} | {t for t, _ in self._blocks}):
            seqs = sorted(s for t, s in (*live, *self._blocks) if t == thread)
            if thread not in self._places:
                self._places[thread] = Place(self._first(thread, seqs, since_ns))
            yield from self._follow(thread, self._places[thread], seqs, live)
        self._forget()

    def _follow(
        self, thread: int, place: Place, seqs: list[int], live: dict[tuple[int, int], Path]
    ) -> Iterator[tuple[int, int, Structured]]:
        # `seqs` was listed before anything is read: a segment with a successor in it is complete.
        for seq in seqs:
            if seq < place.seq:
                continue
            if seq > place.seq:
                place.seq, place.taken = seq, 0
            found = None
            if (thread, seq) in live:
                found = _segment(live[thread, seq], place.taken)
            if found is None and (thread, seq) in self._blocks:
                found = self._block(thread, seq, place.taken)
            if found is not None and len(found[1]):
                place.taken += len(found[1])
                yield thread, found[0], found[1]

    def _first(self, thread: int, seqs: list[int], since_ns: int) -> int:
        for seq in seqs:
            head = self._blocks.get((thread, seq))
            if head is None or self.clock(int(head["clock"])).to_ns(int(head["last"])) >= since_ns:
                return seq
        return seqs[-1]

    def _live(self) -> dict[tuple[int, int], Path]:
        found = {}
        for path in self.folder.glob("live-*-*.seg"):
            _, thread, seq = path.stem.split("-")
            if thread.isdigit() and seq.isdigit():
                found[int(thread), int(seq)] = path
        return found

    def _scan_blocks(self) -> None:
        """Heads of the blocks that were appended; a torn or damaged one stops the reading until it is whole."""
        path = self.folder / "events.bin"
        size = path.stat().st_size if path.is_file() else 0
        if size < self._blocks_at + fmt.BLOCK_HEAD_DTYPE.itemsize:
            return
        with path.open("rb") as file:
            while self._blocks_at + fmt.BLOCK_HEAD_DTYPE.itemsize <= size:
                file.seek(self._blocks_at)
                head = np.frombuffer(file.read(fmt.BLOCK_HEAD_DTYPE.itemsize), fmt.BLOCK_HEAD_DTYPE)[0]
                end = self._blocks_at + fmt.BLOCK_HEAD_DTYPE.itemsize + int(head["bytes"])
                if head["magic"] != fmt.BLOCK_MAGIC or end > size:
                    return
                source = source_of(head, self._blocks_at + fmt.BLOCK_HEAD_DTYPE.itemsize)
                self._blocks[int(head["id"]), int(head["seq"])] = {
                    "source": source,
                    "clock": head["clock"],
                    "last": head["last"],
                }
                self._blocks_at = end

    def _block(self, thread: int, seq: int, taken: int) -> tuple[int, Structured]:
        head = self._blocks[thread, seq]
        raw, _ = _sweep.decode(str(self.folder / "events.bin"), head["source"])
        return int(head["clock"]), raw.view(fmt.RECORD_DTYPE)[taken:]

    def _forget(self) -> None:
        """Blocks behind every reader are not needed again."""
        for thread, seq in list(self._blocks):
            place = self._places.get(thread)
            if place is not None and seq < place.seq:
                del self._blocks[thread, seq]


def source_of(head: Any, offset: int) -> Any:
    """A block as the native reader wants it described, from its head and where its payload starts."""
    source = np.zeros(1, fmt.SOURCE_DTYPE)
    source["count"], source["offset"], source["bytes"] = head["count"], offset, head["bytes"]
    source["crc"], source["packed"], source["clock"] = head["payload_crc"], 1, head["clock"]
    source["stream"], source["thread"], source["seq"] = head["stream"], head["id"], head["seq"]
    return source.view(np.uint8)


def _segment(path: Path, taken: int) -> tuple[int, Structured] | None:
    """What a live segment holds behind the first `taken` records; None when it has been packed meanwhile."""
    parts: list[Structured] = []
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if len(head) < _HEAD:
                return 0, np.zeros(0, fmt.RECORD_DTYPE)
            clock = int(np.frombuffer(head, fmt.SEGMENT_HEAD_DTYPE)[0]["clock"])
            file.seek(_HEAD + taken * _RECORD)
            count = 0
            while count < _MOST_RECORDS:
                data = file.read(_CHUNK)
                part = np.frombuffer(data[: len(data) - len(data) % _RECORD], fmt.RECORD_DTYPE)
                unwritten = np.flatnonzero(part["time"] == 0)
                part = part[: unwritten[0]] if len(unwritten) else part
                parts.append(part)
                count += len(part)
                if len(part) * _RECORD < _CHUNK:
                    break
    except OSError:
        return None
    return clock, np.concatenate(parts) if parts else np.zeros(0, fmt.RECORD_DTYPE)
