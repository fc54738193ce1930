"""The flame graph of a run: process, operation, Python frames, native call; widths are corrected time, as on the whole page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.stacks import Place, is_library
from cutaway.reports.text import clean, shorten

Key = tuple[str, str, str]  # kind, name, place
MOST_NODES = 6000
LEAST_SHARE = 0.0003


@dataclass
class Node:
    """One box: the time below it, and the boxes on top of it."""

    ns: int = 0
    children: dict[Key, Node] = field(default_factory=dict)


def flame_tree(run: Run) -> Node:
    """All processes of a run, each a child of the root."""
    root = Node()
    names = {row["process"]: row["name"] or f"pid {row['pid']}" for row in run.processes()}
    for part in run.stacks():
        keys: list[Key] = [
            ("process", names[part.process], str(part.process)),
            ("operation", part.operation, ""),
        ]
        keys += [("python", place.function, place.file) for place in _own_part(part.stack)]
        keys += [("native", part.native, "")] if part.native else []
        _grow(root, keys, part.ns)
    return root


def flame_data(run: Run) -> dict[str, Any] | None:
    """The tree as two flat lists: what boxes are called, and boxes as (parent, name, milliseconds), parents first."""
    root = flame_tree(run)
    if not root.ns:
        return None
    names: dict[Key, int] = {}
    nodes: list[list[float]] = []
    waiting = [(-1, key, node) for key, node in root.children.items()]
    least = root.ns * LEAST_SHARE
    while waiting and len(nodes) < MOST_NODES:
        widest = (
            max(range(len(waiting)), key=lambda i: waiting[i][2].ns) if len(nodes) > MOST_NODES // 2 else 0
        )
        parent, key, node = waiting.pop(widest)
        nodes.append([parent, names.setdefault(key, len(names)), round(node.ns / 1e6, 4)])
        here = len(nodes) - 1
        waiting += [(here, k, child) for k, child in node.children.items() if child.ns >= least]
    shown = [[kind, clean(name)[:120], shorten(clean(place), 80)] for kind, name, place in names]
    return {"names": shown, "nodes": nodes}


def _own_part(stack: tuple[Place, ...]) -> tuple[Place, ...]:
    """Without what lies below the program's first own frame: how Python was started is of no interest."""
    first = next((i for i, place in enumerate(stack) if not is_library(place.file)), 0)
    return stack[first:]


def _grow(root: Node, keys: list[Key], ns: int) -> None:
    root.ns += ns
    node = root
    for key in keys:
        node = node.children.setdefault(key, Node())
        node.ns += ns
