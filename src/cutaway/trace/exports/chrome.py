"""Writes the Chrome trace format (JSON): opens in chrome://tracing, Perfetto and many other viewers."""

from __future__ import annotations

import json
from typing import BinaryIO

from cutaway.trace.exports.timeline import (
    BEGIN,
    END,
    RL_NAMES,
    Process,
    Slices,
    Track,
    origin,
    processes,
)
from cutaway.trace.reader import Trace


def write(trace: Trace, file: BinaryIO) -> int:
    """Writes a run; returns the number of slices and marks."""
    base = origin(trace)
    count = 0
    separator = ""
    file.write(
        f'{{"displayTimeUnit":"ns","baseTimeNanoseconds":{base},"traceEvents":[\n'.encode()
    )
    for process in processes(trace):
        file.write(
            (
                separator + _metadata("process_name", process.pid, 0, process.name)
            ).encode()
        )
        separator = ",\n"
        row = 1 << 32  # rows that are no thread get numbers no thread has
        taken: set[int] = set()
        for track in process.tracks():
            tid = track.tid
            if track.kind != "thread" or tid in taken:
                tid = row
                row = row + 1
            taken.add(tid)
            file.write(
                (
                    separator + _metadata("thread_name", process.pid, tid, track.title)
                ).encode()
            )
            heads: dict[int, str] = {}
            where = f'"pid":{process.pid},"tid":{tid}'
            for slices in track.blocks:
                lines = _lines(process, track, slices, heads, where, base)
                file.write((separator + separator.join(lines)).encode())
                count += int((slices.type != END).sum())
    file.write(b"\n]}\n")
    return count


def _lines(
    process: Process,
    track: Track,
    slices: Slices,
    heads: dict[int, str],
    where: str,
    base: int,
) -> list[str]:
    lines: list[str] = []
    for time, type, label, flow, fan in zip(
        *(column.tolist() for column in slices), strict=True
    ):
        place = f'{where},"ts":{(time - base) // 1000}.{(time - base) % 1000:03d}'
        if type == END:
            lines.append(f'{{"ph":"E",{place}}}')
            continue
        if label not in heads:
            name = process.text(label)
            category = process.category(label, track.kind)
            fields: dict[str, object] = {"name": name, "cat": category}
            if category == f"operation,{RL_NAMES.get(name)}":
                fields["args"] = {"opentelemetry": RL_NAMES[name]}
            heads[label] = json.dumps(fields)[1:-1]
        if type == BEGIN:
            phase = '"B"'
        else:
            phase = '"i","s":"t"'
        lines.append(f'{{"ph":{phase},{place},{heads[label]}}}')
        if fan:
            if track.kind == "api":
                phase = '"s"'
            else:
                phase = '"f","bp":"e"'
            flows = range(flow, flow + fan)
            lines += [
                f'{{"ph":{phase},"id":{k},"cat":"launch","name":"launch",{place}}}'
                for k in flows
            ]
    return lines


def _metadata(kind: str, pid: int, tid: int, name: str) -> str:
    return json.dumps(
        {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
    )
