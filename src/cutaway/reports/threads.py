"""The threads that work beside the one a process is summarised by. Their times are never added to its own."""

from __future__ import annotations

from cutaway.analysis import Run
from cutaway.analysis.table import totals

from .digest import Thread, largest
from .text import percent, plural

WORKS = 0.05  # a thread that is busy for less of the time is a helper


def working_threads(steady: Run, process: int, steady_ns: int) -> tuple[Thread, ...]:
    """The threads of a process that work, the leading one first."""
    names = steady.threads()["name"]
    leads = steady.swept.summary_threads
    cells = steady.breakdown(by=("process", "thread", "operation", "layer")).where(
        process=process
    )
    busy = [
        (row["thread"], row["operation"], row["ns"])
        for row in cells
        if row["layer"] != "wait"
    ]
    found = []
    for thread, ns in totals((thread, ns) for thread, _, ns in busy).items():
        share = ns / max(1, steady_ns)
        named = totals(
            (operation, ns) for at, operation, ns in busy if at == thread and operation
        )
        if leads[thread] or share >= WORKS:
            found.append(
                (
                    not leads[thread],
                    Thread(str(names[thread]), min(1.0, share), largest(named)),
                )
            )
    found.sort(key=lambda one: (one[0], -one[1].busy))
    return tuple(thread for _, thread in found)


def beside(threads: tuple[Thread, ...]) -> str:
    """A sentence that names the threads a table leaves out; empty if there is only one thread.

    >>> beside((Thread("learner", 0.9, "backpropagation"), Thread("batcher", 0.3, "replay")))
    '2 threads work. This is learner; beside it: batcher (30 % busy, mostly replay).'
    """
    if len(threads) < 2:
        return ""
    leading, *others = threads
    listed = ", ".join(f"{other.name} ({_does(other)})" for other in others)
    return f"{plural(len(threads), 'thread')} work. This is {leading.name}; beside it: {listed}."


def _does(thread: Thread) -> str:
    mostly = f", mostly {thread.mostly}" if thread.mostly else ""
    return f"{percent(thread.busy)} busy{mostly}"
