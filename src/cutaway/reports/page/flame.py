"""The flame graph of a run: process, operation, Python frames, native call, kernels. Widths are corrected time, as on the whole page.

Kernels run beside the thread that launched them, so a box has two times: that of the thread, and that of the device work launched
below it. For two runs a box also has the change from one to the other, per unit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.diff import labels
from cutaway.analysis.stacks import Part, coarse_stacks, divide, is_library
from cutaway.reports.text import clean, shorten

from .section import Section, Source

Key = tuple[str, str, str]  # kind, name, place
MOST_NODES = 6000
LEAST_SHARE = 0.0003
WAITING = "(waiting)"  # outside any operation: idle workers are not time that somebody forgot to name


@dataclass
class Node:
    """One box: thread time (of A and of B, where two runs are compared) and device time, and the boxes below it."""

    ns: list[float]
    device_ns: float = 0
    children: dict[Key, Node] = field(default_factory=dict)

    def grow(
        self, keys: Sequence[Key], side: int, ns: float, device_ns: float = 0
    ) -> None:
        """Adds time to a box and to all above it."""
        nodes = [self]
        for key in keys:
            nodes.append(nodes[-1].children.setdefault(key, Node([0.0] * len(self.ns))))
        for node in nodes:
            node.ns[side] += ns
            node.device_ns += device_ns


def flame_data(run: Run) -> dict[str, Any] | None:
    """The tree of one run, each process a child of the root."""
    root = Node([0.0])
    names = [row["name"] or f"pid {row['pid']}" for row in run.processes()]
    _add(root, 0, run, names, 1.0, coarse_stacks(run, names, LEAST_SHARE))
    return _flat(root)


def flame_change(
    runs: Sequence[Sequence[Run]], units: Sequence[float]
) -> dict[str, Any] | None:
    """The steady states of both sides in one tree, per unit of all runs of a side. Processes that differ only by a number are one."""
    root = Node([0.0, 0.0])
    for side, (group, count) in enumerate(zip(runs, units, strict=True)):
        for run in group:
            steady = run.steady()
            _add(root, side, steady, labels(run), 1 / count, steady.stacks())
    return _flat(root)


def _add(
    root: Node, side: int, run: Run, names: list[str], scale: float, parts: list[Part]
) -> None:
    launches: dict[tuple[int, str, str], list[tuple[list[Key], Part]]] = {}
    for part in parts:
        operation = part.operation or (WAITING if part.layer == "wait" else "")
        keys: list[Key] = [
            ("process", names[part.process], ""),
            ("operation", operation, ""),
        ]
        # Without what lies above the program's first own frame: nobody needs to see how Python was started.
        own = (i for i, place in enumerate(part.stack) if not is_library(place.file))
        keys += [
            ("python", place.function, place.file)
            for place in part.stack[next(own, 0) :]
        ]
        keys += [("native", part.native, "")] if part.native else []
        root.grow(keys, side, part.ns * scale)
        launches.setdefault((part.thread, part.operation, part.native), []).append(
            (keys, part)
        )
    for row in run.launched_work():
        found = launches.get((row["thread"], row["operation"], row["api"]), [])
        outside: list[Key] = [
            ("process", names[row["process"]], ""),
            ("operation", row["operation"], ""),
        ]
        outside += [("native", row["api"], "")] if row["api"] else []
        above = [keys for keys, _ in found] or [outside]
        shares = divide(row["ns"], [part.ns or 1 for _, part in found] or [1])
        for keys, ns in zip(above, shares, strict=True):
            root.grow([*keys, ("kernel", row["name"], "")], side, 0, ns * scale)


def _flat(root: Node) -> dict[str, Any] | None:
    """The tree as two flat lists: what boxes are called, and boxes as (parent, name, ms, device ms, and ms of A and of B),
    parents first, the widest first where there are too many. The width for two runs is their mean: it adds up."""
    whole = sum(root.ns)
    device = root.device_ns
    if not whole:
        return None
    names: dict[Key, int] = {}
    nodes: list[list[float]] = []

    def width(node: Node) -> float:
        return max(sum(node.ns) / whole, node.device_ns / device if device else 0.0)

    order = itertools.count()

    def waits(parent: int, key: Key, node: Node) -> tuple[float, int, int, Key, Node]:
        crowded = len(nodes) > MOST_NODES // 2
        return -width(node) if crowded else 0.0, next(order), parent, key, node

    waiting = [waits(-1, key, node) for key, node in root.children.items()]
    while waiting and len(nodes) < MOST_NODES:
        _, _, parent, key, node = heappop(waiting)
        times = [
            sum(node.ns) / len(node.ns),
            node.device_ns,
            *(node.ns if len(node.ns) > 1 else []),
        ]
        here = len(nodes)
        nodes.append(
            [
                parent,
                names.setdefault(key, len(names)),
                *(round(ns / 1e6, 5) for ns in times),
            ]
        )
        if here == MOST_NODES // 2:
            waiting = sorted((-width(w[-1]), *w[1:]) for w in waiting)
        for child in node.children.items():
            if width(child[1]) >= LEAST_SHARE:
                heappush(waiting, waits(here, *child))
    shown = [
        [kind, clean(name)[:120], shorten(clean(place), 80)]
        for kind, name, place in names
    ]
    return {"names": shown, "nodes": nodes}


def flame(of: Source) -> dict[str, Any] | None:
    """Where the code spends its time."""
    found = flame_data(of.run.steady())
    kernels = (
        ", kernels"
        if found and any(kind == "kernel" for kind, *_ in found["names"])
        else ""
    )
    title = f"Where the code spends its time: operation, your functions, native calls{kernels} (click to zoom)"
    return found and {"title": title, **found}


SECTION = Section("flame", flame)
