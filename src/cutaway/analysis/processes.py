"""Processes and threads of a run."""

from __future__ import annotations

from typing import Any

from cutaway.analysis.table import Table
from cutaway.trace.reader import ProcessTrace, Trace


def processes(trace: Trace) -> Table:
    """One row for each process."""
    names = ("process", "pid", "parent", "name", "role", "start_ns", "exit", "threads", "lost")
    rows = [
        (
            index,
            process.pid,
            process.log.process.get("ppid", 0),
            process.log.process.get("name", ""),
            process.log.process.get("role", ""),
            process.log.process.get("t", 0),
            exit_text(process),
            len(process.threads),
            process.losses.total,
        )
        for index, process in enumerate(trace.processes)
    ]
    return Table.from_rows(names, rows)


def exit_text(process: ProcessTrace) -> str:
    """`0`, `signal 9`, or empty while nothing is known."""
    told: dict[str, Any] = process.log.exit or {}
    if "signal" in told:
        return f"signal {told['signal']}"
    return str(told.get("code", ""))
