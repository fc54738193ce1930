"""Writes speedscope's file format: one flame chart for each thread and each stream of a device, one flame graph for each process."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from cutaway.trace.exports.timeline import (
    BEGIN,
    END,
    Process,
    Slices,
    Track,
    origin,
    processes,
)
from cutaway.trace.reader import Trace

Flame = tuple[
    str, list[tuple[list[str], int]]
]  # a title; stacks, outermost first, with their nanoseconds
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_SEPARATOR = b",\n"


def write(trace: Trace, file: BinaryIO, flames: Sequence[Flame] = ()) -> int:
    """Writes a run; returns the number of slices. Frames must come before the charts that use them, so the
    charts are kept in a temporary file first."""
    frames: dict[str, int] = {}
    count = 0
    base = origin(trace)
    with tempfile.TemporaryFile() as waiting:
        for process in processes(trace):
            for track in process.tracks():
                count += _chart(process, track, frames, base, waiting)
        for title, stacks in flames:
            samples = []
            for stack, _ in stacks:
                samples.append([frames.setdefault(name, len(frames)) for name in stack])
            profile = {
                "type": "sampled",
                "name": title,
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(ns for _, ns in stacks),
                "samples": samples,
                "weights": [ns for _, ns in stacks],
            }
            waiting.write(json.dumps(profile).encode() + _SEPARATOR)
        waiting.truncate(max(waiting.tell() - len(_SEPARATOR), 0))
        head = {"$schema": _SCHEMA, "exporter": "cutaway", "name": trace.path.name}
        shared = {"frames": [{"name": name} for name in frames]}
        file.write(
            json.dumps({**head, "shared": shared})[:-1].encode() + b', "profiles": [\n'
        )
        waiting.seek(0)
        shutil.copyfileobj(waiting, file)
    file.write(b"\n]}\n")
    return count


def _chart(
    process: Process, track: Track, frames: dict[str, int], base: int, file: BinaryIO
) -> int:
    """Writes one chart, unless nothing begins in it; what is still open at the end is closed there."""
    about = {
        "type": "evented",
        "name": f"{process.name} / {track.title}",
        "unit": "nanoseconds",
    }
    separator = json.dumps(about)[:-1] + ', "events": ['
    begun = 0
    first = None
    last = 0
    stack: list[int] = []
    for slices in track.blocks:
        if first is None:
            first = int(slices.time[0]) - base
        last = int(slices.time[-1]) - base
        ordered = _events(process, slices, frames, stack)
        if events := [
            f'{{"type":"{t}","frame":{f},"at":{at - base}}}' for t, f, at in ordered
        ]:
            file.write((separator + ",".join(events)).encode())
            separator = ","
        begun += int((slices.type == BEGIN).sum())
    if begun:
        closing = "".join(
            f',{{"type":"C","frame":{frame},"at":{last}}}' for frame in reversed(stack)
        )
        file.write(
            f'{closing}], "startValue": {first}, "endValue": {last}}}'.encode()
            + _SEPARATOR
        )
    return begun


def _events(
    process: Process, slices: Slices, frames: dict[str, int], stack: list[int]
) -> Iterator[tuple[str, int, int]]:
    """What opens and closes; what ends out of order is split."""
    known: dict[int, int] = {}
    columns = (slices.time, slices.type, slices.label)
    for time, type, label in zip(*(column.tolist() for column in columns), strict=True):
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
