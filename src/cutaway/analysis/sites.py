"""Call sites: where native calls are made, how long they take, which cross into another layer, and who waits there for whom.

A wait names what it waited on: a pipe or socket by its inode, a connection by its addresses, a process by its id, a
semaphore by its name, a lock by the thread that released it. The other end is who is known to have written, released or
read there. Nothing is guessed: where nobody is known, nobody is named. A worker of Ray answers for its actor or task;
without a task it waits for those who wait for it at other times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import correct, recorded_iterations
from cutaway.analysis.processes import UNKNOWN
from cutaway.analysis.sweep import Columns, select
from cutaway.analysis.table import Table, objects
from cutaway.trace.log import Call
from cutaway.trace.reader import Trace
from cutaway.vocabulary import THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

CALL = {
    "function": "fn",
    "file": "file",
    "line": "line",
    "caller": "func",
    "on": "on",
    "peer": "peer",
}
"""Columns of call sites, and the fields of the log's `Call` they come from."""
CELL = ("thread", "operation", "layer")
"""What a cell of the sweep is, as far as call sites tell."""
End = tuple[int, int]
"""A position of a process and a thread id in it, 0 if that is not known."""


def sites(run: Run) -> Table:
    """All call sites with thread, operation and both layers: what the tables below are made from."""
    swept = run.swept
    rows = run.rows(run.swept.sites)
    calls = [made.call for made in swept.calls.made]
    call = rows["call"]
    columns: Columns = {
        "process": swept.threads["process"][rows["thread"]].astype(np.int64),
        "thread": rows["thread"].astype(np.int64),
        "operation": swept.names.texts(rows["operation"]),
        "from": objects(THREAD_LAYERS)[rows["from"]],
        "to": objects([c.layer for c in calls])[call],
    }
    for name, field in CALL.items():
        columns[name] = objects([getattr(c, field) for c in calls])[call]
    columns["line"] = columns["line"].astype(np.int64)
    layer = _layers(calls)[call]
    return Table(
        {**columns, "count": rows["count"], "ns": _corrected(run, rows, layer)}
    )


def call_times(run: Run, threads: set[int]) -> Table:
    """Raw time of each call of some threads, by thread, operation, layer and the number of the
    call."""
    rows = run.rows(run.swept.sites)
    rows = select(rows, (rows["ns"] > 0) & np.isin(rows["thread"], list(threads)))
    layer = _layers(made.call for made in run.swept.calls.made)[rows["call"]]
    return Table({**rows, "layer": layer}).group((*CELL, "call"), ["ns"])


def _layers(calls: Iterable[Call]) -> NDArray[np.int64]:
    return np.array([THREAD_LAYERS.index(call.layer) for call in calls], np.int64)


def _corrected(run: Run, rows: Columns, layer: NDArray[np.int64]) -> NDArray[np.int64]:
    """The time of call sites without the cost of recording: in each cell they share what the correction left of it, to the
    nanosecond."""
    if run.costs is None:
        return rows["ns"]
    cells = run.rows(run.swept.cells)
    of = [
        (part["thread"].astype(np.int64) << 36)
        | (part["operation"].astype(np.int64) << 4)
        for part in (cells, rows)
    ]
    distinct, cell = np.unique(of[0] | cells["layer"], return_inverse=True)
    left = np.maximum(np.bincount(cell, correct(cells, run.costs).ns), 0)
    share = left / np.maximum(np.bincount(cell, cells["ns"]), 1)
    at = np.minimum(np.searchsorted(distinct, of[1] | layer), len(distinct) - 1)
    order = np.argsort(at, kind="stable")
    until = np.rint(np.cumsum((rows["ns"] * share[at])[order])).astype(np.int64)
    out = np.zeros(len(until), np.int64)
    out[order] = np.diff(until, prepend=0)
    return out


def transitions(run: Run) -> Table:
    """Calls from one layer into another, by operation and call site, the most frequent first.

    >>> run.transitions().where(process=0).select("operation", "from", "to", "function", "count")
    operation        from     to               function               count
    simulation       python   wait             os.read                    6
    inference        python   backend          torch.linear               3
    inference        backend  accelerator_api  cudaLaunchKernel           3
    backpropagation  python   backend          Tensor.backward            3
    backpropagation  backend  accelerator_api  cudaLaunchKernel           3
    backpropagation  backend  accelerator_api  cudaStreamSynchronize      3
                     python   backend          torch.linear               1
    """
    table = run._sites.where(run._sites["from"] != run._sites["to"])
    out = table.group(
        ("process", "operation", "from", "to", "function", "file", "line"), ["count"]
    )
    each = out["count"] / recorded_iterations(run)[out["process"].astype(np.int64)]
    return out.with_columns({"per_iteration": each}).sort("count", descending=True)


