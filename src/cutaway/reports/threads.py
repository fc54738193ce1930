"""The threads that work beside the one a process is summarised by. Their times are never added to its own."""

from __future__ import annotations

from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.stacks import error_of
from cutaway.analysis.table import totals
from cutaway.vocabulary import GIL

from .digest import Digest, Thread, largest
from .text import percent, place, plural

WORKS = 0.05  # a thread that is busy for less of the time is a helper
HOLDS = 0.5  # of the looks at which the leading thread waited for the GIL
FEW_LOOKS = 5


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


def waits_for_gil(digest: Digest) -> int:
    """For how many nanoseconds the leading thread waits for the interpreter lock."""
    own = [wait for wait in digest.waits if wait.process == digest.main_process]
    in_python = sum(wait.ns for wait in own if wait.on.startswith(f"{GIL}:"))
    return in_python + digest.spent.gil_in_calls_ns


def gil_error(digest: Digest, total: int) -> float:
    """Half of the 95 % interval of the share that waits for it: most such waits are known by samples."""
    samples = digest.spent.samples
    return error_of(round(waits_for_gil(digest) / total * samples), samples)


def gil_holder(digest: Digest) -> tuple[str, str]:
    """The thread that holds the lock most of that time, and the line at which it mostly does; empty if no thread stands out."""
    rows = digest.spent.gil_holders
    seen = totals((row["thread"], row["samples"]) for row in rows)
    shares = totals((row["thread"], row["share"]) for row in rows)
    thread = largest(shares)
    if not thread or shares[thread] < HOLDS or seen[thread] < FEW_LOOKS:
        return "", ""
    near = [_near(row) for row in rows if row["thread"] == thread]
    lines = totals(near)
    return thread, largest(lines)


def _near(row: dict[str, Any]) -> tuple[str, float]:
    """Your line where there is one, else the library's, and its share."""
    whose = "your_" if row["your_file"] else ""
    return place(row[f"{whose}file"], row[f"{whose}line"]), row["share"]
