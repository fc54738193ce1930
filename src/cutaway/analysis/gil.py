"""Waiting for the interpreter lock: how long inside native calls, and who holds it meanwhile.

A call that gives the lock up while it computes wants it back at its end. If another thread runs Python meanwhile, it waits for that,
up to a switch interval (5 ms). Records cannot distinguish that from computing; sampled stacks can. All threads are sampled in the
same instant: the thread that runs Python while this one waits is the one that holds the lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.run import Run
from cutaway.analysis.stacks import Place, error_of, stack_of, your_place
from cutaway.analysis.table import totals
from cutaway.vocabulary import THREAD_LAYERS, Doing

AT_ONCE = 1_000_000  # ns; samples of one look are not further apart
NATIVE = frozenset(
    number
    for number, layer in enumerate(THREAD_LAYERS)
    if layer not in ("python", "wait")
)


class Sampled(NamedTuple):
    """Nanoseconds by the share of samples, and how many samples were taken of the thread in all."""

    ns: int
    samples: int


def gil_in_calls(run: Run) -> Sampled:
    """For how long the leading thread of the run waited so, by the share of the samples of each cell."""
    swept = run.swept
    rows = run.rows(swept.samples)
    cells = run.rows(swept.cells)
    leads = {
        thread
        for thread, leading in enumerate(swept.summary_threads.tolist())
        if leading and swept.threads["process"][thread] == run.main_process
    }
    names = ("thread", "operation", "layer", "doing", "count")
    sampled = []
    looks = 0
    columns = [rows[name].tolist() for name in names]
    for thread, operation, layer, doing, count in zip(*columns, strict=True):
        if thread in leads:
            looks += count
        if thread in leads and layer in NATIVE and doing != Doing.UNTOLD:
            waits = doing == Doing.AWAITS_GIL
            sampled.append(((operation, layer), waits, count))
    whole = totals((cell, count) for cell, _, count in sampled)
    waited = totals((cell, count) for cell, waits, count in sampled if waits)
    figures = ("thread", "operation", "layer", "ns")
    table = zip(*(cells[name].tolist() for name in figures), strict=True)
    spent = totals(
        ((operation, layer), ns)
        for thread, operation, layer, ns in table
        if thread in leads
    )
    found = sum(
        spent.get(cell, 0) * count // whole[cell] for cell, count in waited.items()
    )
    return Sampled(found, looks)


class Holder(NamedTuple):
    """Where a thread ran Python while the leading one waited for the lock."""

    thread: str
    operation: str
    function: str
    file: str
    line: int
    your_function: str
    your_file: str
    your_line: int
    share: float
    """Of the looks at which the leading thread waited."""
    error: float
    samples: int


class _Looks(NamedTuple):
    """Samples of the threads of one process, in the order of time."""

    times: NDArray[np.int64]
    threads: NDArray[np.int64]
    frames: NDArray[np.int64]
    doing: NDArray[np.int64]

    def of(self, wanted: NDArray[np.bool_]) -> _Looks:
        """Some of them."""
        return _Looks(*(column[wanted] for column in self))


def gil_holders(run: Run) -> list[Holder]:
    """Who holds the lock while the leading thread of the main process waits for it, by line, the longest first. Looks that found
    no thread in Python count for nobody, so the shares may add up to less than one."""
    swept = run.swept
    main = run.main_process
    leads = []
    leading = swept.summary_threads.tolist()
    for known, leads_its_process in zip(swept.thread_names, leading, strict=True):
        ours = known.process == main and known.id is not None
        if ours and leads_its_process:
            leads.append(known.id)
    looks = _looks(run, main)
    is_leading = np.isin(looks.threads, np.array(leads, np.int64))
    waits = looks.times[is_leading & (looks.doing == Doing.AWAITS_GIL)]
    in_python = _in_python(run, main)
    runs = looks.of(~is_leading & (looks.doing == Doing.RUNS))
    places = list(zip(runs.threads.tolist(), runs.frames.tolist(), strict=True))
    runs = runs.of(np.array([place in in_python for place in places], bool))
    found: Counter[tuple[int, int]] = Counter()
    for thread, frame in _holding(waits, runs):
        found[thread, frame] += 1
    return _holders(run, main, found, in_python, len(waits))


def _looks(run: Run, process: int) -> _Looks:
    """What was sampled in this part of the run."""
    blocks = list(run.trace.processes[process].looks())
    if not blocks:
        nothing = np.zeros(0, np.int64)
        return _Looks(nothing, nothing, nothing, nothing)
    first, last = run.edges
    parts = zip(*blocks, strict=True)
    looks = _Looks(*(np.concatenate(part).astype(np.int64) for part in parts))
    looks = looks.of((looks.times >= first) & (looks.times <= last))
    order = np.argsort(looks.times, kind="stable")
    return _Looks(*(column[order] for column in looks))


def _in_python(run: Run, process: int) -> dict[tuple[int, int], str]:
    """Threads and frames that were mostly in Python itself when they ran, and their operation: a native call may run without
    the lock."""
    swept = run.swept
    rows = run.rows(swept.samples)
    names = ("thread", "frame", "operation", "layer", "doing", "count")
    found: dict[tuple[int, int], Counter[tuple[int, int]]] = {}
    for thread, frame, operation, layer, doing, count in zip(
        *(rows[name].tolist() for name in names), strict=True
    ):
        known = swept.thread_names[thread]
        if known.process != process or known.id is None or doing != Doing.RUNS:
            continue
        counts = found.setdefault((known.id, frame), Counter())
        counts[layer, operation] += count
    out = {}
    for place, counts in found.items():
        python: Counter[int] = Counter()
        for (layer, operation), count in counts.items():
            if THREAD_LAYERS[layer] == "python":
                python[operation] += count
        if 2 * python.total() > counts.total():
            longest, _ = python.most_common(1)[0]
            out[place] = swept.names.text(longest)
    return out


def _holding(waits: NDArray[np.int64], runs: _Looks) -> Iterator[tuple[int, int]]:
    """For each look that found the leading thread waiting: who ran Python, if that was one thread alone."""
    since = np.searchsorted(runs.times, waits - AT_ONCE)
    until = np.searchsorted(runs.times, waits + AT_ONCE)
    for first, last in zip(since.tolist(), until.tolist(), strict=True):
        if last == first + 1:
            yield int(runs.threads[first]), int(runs.frames[first])


def _holders(
    run: Run,
    process: int,
    found: Counter[tuple[int, int]],
    operations: dict[tuple[int, int], str],
    looks: int,
) -> list[Holder]:
    log = run.trace.processes[process].log
    nowhere = Place("", "", 0)
    lines: Counter[tuple[str, str, Place, Place]] = Counter()
    for (thread, frame), count in found.items():
        stack = stack_of(log, frame)
        inner = nowhere
        if stack:
            inner = stack[-1]
        yours = your_place(stack) or nowhere
        name = ""
        if thread in log.threads:
            name = log.threads[thread].name
        operation = operations[thread, frame]
        lines[name or f"thread {thread}", operation, inner, yours] += count
    out = []
    for (name, operation, inner, yours), count in lines.most_common():
        share = count / looks
        error = error_of(count, looks)
        out.append(Holder(name, operation, *inner, *yours, share, error, count))
    return out