def callsites(run: Run) -> Table:
    """Call sites by time, without the calls made inside them. `transitions` counts calls into another layer. Helper threads
    that wait for work are left out: they are idle.

    >>> run.callsites().select("operation", "layer", "function", "line", "ns", "count").head(3)
    operation   layer      function  line    ns  count
                wait       os.read     40  4290     12
    simulation  simulator  Sim.step     3  1710      6
    simulation  wait       os.read      7  1140      6
    """
    table = run._sites
    table = table.where(
        (table["to"] != "wait") | run.swept.summary_threads[table["thread"]]
    )
    crossing = np.where(table["from"] != table["to"], table["count"], 0)
    by = ("operation", "layer", "function", "file", "line", "caller")
    table = table.with_columns({"layer": table["to"], "transitions": crossing})
    return table.group(by, ["ns", "count", "transitions"]).sort("ns", descending=True)


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

    def only(found: Iterable[int]) -> int:
        distinct = set(found)
        if len(distinct) == 1:
            return distinct.pop()
        return UNKNOWN

    table = run._sites.where(to="wait")
    threads = run.swept.thread_names
    ends = _Ends(run.trace)
    places = {(name.process, name.tid): i for i, name in enumerate(threads)}
    keys = ("process", "thread", "function", "on", "peer")
    processes = []
    partners = []
    among = []
    for process, thread, *wait in zip(
        *(table[key].tolist() for key in keys), strict=True
    ):
        found = ends.partners((process, threads[thread].tid), *wait)
        at = {process for process, _ in found}
        processes.append(only(at))
        partners.append(only(places.get(end, UNKNOWN) for end in found))
        among.append(",".join(map(str, sorted(at))))
    columns = {
        "for_process": np.array(processes, np.int64),
        "for_thread": np.array(partners, np.int64),
        "among": objects(among),
    }
    by = ("process", "thread", "operation", "function", "on", *columns)
    return (
        table.with_columns(columns)
        .group(by, ["ns", "count"])
        .sort("ns", descending=True)
    )


class _Ends:
    """Which processes are known at each end of something that can be waited on."""

    def __init__(self, trace: Trace) -> None:
        self._hosts = [process.host for process in trace.processes]
        self._positions = trace.positions()
        self._feeders: defaultdict[tuple[str, str], set[End]] = defaultdict(set)
        self._readers: defaultdict[tuple[str, str], set[End]] = defaultdict(set)
        for index, process in enumerate(trace.processes):
            for on, tid in process.log.feeds:
                self._feeders[self._key(index, on)].add((index, tid))
            for call in process.log.calls.values():
                for on in _things(call.on) if not _writes(call.fn) else ():
                    self._readers[self._key(index, on)].add((index, 0))

    def _key(self, process: int, on: str) -> tuple[str, str]:
        """Inodes, names and loopback addresses are valid on one machine only."""
        local = ("tcp:127.", "tcp:::1:", "tcp:::ffff:127.")
        everywhere = _is_ray(on) or (on.startswith("tcp:") and not on.startswith(local))
        return ("" if everywhere else self._hosts[process]), on

    def partners(self, waiter: End, function: str, on: str, peer: str) -> set[End]:
        """Who may have ended a wait: those who write there, or read what was written; never the waiting thread."""
        process = waiter[0]
        kind, _, identity = on.partition(":")
        if (
            function == "ray: wait for a task"
        ):  # for those who wait for this worker at other times
            own = [
                key
                for key, ends in self._feeders.items()
                if (process, 0) in ends and _is_ray(key[1])
            ]
            ends = chain.from_iterable(self._readers[key] for key in own)
            return {end for end in ends if end[0] != process}
        if kind == "thread":
            if identity.isdecimal():
                return {(process, int(identity))}
            return set()
        if kind == "pid":
            other = self._positions.get((self._hosts[process], int(identity or 0)))
            if other is None:
                return set()
            return {(other, 0)}
        if _is_ray(on):
            return set().union(*(self._feeders["", each] for each in _things(on)))
        key = self._key(process, peer or on)
        if peer or not _writes(function):
            feeders = self._feeders[key]
        else:
            feeders = set()
        if peer or _writes(function):
            readers = self._readers[key]
        else:
            readers = set()
        return (feeders | readers) - {waiter, (process, 0)}


def _things(on: str) -> list[str]:
    """What was waited on: one object, or several Ray actors."""
    kind, _, names = on.partition(":")
    if kind == "actor":
        return [f"{kind}:{name}" for name in names.split(",")]
    if on:
        return [on]
    return []


def _is_ray(on: str) -> bool:
    return on.startswith(("actor:", "task:"))


def _writes(function: str) -> bool:
    return function.rpartition(".")[2] in (
        "write",
        "send",
        "sendall",
        "sendto",
        "sendmsg",
    )
