"""Who waits for whom, and which of several sibling workers the others wait for.

A wait names what it waited on: a pipe or socket by its inode, a connection by its addresses, a process by its id, a
semaphore by its name, a lock by the thread that released it. The other end is who is known to have written, released or
read there. Nothing is guessed: where nobody is known, nobody is named. A worker of Ray answers for its actor or task;
without a task it waits for those who wait for it at other times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.processes import UNKNOWN, parents_of
from cutaway.analysis.sweep import select
from cutaway.analysis.table import Table, objects
from cutaway.trace.reader import Trace

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

End = tuple[int, int]
"""A position of a process and a thread id in it, 0 if that is not known."""

IDLE = "ray: wait for a task"
_WRITES = ("write", "send", "sendall", "sendto", "sendmsg")


def waits(run: Run) -> Table:
    """Who waits for whom, by thread, operation and what was waited on. `for_process` is the process at the other end, -1 if
    not known or if it was one of several: `among` names those (positions, with commas). `for_thread` is the thread, if known.

    >>> run.waits().select("process", "operation", "on", "for_process", "ns")
    process  operation   on      for_process    ns
          1              pipe:1            0  2430
          2              pipe:2            0  1860
          0  simulation  pipe:1            1   570
          0  simulation  pipe:2            2   570
    """
    table, threads = run._sites.where(to="wait"), run.swept.names
    ends, places = _Ends(run.trace), {(name.process, name.tid): i for i, name in enumerate(threads)}
    rows = zip(*(table[key].tolist() for key in ("process", "thread", "function", "on", "peer")), strict=True)
    found = [ends.partners((process, threads[thread].tid), *wait) for process, thread, *wait in rows]
    table = table.with_columns(
        {
            "for_process": np.array([_only(process for process, _ in ends) for ends in found], np.int64),
            "for_thread": np.array(
                [_only(places.get(end, UNKNOWN) for end in ends) for ends in found], np.int64
            ),
            "among": objects([",".join(map(str, sorted({p for p, _ in ends}))) for ends in found]),
        }
    )
    by = ("process", "thread", "operation", "function", "on", "for_process", "for_thread", "among")
    return table.group(by, ["ns", "count"]).sort("ns", descending=True)


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


def stragglers(run: Run) -> Table:
    """Siblings with one parent and one role by how long they worked (were not waiting): the slowest holds the others up.
    `behind` compares each with the mean of the others.

    >>> run.stragglers().select("process", "busy_ns", "behind")
    process  busy_ns  behind
          2     1140       2
          1      570     0.5
    """
    busy = busy_ns(run)
    groups: dict[tuple[int, str], list[int]] = {}
    for index, (process, parent) in enumerate(zip(run.trace.processes, parents_of(run.trace), strict=True)):
        if parent != UNKNOWN:
            role = str(process.log.process.get("role") or "")
            groups.setdefault((parent, role), []).append(index)
    rows: list[tuple[Any, ...]] = []
    for (parent, role), members in groups.items():
        for index in members if len(members) > 1 else ():
            others = np.mean([busy[i] for i in members if i != index])
            behind = busy[index] / others if others else float("nan")
            rows.append((index, parent, role, int(busy[index]), len(members), float(behind)))
    names = ("process", "parent", "role", "busy_ns", "siblings", "behind")
    return Table.from_rows(names, rows).sort("busy_ns", descending=True)


def busy_ns(run: Run) -> NDArray[np.int64]:
    """How long the threads that summarise each process were not blocked."""
    cells = run.rows(run.swept.cells)
    cells = select(cells, (cells["blocked"] == 0) & run.swept.summary_threads[cells["thread"]])
    out = np.zeros(len(run.trace.processes), np.int64)
    np.add.at(out, run.swept.threads["process"][cells["thread"]], cells["ns"])
    return out
