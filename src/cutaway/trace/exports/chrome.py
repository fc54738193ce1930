"""Writes the Chrome trace format (JSON): opens in chrome://tracing, Perfetto and many other viewers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

from cutaway.trace.exports.timeline import RL_NAMES, Process, Slices, Track, origin
from cutaway.trace.reader import Trace

_PHASES = {1: "B", 2: "E", 3: "i"}


def write(trace: Trace, file: BinaryIO) -> int:
    """Writes a run; returns the number of slices and marks."""
    base = origin(trace)
    file.write(f'{{"displayTimeUnit":"ns","baseTimeNanoseconds":{base},"traceEvents":[\n'.encode())
    count = flows = 0
    first = True
    for process in map(Process, trace.processes):
        used = 0
        for lines, events, highest in _process(process, flows, base):
            file.write(("" if first else ",\n").encode() + ",\n".join(lines).encode())
            first, count, used = False, count + events, max(used, highest)
        flows = max(flows, used)
    file.write(b"\n]}\n")
    return count


def _process(process: Process, flows: int, base: int) -> Iterator[tuple[list[str], int, int]]:
    """Lines of JSON, how many slices they hold and the highest flow in them."""
    yield [_metadata("process_name", process.pid, 0, process.name)], 0, flows
    row = 1 << 32  # rows that are no thread get numbers no thread has
    taken: set[int] = set()
    for track in process.tracks():
        tid = track.tid
        if track.kind != "thread" or tid in taken:
            tid, row = row, row + 1
        taken.add(tid)
        yield [_metadata("thread_name", process.pid, tid, track.title)], 0, flows
        heads: dict[int, str] = {}
        for slices in track.blocks:
            yield from _lines(process, track, tid, slices, (heads, flows, base))


def _lines(
    process: Process, track: Track, tid: int, slices: Slices, shared: tuple[dict[int, str], int, int]
) -> Iterator[tuple[list[str], int, int]]:
    heads, before, base = shared
    where = f'"pid":{process.pid},"tid":{tid}'
    size = len(slices.time)
    flow = slices.flow.tolist() if slices.flow is not None else [0] * size
    fan = slices.fan.tolist() if slices.fan is not None else [0] * size
    lines: list[str] = []
    events, highest = 0, before
    columns = zip(slices.time.tolist(), slices.type.tolist(), slices.label.tolist(), flow, fan, strict=True)
    for time, type, label, tied, many in columns:
        stamp = f"{(time - base) // 1000}.{(time - base) % 1000:03d}"
        if type == 2:
            lines.append(f'{{"ph":"E",{where},"ts":{stamp}}}')
            continue
        if label not in heads:
            heads[label] = _head(process, track.kind, label)
        scope = ',"s":"t"' if type == 3 else ""
        lines.append(f'{{"ph":"{_PHASES[type]}",{where},"ts":{stamp}{scope},{heads[label]}}}')
        events += 1
        if tied:
            phase = '"ph":"s"' if track.kind == "api" else '"ph":"f","bp":"e"'
            for k in range(before + tied, before + tied + many):
                lines.append(f'{{{phase},"id":{k},"cat":"launch","name":"launch",{where},"ts":{stamp}}}')
            highest = max(highest, before + tied + many - 1)
    yield lines, events, highest


def _head(process: Process, kind: str, label: int) -> str:
    name = process.text(label)
    fields: dict[str, object] = {"name": name, "cat": process.category(label, kind)}
    if kind == "thread" and fields["cat"] == f"operation,{RL_NAMES.get(name)}":
        fields["args"] = {"opentelemetry": RL_NAMES[name]}
    return json.dumps(fields)[1:-1]


def _metadata(kind: str, pid: int, tid: int, name: str) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}})
