"""Who waits for whom, and which of several sibling workers the others wait for.

A wait names what it waited on: a pipe or socket by its inode, a process by its id, a semaphore by its name. The
other end is found by identity first (another process that touched the same pipe, or the peer of a socket), then by
role: a parent that waits on something nobody else names waits for its children, a child waits for its parent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import summary_threads
from cutaway.analysis.hotspots import sites
from cutaway.analysis.sweep import Swept
from cutaway.analysis.table import Table
from cutaway.trace.reader import Trace

Mask = NDArray[np.bool_]

UNKNOWN = -1


def waits(trace: Trace, swept: Swept, keep: Mask) -> Table:
    """Waiting time by process, thread, operation and what was waited on; `for_process` is -1 if not known."""
    table = sites(trace, swept, keep)
    table = table.where(to="wait")
    ends = _ends(trace)
    family = _family(trace)
    target = [
        _other_end(trace, ends, family, process, on, peer)
        for process, on, peer in zip(
            table["process"].tolist(), table["on"].tolist(), table["peer"].tolist(), strict=True
        )
    ]
    columns = {name: table[name] for name in table.columns}
    columns["for_process"] = np.array(target, np.int64)
    by = ("process", "thread", "operation", "function", "on", "for_process")
    return Table(columns).group(by, ["ns", "count"]).sort("ns", descending=True)


def stragglers(trace: Trace, swept: Swept, keep: Mask) -> Table:
    """Siblings with one parent and one role, by how long each worked (was not waiting): the slowest holds the
    others up. `behind` is its work divided by the mean of its siblings."""
    names = ("process", "parent", "role", "busy_ns", "siblings", "behind")
    busy = _busy(trace, swept, keep)
    groups: dict[tuple[int, str], list[int]] = {}
    for index, (parent, role) in enumerate(_family(trace)):
        if parent != UNKNOWN:
            groups.setdefault((parent, role), []).append(index)
    rows: list[tuple[Any, ...]] = []
    for (parent, role), members in groups.items():
        for index in members if len(members) > 1 else ():
            others = np.mean([busy[i] for i in members if i != index])
            behind = busy[index] / others if others else float("nan")
            rows.append((index, parent, role, int(busy[index]), len(members), float(behind)))
    return Table.from_rows(names, rows).sort("busy_ns", descending=True)


def _busy(trace: Trace, swept: Swept, keep: Mask) -> NDArray[np.int64]:
    cells = swept.cells
    at = keep & (cells["blocked"] == 0) & summary_threads(trace, swept)[cells["thread"]]
    out = np.zeros(len(swept.devices), np.int64)
    np.add.at(out, swept.threads["process"][cells["thread"][at]], cells["ns"][at])
    return out


def _ends(trace: Trace) -> dict[str, set[int]]:
    """For each thing that can be waited on, the processes that touch it."""
    out: dict[str, set[int]] = {}
    for index, process in enumerate(trace.processes):
        for call in process.log.calls.values():
            if call.on:
                out.setdefault(call.on, set()).add(index)
    return out


def _family(trace: Trace) -> list[tuple[int, str]]:
    """(position of the parent, role) of each process."""
    by_pid = {process.pid: index for index, process in enumerate(trace.processes)}
    return [
        (by_pid.get(process.log.process.get("ppid", 0), UNKNOWN), str(process.log.process.get("role") or ""))
        for process in trace.processes
    ]


def _other_end(
    trace: Trace, ends: dict[str, set[int]], family: list[tuple[int, str]], process: int, on: str, peer: str
) -> int:
    kind, _, identity = on.partition(":")
    if kind == "pid":
        for index, other in enumerate(trace.processes):
            if str(other.pid) == identity:
                return index
    found = (ends.get(peer, set()) if peer else ends.get(on, set())) - {process}
    if len(found) == 1:
        return next(iter(found))
    if kind not in ("pipe", "socket", "sem"):
        return UNKNOWN
    return _by_role(family, process, found)


def _by_role(family: list[tuple[int, str]], process: int, among: set[int]) -> int:
    """The parent of a child; the only child of a parent. Several children are several answers: not known."""
    children = [i for i, (parent, _) in enumerate(family) if parent == process and (not among or i in among)]
    if len(children) == 1:
        return children[0]
    parent = family[process][0]
    return parent if not children and (not among or parent in among) else UNKNOWN
