"""Puts the page of a run together: digest, verdict, lanes, strips."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cutaway.analysis import Run
from cutaway.analysis.utilisation import run_span

from . import page
from .evidence import evidence
from .flame import flame_data
from .gather import digest, open_run
from .lanes import LaneBuilder
from .live import meter
from .model import Digest, Process
from .pagedata import page_data, short
from .phrases import percent
from .verdict import judge

DETAIL_NS = 1_000_000_000
STRIP = 120


def build_page(path: str | os.PathLike[str], source: bool = False) -> str:
    """The HTML of a run."""
    run = open_run(path)
    told = digest(run)
    verdict = judge(evidence(told))
    data = page_data(told, verdict, build_lanes(run, told), strips(run, told), device_strips(run), source)
    data["flame"] = flame_data(run.steady())
    return page.assemble(data["title"], data)


def build_lanes(run: Run, told: Digest) -> dict[str, Any] | None:
    """A row for each thread that carries operations (each process has at least one), and for each device."""
    lives = [p for p in told.processes if p.end_ns > p.start_ns]
    if not lives:
        return None
    start, stop = min(p.start_ns for p in lives), max(p.end_ns for p in lives)
    rows = _rows(run)
    builder = LaneBuilder(run.trace, run.swept, [(start, stop), *_detail(told, start, stop)], len(rows) or 1)
    _add_devices(builder, run)
    builder.add_threads(rows)
    return builder.packed()


def _detail(told: Digest, start: int, stop: int) -> list[tuple[int, int]]:
    """A stretch in the middle of the steady state: a second, or an eighth of a short run."""
    length = min(DETAIL_NS, (stop - start) // 8)
    if length < 1_000_000:
        return []
    first = min(start + told.startup_ns, stop - length)
    middle = max(first, (first + stop - length) // 2)
    return [(middle, middle + length)]


def _rows(run: Run) -> list[tuple[str, int]]:
    """The threads shown: their names, and where they stand in the sweep."""
    threads = list(run.threads())
    rows: list[tuple[str, int]] = []
    for process in run.processes():
        name = process["name"] or f"pid {process['pid']}"
        own = [t for t in threads if t["process"] == process["process"]]
        own = [t for t in own if t["carries_operations"]] or own[:1]
        for row in own:
            label = name if len(own) == 1 else f"{name} / {row['name'] or row['tid']}"
            rows.append((short(label, 40), row["thread"]))
    return rows


def _add_devices(builder: LaneBuilder, run: Run) -> None:
    for trace, work in zip(run.trace.processes, run.swept.devices, strict=True):
        records = work.records[work.busy]
        ids, codes = np.unique(work.operation[work.busy], return_inverse=True)
        names = [trace.log.name(int(id)) for id in ids]
        for device in np.unique(records["device"]).tolist():
            mine = records["device"] == device
            builder.add_device(f"GPU {device}", records[mine], codes[mine].astype(np.int64), names)


def strips(run: Run, told: Digest) -> dict[int, str]:
    """CPU use of each process over the run in STRIP steps: '0' idle … ':' a core or more, ' ' not there."""
    start = min(p.start_ns for p in told.processes)
    step = max(1.0, (max(p.end_ns for p in told.processes) - start) / STRIP)
    return {p.id: _strip(run, p, start, step) for p in told.processes}


def _strip(run: Run, process: Process, start: int, step: float) -> str:
    time, used = meter(run.trace.processes[process.id].log.samples)
    if len(time) < 2:
        return ""
    edges = start + step * np.arange(STRIP + 1)
    share = np.diff(np.interp(edges, time, used)) / step
    alive = (edges[1:] > process.start_ns) & (edges[:-1] < process.end_ns)
    return "".join(
        chr(48 + int(min(10, round(s * 10)))) if a else " " for s, a in zip(share, alive, strict=True)
    )


def device_strips(run: Run) -> list[dict[str, Any]]:
    """Rows of the tree for the devices: how busy each was over time."""
    told = run.utilisation()
    start, _ = run_span(run.trace, run.swept)
    step = max(1, -(-told["span_ns"] // STRIP))
    rows: list[dict[str, Any]] = []
    table = list(run.device_timeline(STRIP))
    for number, about in told["devices"].items():
        strip = ["0"] * STRIP
        for row in table:
            if str(row["device"]) == number:
                bin = min(STRIP - 1, (row["start_ns"] - start) // step)
                strip[bin] = chr(48 + round(10 * min(1.0, row["ns"] / step)))
        busy = percent(about["busy"])
        rows.append(
            {
                "name": f"GPU {number}",
                "pid": 0,
                "role": "",
                "depth": 0,
                "exit": "device",
                "cpu": busy,
                "strip": "".join(strip),
            }
        )
    return rows
