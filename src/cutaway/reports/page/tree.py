"""The process tree with the CPU use of each process over time, and the devices: what tree.js draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cutaway.analysis import Run
from cutaway.analysis.processes import cpu_over_time
from cutaway.analysis.utilisation import usage
from cutaway.reports import text
from cutaway.reports.digest import Digest, Process
from cutaway.reports.groups import MANY, Group, outline, workforce
from cutaway.reports.text import percent

from .section import Section, Source, short

STRIP = 120


def tree(of: Source) -> dict[str, Any]:
    """Processes and devices, a row each."""
    title = "Process tree: how busy CPUs and devices were over time (right: mean, of one core or device)"
    return {"title": title, "rows": [*_tree(of.run, of.found), *_device_strips(of.run)]}


def _tree(run: Run, found: Digest) -> Iterator[dict[str, Any]]:
    """Rows of the process tree with their CPU use over time; of many processes, groups and the odd ones out."""
    start, stop = run.span
    edges = np.linspace(start, max(stop, start + STRIP), STRIP + 1)
    several = len({process.host for process in found.processes}) > 1
    helpers = workforce(found.processes)[1]
    rows: Iterable[tuple[Process | Group, int]] = [
        *(
            (process, depth)
            for process, depth in _family(found)
            if process not in helpers
        ),
        *([(Group.of(helpers), 1)] if helpers else []),
    ]
    if len(found.processes) > MANY:  # the odd ones out below their group
        few = list(outline(found.processes))
        members: list[Any] = []
        for shown in few:
            if isinstance(shown, Group):
                members += shown.members
        rows = ((shown, int(shown in members)) for shown in few)
    for shown, depth in rows:
        role = (
            "" if isinstance(shown, Group) else shown.role
        )  # the name of a group holds it already
        yield {
            "name": text.middle(short(shown.name), 40),
            "role": short(f"{role} on {shown.host}".strip() if several else role, 60),
            "exit": short(shown.exit, 40),
            "pid": shown.pid,
            "depth": min(depth, 8),
            "cpu": percent(shown.cpu_share) if shown.cpu_share else "–",
            "strip": _strip(
                run, shown.members if isinstance(shown, Group) else (shown,), edges
            ),
        }


def _family(found: Digest) -> Iterator[tuple[Process, int]]:
    """Processes and how deep they stand in the tree, parents before their children."""
    children: dict[int, list[Process]] = {}
    for process in found.processes:
        children.setdefault(process.parent, []).append(process)
    seen: set[int] = set()
    # The roots first; behind them everyone, in case parents form a ring (a pid that was used twice).
    waiting = [
        (process, 0) for process in reversed([*children.get(-1, []), *found.processes])
    ]
    while waiting:
        process, depth = waiting.pop()
        if process.id not in seen:
            seen.add(process.id)
            yield process, depth
            waiting += [
                (child, depth + 1) for child in reversed(children.get(process.id, []))
            ]


def _strip(run: Run, processes: tuple[Process, ...], edges: Any) -> str:
    """Mean CPU use over the run in STRIP steps; empty if nothing was sampled."""
    total = np.zeros(STRIP)
    alive = np.zeros(STRIP)
    for process in processes:
        time, used = cpu_over_time(run.trace.processes[process.id].log.samples)
        if len(time) > 1:
            there = (edges[1:] > process.start_ns) & (edges[:-1] < process.end_ns)
            total += there * np.diff(np.interp(edges, time, used)) / np.diff(edges)
            alive += there
    shades = (_shade(t / a) if a else " " for t, a in zip(total, alive, strict=True))
    return "".join(shades) if alive.any() else ""


def _shade(share: float) -> str:
    """A sign of a strip: '0' idle … ':' all of it. A blank stands for nobody there."""
    return chr(48 + round(10 * min(1.0, share)))


def _device_strips(run: Run) -> Iterator[dict[str, Any]]:
    """Rows of the tree for the devices: how busy each was over time."""
    used = usage(run)
    step = max(1, -(-used["span_ns"] // STRIP))
    rows = run.device_timeline(STRIP)
    busy = {
        (str(r["device"]), (r["start_ns"] - run.span[0]) // step): r["ns"] / step
        for r in rows
    }
    same = {"pid": 0, "role": "", "depth": 0, "exit": "device"}
    for number, about in used["devices"].items():
        strip = "".join(_shade(busy.get((number, i), 0.0)) for i in range(STRIP))
        yield {
            "name": f"GPU {number}",
            **same,
            "cpu": percent(about["busy"]),
            "strip": strip,
        }


SECTION = Section("tree", tree)
