"""Writes speedscope's file format: one flame chart for each thread and each stream of a device, one flame graph for each process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from cutaway.trace.exports.timeline import BEGIN, END, Process, Slices, Track, origin, processes
from cutaway.trace.reader import Trace

Flame = tuple[str, list[tuple[list[str], int]]]  # a title; stacks, outermost first, with their nanoseconds
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write(trace: Trace, file: BinaryIO, flames: Sequence[Flame] = ()) -> int:
    """Writes a run; returns the number of slices. Frames must come before the charts that use them, so the
    charts wait in a temporary file."""
    frames: dict[str, int] = {}
    count, charts, base = 0, 0, origin(trace)
    with tempfile.TemporaryFile() as waiting:
        for process in processes(trace):
            for track in process.tracks():
                begin = waiting.tell()
                waiting.write(b",\n" if charts else b"")
                slices = _chart(process, track, (frames, base), waiting)
                if not slices:
                    waiting.seek(begin)
                    waiting.truncate()
                charts, count = charts + bool(slices), count + slices
        for flame in flames:
            waiting.write((b",\n" if charts else b"") + json.dumps(_sampled(flame, frames)).encode())
            charts += 1
        names = [{"name": name} for name in frames]
        head = {
            "$schema": _SCHEMA,
            "exporter": "cutaway",
            "name": trace.path.name,
            "shared": {"frames": names},
        }
        file.write(json.dumps(head)[:-1].encode() + b', "profiles": [\n')
        waiting.seek(0)
        while chunk := waiting.read(1 << 20):
            file.write(chunk)
    file.write(b"\n]}\n")
    return count


def _sampled(flame: Flame, frames: dict[str, int]) -> dict[str, object]:
    title, stacks = flame
    return {
        "type": "sampled",
        "name": title,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(ns for _, ns in stacks),
        "samples": [[frames.setdefault(name, len(frames)) for name in stack] for stack, _ in stacks],
        "weights": [ns for _, ns in stacks],
    }


def _chart(process: Process, track: Track, shared: tuple[dict[str, int], int], file: BinaryIO) -> int:
    """One chart; what is still open at the end is closed there, and what ends out of order is split."""
    frames, base = shared
    title = f"{process.name} / {track.title}"
    begun, last, first = 0, 0, None
    stack: list[int] = []
    separator = b""
    for slices in track.blocks:
        if first is None:
            first = int(slices.time[0]) - base
            file.write(json.dumps({"type": "evented", "name": title, "unit": "nanoseconds"})[:-1].encode())
            file.write(f', "startValue": {first}, "events": ['.encode())
        ordered = _events(process, slices, frames, stack)
        events = [f'{{"type":"{t}","frame":{f},"at":{at - base}}}' for t, f, at in ordered]
        if events:
            file.write(separator + ",".join(events).encode())
            separator = b","
        begun += int((slices.type == BEGIN).sum())
        last = int(slices.time[-1]) - base
    if first is not None:
        closing = [f'{{"type":"C","frame":{frame},"at":{last}}}' for frame in reversed(stack)]
        file.write((separator if closing else b"") + ",".join(closing).encode())
        file.write(f'], "endValue": {last}}}'.encode())
    return begun


def _events(
    process: Process, slices: Slices, frames: dict[str, int], stack: list[int]
) -> Iterator[tuple[str, int, int]]:
    known: dict[int, int] = {}
    for time, type, label in zip(
        slices.time.tolist(), slices.type.tolist(), slices.label.tolist(), strict=True
    ):
        if label not in known:
            known[label] = frames.setdefault(process.text(label), len(frames))
        frame = known[label]
        if type == BEGIN:
            stack.append(frame)
            yield "O", frame, time
        elif type == END and frame in stack:
            above: list[int] = []
            while stack[-1] != frame:
                above.append(stack.pop())
                yield "C", above[-1], time
            stack.pop()
            yield "C", frame, time
            for other in reversed(above):
                stack.append(other)
                yield "O", other, time
