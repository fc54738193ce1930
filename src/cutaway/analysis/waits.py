"""Who waits for whom, and which of several sibling workers the others wait for.

A wait names what it waited on: a pipe or socket by its inode, a connection by its addresses, a process by its id, a
semaphore by its name, a lock by the thread that released it. The other end is who is known to have written, released or
read there. Nothing is guessed: where nobody is known, nobody is named. A worker of Ray answers for its actor or task;
without a task it waits for those who wait for it at other times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import summary_threads
from cutaway.analysis.hotspots import objects, sites
from cutaway.analysis.sweep import Swept
from cutaway.analysis.table import Table
from cutaway.trace.reader import Trace

Mask = NDArray[np.bool_]
End = tuple[int, int]
"""A position of a process and a thread id in it, 0 if that is not known."""

UNKNOWN = -1
IDLE = "ray: wait for a task"
_WRITES = ("write", "send", "sendall", "sendto", "sendmsg")


def waits(trace: Trace, swept: Swept, keep: Mask) -> Table:
    """Waiting time by process, thread, operation and what was waited on. `for_process` is -1 if not known or if it was
    one of several: `among` names those (positions, with commas). `for_thread` is the thread, if it is known."""
    table = sites(trace, swept, keep)
    table = table.where(to="wait")
    ends = _Ends(trace)
    rows = zip(
        *(table[name].tolist() for name in ("process", "thread", "function", "on", "peer")), strict=True
    )
    found = [
        ends.partners((process, swept.names[thread].tid), function, on, peer)
        for process, thread, function, on, peer in rows
    ]
    places = {(name.process, name.tid): index for index, name in enumerate(swept.names)}
    columns = {name: table[name] for name in table.columns}
    columns["for_process"] = np.array([_only(process for process, _ in ends) for ends in found], np.int64)
    columns["for_thread"] = np.array(
        [_only(places.get(end, UNKNOWN) for end in ends) for ends in found], np.int64
    )
    columns["among"] = objects([",".join(map(str, sorted({p for p, _ in ends}))) for ends in found])
    by = ("process", "thread", "operation", "function", "on", "for_process", "for_thread", "among")
    return Table(columns).group(by, ["ns", "count"]).sort("ns", descending=True)


def _only(found: Iterable[int]) -> int:
    distinct = set(found)
    return distinct.pop() if len(distinct) == 1 else UNKNOWN


class _Ends:
    """Who is known at each thing that can be waited on."""

    def __init__(self, trace: Trace) -> None:
        self._hosts = [process.host for process in trace.processes]
        self._positions = trace.positions()
        self._feeders: dict[tuple[str, str], set[End]] = {}
        self._readers: dict[tuple[str, str], set[End]] = {}
        for index, process in enumerate(trace.processes):
            for on, tid in process.log.feeds:
                self._feeders.setdefault(self._key(index, on), set()).add((index, tid))
            for call in process.log.calls.values():
                for on in _things(call.on) if not _writes(call.fn) else ():
                    self._readers.setdefault(self._key(index, on), set()).add((index, 0))

    def _key(self, process: int, on: str) -> tuple[str, str]:
        """Inodes and names mean something on one machine only, and so do its own addresses for itself."""
        if _is_ray(on):
            return "", on
        everywhere = on.startswith("tcp:") and not on.startswith(("tcp:127.", "tcp:::1:", "tcp:::ffff:127."))
        return ("" if everywhere else self._hosts[process]), on

    def partners(self, waiter: End, function: str, on: str, peer: str) -> set[End]:
        """Who may have ended a wait: those who write there, or read what was written; never the waiting thread."""
        process = waiter[0]
        kind, _, identity = on.partition(":")
        if function == IDLE:
            return self._asking(process)
        if kind == "thread":
            return {(process, int(identity))} if identity.isdecimal() else set()
        if kind == "pid":
            other = self._positions.get((self._hosts[process], int(identity or 0)))
            return set() if other is None else {(other, 0)}
        if _is_ray(on):
            return set().union(*(self._feeders.get(("", each), set()) for each in _things(on)))
        if peer:
            key = self._key(process, peer)
            found = self._feeders.get(key, set()) | self._readers.get(key, set())
        else:
            found = (self._readers if _writes(function) else self._feeders).get(self._key(process, on), set())
        return {end for end in found if end not in (waiter, (process, 0))}

    def _asking(self, worker: int) -> set[End]:
        own = [key for key, ends in self._feeders.items() if (worker, 0) in ends and _is_ray(key[1])]
        return {end for key in own for end in self._readers.get(key, set()) if end[0] != worker}


def _things(on: str) -> list[str]:
    """What was waited on: one thing, or several of Ray's actors."""
    kind, _, names = on.partition(":")
    return [f"{kind}:{name}" for name in names.split(",")] if kind == "actor" else [on] if on else []


def _is_ray(on: str) -> bool:
    return on.startswith(("actor:", "task:"))


def _writes(function: str) -> bool:
    return function.rpartition(".")[2] in _WRITES


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


def _family(trace: Trace) -> list[tuple[int, str]]:
    """(position of the parent, role) of each process."""
    positions = trace.positions()
    return [
        (
            positions.get((process.host, process.parent_pid), UNKNOWN),
            str(process.log.process.get("role") or ""),
        )
        for process in trace.processes
    ]
