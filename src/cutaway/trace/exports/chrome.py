"""Writes the Chrome trace format (JSON): opens in chrome://tracing, Perfetto and many other viewers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

from cutaway.trace.exports.timeline import END, RL_NAMES, Process, Slices, Track, origin, processes
from cutaway.trace.reader import Trace

_PHASES = {1: "B", 2: "E", 3: "i"}


def write(trace: Trace, file: BinaryIO) -> int:
    """Writes a run; returns the number of slices and marks."""
    base = origin(trace)
    file.write(f'{{"displayTimeUnit":"ns","baseTimeNanoseconds":{base},"traceEvents":[\n'.encode())
    count, separator = 0, b""
    for process in processes(trace):
        for lines, events in _process(process, base):
            file.write(separator + ",\n".join(lines).encode())
            separator, count = b",\n", count + events
    file.write(b"\n]}\n")
    return count


def _process(process: Process, base: int) -> Iterator[tuple[list[str], int]]:
    """Lines of JSON, and how many slices they hold."""
    yield [_metadata("process_name", process.pid, 0, process.name)], 0
    row = 1 << 32  # rows that are no thread get numbers no thread has
    taken: set[int] = set()
    for track in process.tracks():
        tid = track.tid
        if track.kind != "thread" or tid in taken:
            tid, row = row, row + 1
        taken.add(tid)
        yield [_metadata("thread_name", process.pid, tid, track.title)], 0
        heads: dict[int, str] = {}
        where = f'"pid":{process.pid},"tid":{tid}'
        for slices in track.blocks:
            yield _lines(process, track, slices, heads, where, base), int((slices.type != END).sum())


def _lines(
    process: Process, track: Track, slices: Slices, heads: dict[int, str], where: str, base: int
) -> list[str]:
    lines: list[str] = []
    columns = (slices.time, slices.type, slices.label, slices.flow, slices.fan)
    for time, type, label, tied, many in zip(*(column.tolist() for column in columns), strict=True):
        stamp = f"{(time - base) // 1000}.{(time - base) % 1000:03d}"
        if type == END:
            lines.append(f'{{"ph":"E",{where},"ts":{stamp}}}')
            continue
        if label not in heads:
            heads[label] = _head(process, track.kind, label)
        scope = ',"s":"t"' if type == 3 else ""
        lines.append(f'{{"ph":"{_PHASES[type]}",{where},"ts":{stamp}{scope},{heads[label]}}}')
        if tied:
            phase = '"ph":"s"' if track.kind == "api" else '"ph":"f","bp":"e"'
            for k in range(tied, tied + many):
                lines.append(f'{{{phase},"id":{k},"cat":"launch","name":"launch",{where},"ts":{stamp}}}')
    return lines


def _head(process: Process, kind: str, label: int) -> str:
    name = process.text(label)
    fields: dict[str, object] = {"name": name, "cat": process.category(label, kind)}
    if kind == "thread" and fields["cat"] == f"operation,{RL_NAMES.get(name)}":
        fields["args"] = {"opentelemetry": RL_NAMES[name]}
    return json.dumps(fields)[1:-1]


def _metadata(kind: str, pid: int, tid: int, name: str) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}})
