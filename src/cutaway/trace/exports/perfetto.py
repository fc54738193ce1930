"""Writes Perfetto's own format: processes, threads, device streams, flows from launch to work, counters, Python stacks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from cutaway.trace.exports.protobuf import (
    blob,
    constant,
    framed,
    little,
    number,
    varint,
    wide,
)
from cutaway.trace.exports.timeline import END, Process, Slices, Track, processes
from cutaway.trace.log import Log
from cutaway.trace.reader import Trace

# Field numbers of perfetto/protos/perfetto/trace/*.proto.
_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = (
    8,
    10,
    11,
    12,
    13,
    60,
)  # of TracePacket
_CATEGORY_IIDS, _TYPE, _NAME_IID, _TRACK_UUID, _COUNTER_VALUE, _FLOWS = (
    3,
    9,
    10,
    11,
    30,
    47,
)  # of TrackEvent
_COUNTER = 4  # a type
_THREAD, _STACKS = 44, 54  # of TracePacket: whose samples a sequence holds, the samples
_FUNCTIONS, _FRAMES, _CALLSTACKS, _MAPPING_PATHS, _FILES, _MAPPINGS = (
    5,
    6,
    7,
    17,
    18,
    19,
)  # of InternedData
_CLEARED = 1
_NEEDS_STATE = 2
_ROWS = 1 << 15
_DEEPEST = 1000
# Counters: key of a sample, title, Perfetto's unit (2 a count, 3 bytes), scale.
_COUNTERS = (
    ("rss", "resident memory", 3, 1),
    ("cores", "percent of a core busy", 2, 100),
)


def write(trace: Trace, file: BinaryIO) -> int:
    """Writes a run; returns the number of slices and marks."""
    writer = _Writer(file)
    for process in processes(trace):
        writer.process(process)
    return writer.events


class _Writer:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._uuid = 0
        self._names: dict[tuple[str, str], int] = {}
        self._categories: dict[str, int] = {}
        self.events = 0
        self._sequences = 1  # of packets: one for everything that is drawn, one for the stacks of each thread
        self._packet(number(_FLAGS, _CLEARED | _NEEDS_STATE))

    def process(self, process: Process) -> None:
        pid = number(1, process.pid & 0x7FFFFFFF)
        parent = self._descriptor(blob(3, pid + blob(6, process.name)))
        threads: dict[int, int] = {}
        for track in process.tracks():
            if track.kind == "thread" and track.tid not in threads:
                about = pid + number(2, track.tid & 0x7FFFFFFF) + blob(5, track.title)
                uuid = threads[track.tid] = self._descriptor(blob(4, about), parent)
            else:
                if track.kind == "api":
                    below = threads.get(track.tid, parent)
                else:
                    below = parent
                uuid = self._descriptor(blob(2, track.title), below)
            for slices in track.blocks:
                self._slices(process, track, uuid, slices)
        samples = process.trace.log.samples
        for key, title, unit, scale in _COUNTERS:
            told = [
                s for s in samples if s.get("t") is not None and s.get(key) is not None
            ]
            if told:
                uuid = self._descriptor(
                    blob(2, title) + blob(8, number(3, unit)), parent
                )
            else:
                uuid = 0
            for sample in told:
                value = number(_COUNTER_VALUE, int(sample[key] * scale))
                event = number(_TYPE, _COUNTER) + number(_TRACK_UUID, uuid) + value
                self._packet(
                    number(_TIMESTAMP, sample["t"]) + blob(_TRACK_EVENT, event)
                )
        self._stacks(process.trace.log, process, pid)

    def _packet(self, body: bytes, sequence: int = 1) -> None:
        self._file.write(blob(_PACKET, body + number(_SEQUENCE, sequence)))

    def _descriptor(self, body: bytes, parent: int = 0) -> int:
        self._uuid += 1
        told = number(1, self._uuid) + body + (number(5, parent) if parent else b"")
        self._packet(blob(_DESCRIPTOR, told))
        return self._uuid

    def _slices(
        self, process: Process, track: Track, uuid: int, slices: Slices
    ) -> None:
        """Names and categories get numbers; new ones are written first."""
        distinct, where = np.unique(slices.label, return_inverse=True)
        told = b""
        names: list[int] = []
        categories: list[int] = []
        for label in distinct.tolist():
            name = process.text(label)
            category = process.category(label, track.kind)
            if category not in self._categories:
                self._categories[category] = len(self._categories) + 1
                told += blob(
                    1, number(1, self._categories[category]) + blob(2, category)
                )
            if (name, category) not in self._names:
                self._names[name, category] = len(self._names) + 1
                told += blob(2, number(1, self._names[name, category]) + blob(2, name))
            names.append(self._names[name, category])
            categories.append(self._categories[category])
        if told:
            self._packet(blob(_INTERNED, told) + number(_FLAGS, _NEEDS_STATE))
        numbers = (np.array(column, np.int64)[where] for column in (names, categories))
        columns: tuple[Any, ...] = (
            slices.time,
            slices.type,
            *numbers,
            slices.flow,
            slices.fan,
        )
        for at in range(0, len(slices.time), _ROWS):
            self._file.write(
                _encode(uuid, *(column[at : at + _ROWS] for column in columns))
            )
        self.events += int((slices.type != END).sum())

    def _stacks(self, log: Log, process: Process, pid: bytes) -> None:
        """The sampled Python stacks of each thread, as Perfetto's CPU profile samples."""
        sampled: dict[int, list[tuple[int, int]]] = {}
        for columns in process.trace.stack_samples():
            for time, thread, frame in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                sampled.setdefault(thread, []).append((time, frame))
        for thread, samples in sampled.items():
            self._sequences += 1
            if thread in log.threads:
                tid = log.threads[thread].tid
            else:
                tid = thread
            start = samples[0][0] // 1000
            about = pid + number(2, tid & 0x7FFFFFFF) + number(6, start)
            self._packet(
                blob(_THREAD, about) + number(_FLAGS, _CLEARED), self._sequences
            )
            interned = blob(
                _INTERNED, _interned_stacks(log, {leaf for _, leaf in samples})
            )
            self._packet(interned + number(_FLAGS, _NEEDS_STATE), self._sequences)
            times = [start, *(time // 1000 for time, _ in samples)]
            body = b"".join(number(1, leaf) for _, leaf in samples)
            body += b"".join(
                number(2, later - before) for before, later in pairwise(times)
            )
            packet = (
                number(_TIMESTAMP, samples[0][0])
                + blob(_STACKS, body)
                + number(_FLAGS, _NEEDS_STATE)
            )
            self._packet(packet, self._sequences)


def _interned_stacks(log: Log, leaves: set[int]) -> bytes:
    """Functions, files, frames and whole stacks by number; a stack has the number of its innermost frame."""
    stacks: dict[int, list[int]] = {}
    for leaf in sorted(leaves):
        frame = leaf
        stack = stacks.setdefault(leaf, [])
        while frame in log.frames and len(stack) < _DEEPEST:
            stack.append(frame)
            frame = log.frames[frame].up
    frames = sorted(set().union(*stacks.values()))
    # Perfetto asks which file each frame is mapped from; Python's are from none.
    out = blob(_MAPPING_PATHS, number(1, 1) + blob(2, "python"))
    out += blob(_MAPPINGS, number(1, 1) + number(7, 1))
    for code in sorted({log.frames[frame].code for frame in frames} & log.codes.keys()):
        out += blob(_FUNCTIONS, number(1, code + 1) + blob(2, log.codes[code].func))
        out += blob(_FILES, number(1, code + 1) + blob(2, log.codes[code].file))
    for frame in frames:
        code = log.frames[frame].code
        place = (
            number(2, code + 1)
            + number(3, 1)
            + number(5, code + 1)
            + number(6, log.frames[frame].line)
        )
        out += blob(_FRAMES, number(1, frame) + place)
    for leaf, stack in stacks.items():
        path = b"".join(number(2, frame) for frame in reversed(stack))
        out += blob(_CALLSTACKS, number(1, leaf) + path)
    return out


def _encode(
    uuid: int, time: Any, type: Any, names: Any, categories: Any, flow: Any, fan: Any
) -> bytes:
    """TracePackets of one track, in order. Those with equally many flows are equally long, so they are made together."""
    n = len(time)
    event = [
        constant(varint(_TYPE << 3), n),
        type[:, None],
        constant(number(_TRACK_UUID, uuid) + varint(_NAME_IID << 3), n),
        wide(names, 4),
        constant(varint(_CATEGORY_IIDS << 3), n),
        wide(categories, 3),
    ]
    events = np.concatenate(event, axis=1)
    if not fan.any():
        return bytes(_packets(time, events).tobytes())
    made = []
    size = np.zeros(n, np.int64)
    for many in np.unique(fan).tolist():
        rows = np.flatnonzero(fan == many)
        body = [events[rows]]
        for k in range(many):
            body += [
                constant(varint(_FLOWS << 3 | 1), len(rows)),
                little(flow[rows] + k),
            ]
        packets = _packets(time[rows], np.concatenate(body, axis=1))
        made.append((rows, packets))
        size[rows] = packets.shape[1]
    first = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), np.uint8)
    for rows, packets in made:
        out[first[rows, None] + np.arange(packets.shape[1])] = packets
    return out.tobytes()


def _packets(time: Any, event: Any) -> Any:
    head = [constant(varint(_TIMESTAMP << 3), len(time)), wide(time, 9)]
    tail = constant(number(_SEQUENCE, 1) + number(_FLAGS, _NEEDS_STATE), len(time))
    return framed(
        _PACKET, np.concatenate([*head, framed(_TRACK_EVENT, event), tail], axis=1)
    )
