"""The tables of a run: `cutaway show --by …`, and the short ones of its summary."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cutaway.analysis.hardware import SHARES

from . import device_memory, rows, text
from .columns import (
    Column,
    Rows,
    as_grid,
    figure,
    function,
    function_and_file,
    layer,
    name,
    per_hour,
    place,
    process,
    rate,
    share,
    signed,
    size,
    time,
    words,
)
from .digest import Digest
from .lines import BELOW_A_LINE
from .printer import Printer

if TYPE_CHECKING:
    from cutaway.analysis import Run

MOST_ROWS = 40
HINTS = {
    "memory": " Record with --memory.",
    "rollout": " Report it with cutaway.gauge(), or use a framework that Cutaway knows.",
}
"""What to do if there is nothing to show."""
WITHOUT_LINES = ("wait", "rollout", "process", "operation", "layer")
"""Views that say what limits a run, but not at which line: a reader is sent on."""
MOST_CALLS = 5  # below a line
MOST_BELOW = 10  # lines below a table of waits or lines


class TableView(NamedTuple):
    """What a table is about, where its rows come from, and its columns."""

    about: str
    rows: Callable[[Run, Digest], Rows]
    columns: tuple[Column, ...]


IN = name("operation", "in", 15)
SHARE = share("share", "share")
TIME = time("ns", "time")
COUNT = figure("count", "calls")
INSIDE = (
    function("inside", "mostly", 18, "itself"),
    IN,
    SHARE,
    share("error", "±"),
    figure("samples", "samples"),
)
PROCESS = (
    figure("pid", "pid"),
    words("role", "role", 12),
    time("life_ns", "alive"),
    share("cpu_share", "CPU"),
    share("wait_share", "waits"),
)
ENDED = words("exit", "ended", 20)
VIEWS: dict[str, TableView] = {
    "process": TableView("processes of the run", rows.all_processes, (
        process("name", "process", 14), *PROCESS, figure("events", "events"), figure("lost", "lost"), ENDED,
    )),
    "operation": TableView("operations of the main process", rows.operation_rows, (
        name("operation", "operation", 20), SHARE, COUNT, time("self_ns", "self"), time("mean_ns", "mean"),
        time("p50_ns", "median"), time("p95_ns", "95 %"),
    )),
    "why": TableView("who named the time of the main process (see docs/naming.md)", rows.reason_rows, (
        name("operation", "operation", 18), SHARE, TIME, name("why", "why", 44),
    )),
    "layer": TableView("layers of the main process", rows.layer_rows, (
        name("layer", "layer", 26), name("resource", "resource", 8), SHARE, TIME, time("per_unit_ns", "each"),
    )),
    "line": TableView("lines of the main process by time; a library's in (…)", partial(rows.place_rows, "line"), (
        place("file", "line", most=24), *INSIDE,
    )),
    "function": TableView("functions of the main process by time; a library's in (…)", partial(rows.place_rows, "function"), (
        function_and_file("function", 28), *INSIDE,
    )),
    "callsite": TableView("call sites of all processes by time", rows.all_callsites, (
        function("function", "function", 18), place("file", "called from"), IN, TIME, COUNT,
    )),
    "kernel": TableView("device work of all processes by time", rows.kernel_rows, (
        name("name", "name", 26), name("operation", "launched in", 13), TIME, COUNT, share("occupancy", "occ."),
        time("launch_ns", "latency"), figure("queue", "queue", text.number),
    )),
    "counter": TableView("hardware counters by kernel; shares of peak, see docs/counters.md", rows.counter_rows, (
        name("kernel", "kernel", 22), name("operation", "launched in", 12), COUNT,
        *(share(measure, about.head) for measure, about in SHARES.items() if about.head),
        figure("tflops", "TFLOP/s", rate), figure("gbs", "GB/s", rate),
    )),
    "transition": TableView("transitions of the main process by count", rows.transition_rows, (
        name("operation", "operation", 15), layer("from"), layer("to"), function("function", "function", 15),
        place("file", "called from", most=17), figure("per_unit", "each", text.number),
    )),
    "memory": TableView("memory of all processes by the line that keeps it; a library's in (…)", rows.memory_rows, (
        place("file", "allocated at", most=26), IN, process("name", "process", 12), name("what", "kind", 6),
        size("bytes", "keeps"), size("error_bytes", "±"), per_hour("per hour"),
    )),
    "device-memory": TableView("memory of devices by who allocated it; a library's in (…)", rows.device_memory_rows, (
        place("file", "allocated at", most=24), name("operation", "during", 15), words("on", "on", 5), size("held", "at peak"),
        size("peak", "peak"), size("reserved", "reserved"), size("unused", "unused"), figure("kept", "kept", signed),
    )),
    "wait": TableView("waits of all processes by time", rows.wait_rows, (
        process("process", "process", 17), process("for", "waits for", 17), name("on", "on", 14), IN, TIME, COUNT,
    )),
    "rollout": TableView("iterations of a language model, the longest first", rows.rollout_rows, (
        figure("iteration", "iteration"), time("ns", "took"), figure("tokens", "tokens"), figure("rate", "a second", text.number),
        figure("peak", "most", text.number), figure("mean", "mean", text.number), share("tail_share", "tail"),
        figure("waiting", "wait", text.number), figure("queue", "queue", text.number), figure("staleness", "age", text.number),
        figure("trained", "used", text.number), figure("discarded", "dropped", text.number),
    )),
}  # fmt: skip
BRIEF = {
    "process": (process("name", "process", 18), *PROCESS, words("mostly", "mostly", 15), ENDED),
    "callsite": (
        function("function", "call site", 18), place("near_file", "called from", line="near_line"),
        name("operation", "operation", 15), TIME, COUNT,
    ),
}  # fmt: skip
"""Columns of the tables in the summary."""


def print_view(
    p: Printer, run: Run, digest: Digest, by: str, calls: bool = False
) -> None:
    """Print a view as a table; with `calls`, what each line or function spends its time on below it."""
    view = VIEWS[by]
    found = view.rows(run, digest)
    if not found:
        p.print(p.text(_nothing(view, digest, by)))
        return
    shown = found[:MOST_ROWS]
    if calls:
        shown = _with_calls(shown)
    p.print(
        p.text(f"{digest.program.name}: {view.about}", "bold"),
        as_grid(p, view.columns, shown),
    )
    left = len(found) - MOST_ROWS
    if left > 0:
        command = f"cutaway show {digest.program.path} --by {by} --json"
        p.print(p.line(f"… {left} more: {command}", "dim"))
    if by in WITHOUT_LINES:
        awaited = rows.awaited_lines(run, digest)
    else:
        awaited = []
    if by == "wait":
        about = "what the processes that it waits for do meanwhile, by line"
        _print_below(p, digest, about, awaited)
    if by in ("wait", "line"):
        about = "what holds the GIL while it waits for that, by line"
        _print_below(p, digest, about, rows.holder_lines(digest))
    if by in WITHOUT_LINES:
        if by == "process" and awaited:
            then = "wait"
        else:
            then = "line"
        command = f"cutaway show {digest.program.path} --by {then}"
        p.print("", p.line(f"why:  {command}", "dim"))
    if by == "device-memory":
        p.print("", *map(p.text, device_memory.sentences(run)))


def _nothing(view: TableView, digest: Digest, by: str) -> str:
    what = view.about.split(" of ")[0]
    return f"No {what} recorded in {digest.program.path}.{HINTS.get(by, '')}"


def _with_calls(found: Rows) -> Rows:
    """Each line, and below it what it spends its time on."""
    out: Rows = []
    for row in found:
        out.append({**row, "inside": "all of it"})
        for call in row["calls"][:MOST_CALLS]:
            out.append({**row, **call, **BELOW_A_LINE})
    return out


def _print_below(p: Printer, digest: Digest, about: str, lines: Rows) -> None:
    """What those do meanwhile that the main thread waits for."""
    if not lines:
        return
    heading = p.text(f"{digest.program.name}: {about}", "bold")
    p.print("", heading, as_grid(p, VIEWS["line"].columns, lines[:MOST_BELOW]))
