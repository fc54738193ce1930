"""How recordings ended before their time: recorders that gave up, and threads that were killed in mid-call."""

from __future__ import annotations

from cutaway.analysis.table import Table
from cutaway.trace.log import Call
from cutaway.trace.reader import Trace

_STOPS = ("process", "t_ns", "why")
_UNFINISHED = ("process", "tid", "thread", "function", "layer", "file", "line", "since_ns", "until_ns")


def stops(trace: Trace) -> Table:
    """Processes whose recorder gave up (disk full, size limit, …); nothing after `t_ns` is in the run."""
    rows = [(i, p.stop.t, p.stop.why) for i, p in enumerate(trace.processes) if p.stop]
    return Table.from_rows(_STOPS, rows)


def unfinished(trace: Trace) -> Table:
    """What threads were in the middle of when their process was killed; `function` is empty outside recorded calls."""
    rows = []
    for index, process in enumerate(trace.processes):
        for thread, open in process.unfinished.items():
            info, call = process.log.threads.get(thread), process.log.calls.get(open.call, Call())
            tid, name = (info.tid, info.name) if info else (0, "")
            place = (call.fn, call.layer, call.file, call.line)
            rows.append((index, tid, name, *place, open.since, open.until))
    return Table.from_rows(_UNFINISHED, rows)
