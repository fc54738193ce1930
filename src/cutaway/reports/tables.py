"""The tables of a run: `cutaway show --by …`, the short ones of its summary, and their rows for the page and for JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table as Grid
from rich.text import Text

from cutaway.analysis.table import totals

from . import text
from .digest import Digest, Group, Process, outline, workforce
from .lines import BELOW_A_LINE, ranked
from .printer import Printer, grid
from .text import clip

if TYPE_CHECKING:
    from cutaway.analysis import Run, Table

MOST_ROWS = 40
MOST_CALLS = 5  # below a line
SLEEPS = ("time.sleep",)
MOST_BELOW = 10  # lines below a table of waits
WAITED = 0.1  # of its time: for whom it waits so long, their lines are worth a look
LEAST_NAME = 6  # places of a name in a narrow terminal
Rows = list[dict[str, Any]]


class Column(NamedTuple):
    """A column: its title, and what stands in a row."""

    title: str
    text: Callable[[dict[str, Any]], str]
    right: bool = False
    cut: Callable[[str, int], str] = (
        clip  # how a name gets shorter in a narrow terminal
    )
    place: tuple[str, str] = ("", "")  # the keys of the file and line it leads to


class TableView(NamedTuple):
    """What a table is about, where its rows come from, and its columns."""

    about: str
    rows: Callable[[Run, Digest], Rows]
    columns: tuple[Column, ...]


def _figure(key: str, title: str, show: Callable[[Any], str] = str) -> Column:
    """A column of numbers; one that is not known is a dash."""
    return Column(
        title, lambda row: "–" if row[key] is None else show(row[key]), right=True
    )


def _text(
    key: str,
    title: str,
    most: int,
    otherwise: str = "–",
    cut: Callable[[str, int], str] = text.clip,
) -> Column:
    """A column of names; `cut` keeps the part of a long one that says most."""
    return Column(
        title, lambda row: cut(text.clean(str(row[key])) or otherwise, most), cut=cut
    )


_time = partial(_figure, show=text.duration)
_share = partial(_figure, show=text.percent)
_name = partial(_text, otherwise=text.NONE)
_function = partial(_text, cut=text.shorten)
_process = partial(_text, otherwise=text.NONE, cut=text.middle)


_size = partial(_figure, show=text.size)


def _per_hour(title: str) -> Column:
    """A column of growth; a dash where it may be chance."""

    def show(row: dict[str, Any]) -> str:
        return f"+{text.size(row['per_hour'])}" if row["low_per_s"] > 0 else "–"

    return Column(title, show, right=True)


def _place(file: str, title: str, most: int = 24, line: str = "line") -> Column:
    """A column of lines of code: the end of the path, which says most."""

    def show(row: dict[str, Any]) -> str:
        at = text.place(row[file], row[line]) or row.get("where", "–")
        if row.get("library"):
            return f"({text.shorten(at, most - 2)})"
        return text.shorten(at, most)

    return Column(title, show, cut=text.shorten, place=(file, line))


def _function_and_file(title: str, most: int) -> Column:
    """A column of functions, a library's in brackets: two of one name differ in their file."""

    def show(row: dict[str, Any]) -> str:
        name = text.shorten(text.clean(row["function"]) or row["where"], most - 2)
        file = text.clean(row["file"].rpartition("/")[2])
        name = f"{name} {file}" if len(name) + len(file) < most - 2 else name
        if row["library"]:
            return f"({name})"
        return name

    return Column(title, show, cut=text.shorten)


def _layer(key: str) -> Column:
    return Column(key, lambda row: text.layer(text.clean(str(row[key]))))


_DERIVED = ("life_ns", "cpu_share", "wait_share", "mostly")


def process_rows(digest: Digest) -> Rows:
    """All processes, in order of their start."""
    return [{**asdict(one), **_fields(one, _DERIVED)} for one in digest.processes]


def brief_rows(digest: Digest) -> Rows:
    """The processes of a small run; its helpers are one row."""
    processes, helpers = workforce(digest.processes)
    shown: list[Process | Group] = [
        *processes,
        *([Group.of(helpers)] if helpers else []),
    ]
    keys = ("name", "pid", "role", "exit", *_DERIVED)
    return [_fields(one, keys) for one in shown]


def group_rows(digest: Digest) -> Rows:
    """The processes of a large run by host and role, the odd ones out by name below their group."""
    keys = ("name", "pid", "role", "exit", *_DERIVED)
    rows = []
    several = len({p.host for p in digest.processes}) > 1
    for shown in outline(digest.processes):
        row = {key: getattr(shown, key) for key in keys}
        rows.append(row | ({"role": f"{shown.role} @{shown.host}"} if several else {}))
    return rows


def _operations(run: Run, digest: Digest) -> Rows:
    own = digest.operations()
    rows = _main(run.operations(), digest)
    rows.sort(key=lambda row: -own.get(row["operation"], 0))
    return [
        {**row, "share": _of_total(digest, own.get(row["operation"], 0))}
        for row in rows
    ]


def _reasons(run: Run, digest: Digest) -> Rows:
    table = run.breakdown(by=("process", "operation", "why")).sort(
        "ns", descending=True
    )
    rows = _main(table, digest, "operation", "why", "ns")
    total = max(1, sum(row["ns"] for row in rows))
    return [{**row, "share": row["ns"] / total} for row in rows]


def _layers(run: Run, digest: Digest) -> Rows:
    found = totals(((c.layer, c.resource), c.ns) for c in digest.cells)
    return [
        {"layer": layer, "resource": resource, "share": _of_total(digest, ns), "ns": ns, "per_unit_ns": ns / digest.units}
        for (layer, resource), ns in sorted(found.items(), key=lambda kv: -kv[1])
    ]  # fmt: skip


def callsite_rows(digest: Digest) -> Rows:
    """Call sites, the longest first; `near` is your line where one is known, else the library's."""
    rows = [asdict(spot) for spot in digest.callsites]
    for row in rows:
        near = "your_" if row["your_file"] else ""
        row |= {"near_file": row[f"{near}file"], "near_line": row[f"{near}line"]}
    return rows


def _kernels(run: Run, digest: Digest) -> Rows:
    """By name, kind and launching operation; means over all launches of which the value is known."""
    by = ("name", "kind", "operation")
    rows = []
    groups: defaultdict[tuple[str, ...], Rows] = defaultdict(list)
    for row in run.kernels():
        groups[tuple(row[key] for key in by)].append(row)
    for names, parts in groups.items():
        found: dict[str, Any] = dict(zip(by, names, strict=True))
        for key in ("ns", "count"):
            found[key] = sum(part[key] for part in parts)
        for key in ("occupancy", "launch_ns", "queue"):
            known = [
                (part[key], part["count"]) for part in parts if part[key] == part[key]
            ]
            count = sum(n for _, n in known)
            found[key] = sum(value * n for value, n in known) / count if count else None
        for key in ("grid", "block", "stream"):
            found[key] = sorted({part[key] for part in parts})
        rows.append(found)
    return sorted(rows, key=lambda row: -int(row["ns"]))


def _counters(run: Run, digest: Digest) -> Rows:
    """Hardware counters; what no counter tells is None."""
    rows = list(run.counters())
    for row in rows:
        unknown = [key for key, value in row.items() if value != value]
        row.update(dict.fromkeys(unknown))
    return rows


def _rate(value: float) -> str:
    """Three digits are enough, from 0.019 to 715."""
    return f"{value:.3g}"


def _places(by: str, run: Run, digest: Digest) -> Rows:
    """Lines or functions, each once, with what they spend their time on in `calls`."""
    return ranked(_main(run.lines(by), digest), digest.total_ns)


def awaited_lines(run: Run, digest: Digest) -> Rows:
    """Where the processes that the main process waits for spend their time, without their own waits; shares are of that
    time. Empty if it hardly waits for others."""
    own = [wait for wait in digest.waits if wait.process == digest.main_process]
    others = set(chain.from_iterable(wait.among for wait in own))
    others.discard(digest.main_process)
    waited = sum(wait.ns for wait in own if others.intersection(wait.among))
    if waited < WAITED * digest.total_ns or not others:
        return []
    parts = [part for part in run.lines("line") if part["process"] in others]
    # Who waits for its next task is idle; who sleeps makes others wait.
    parts = [p for p in parts if p["layer"] != "wait" or p["native"] in SLEEPS]
    return ranked(parts, sum(part["ns"] for part in parts))


def _transitions(run: Run, digest: Digest) -> Rows:
    rows = _main(
        run.transitions(),
        digest,
        "operation",
        "from",
        "to",
        "function",
        "file",
        "line",
        "count",
    )
    return [{**row, "per_unit": row["count"] / digest.units} for row in rows]


def _waits(run: Run, digest: Digest) -> Rows:
    """Who waits for whom on what; a pipe is a pipe, whatever number the system gave it."""
    found: dict[tuple[str, ...], list[int]] = {}
    for wait in digest.waits:
        who = digest.processes[wait.process].name
        whom = wait.partner or "unknown"
        sums = found.setdefault((who, whom, _thing(wait.on), wait.operation), [0, 0])
        sums[0] += wait.ns
        sums[1] += wait.count
    keys = ("process", "for", "on", "operation", "ns", "count")
    rows = [
        dict(zip(keys, (*names, *sums), strict=True)) for names, sums in found.items()
    ]
    return sorted(rows, key=lambda row: -int(row["ns"]))


_THINGS = {"": "unknown", "sem": "semaphore", "pid": "its end", "thread": "lock"}


def _thing(on: str) -> str:
    """What was waited on, without numbers that mean something to the system only.

    >>> _thing("socket:21733"), _thing("sem:/mp-x"), _thing("tcp:10.0.0.1:22>10.0.0.2:80"), _thing("actor:Sampler")
    ('socket', 'semaphore', 'tcp 10.0.0.2:80', 'actor:Sampler')
    """
    kind, _, identity = on.partition(":")
    if kind == "tcp":
        return f"tcp {identity.partition('>')[2]}".strip()
    if kind in ("actor", "task"):
        return on
    return _THINGS.get(kind, kind)


def _memory(run: Run, digest: Digest) -> Rows:
    """What lines keep at the end, in all processes; memory that no line of yours asked for has the library's line."""
    rows = []
    for row in run.memory():
        near = "your_" if row["your_file"] else ""
        place = {key: row[near + key] for key in ("function", "file", "line")}
        name = digest.processes[row["process"]].name
        own = {"name": name, "library": not near, **place}
        rows.append({**row, **own, "per_hour": row["per_s"] * 3600})
    keys = ("process", "operation", "what", "function", "file", "line")
    sums = ("bytes", "blocks", "grown", "per_hour", "low_per_s")
    return _joined(rows, keys, sums)


def _joined(rows: Rows, keys: Sequence[str], sums: Sequence[str]) -> Rows:
    """Rows that differ in nothing but what they sum up, as one; errors add like those of independent counts."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        one = found.setdefault(
            key, {**row, **dict.fromkeys(sums, 0), "error_bytes": 0.0}
        )
        for name in sums:
            one[name] += row[name]
        one["error_bytes"] = (one["error_bytes"] ** 2 + row["error_bytes"] ** 2) ** 0.5
    return sorted(found.values(), key=lambda row: -int(row["bytes"]))


def _main(table: Table, digest: Digest, *columns: str) -> Rows:
    """The rows about the main process."""
    return list(
        table.where(process=digest.main_process).select(*(columns or table.columns))
    )


def _of_total(digest: Digest, ns: float) -> float:
    return ns / max(1, digest.total_ns)


IN = _name("operation", "in", 15)
SHARE = _share("share", "share")
TIME = _time("ns", "time")
COUNT = _figure("count", "calls")
INSIDE = (
    _function("inside", "mostly", 18, "itself"),
    IN,
    SHARE,
    _share("error", "±"),
    _figure("samples", "samples"),
)
PROCESS = (
    _figure("pid", "pid"),
    _text("role", "role", 12),
    _time("life_ns", "alive"),
    _share("cpu_share", "CPU"),
    _share("wait_share", "waits"),
)
ENDED = _text("exit", "ended", 20)
VIEWS: dict[str, TableView] = {
    "process": TableView("processes of the run", lambda run, digest: process_rows(digest), (
        _process("name", "process", 14), *PROCESS, _figure("events", "events"), _figure("lost", "lost"), ENDED,
    )),
    "operation": TableView("operations of the main process", _operations, (
        _name("operation", "operation", 20), SHARE, COUNT, _time("self_ns", "self"), _time("mean_ns", "mean"),
        _time("p50_ns", "median"), _time("p95_ns", "95 %"),
    )),
    "why": TableView("who named the time of the main process (see docs/naming.md)", _reasons, (
        _name("operation", "operation", 18), SHARE, TIME, _name("why", "why", 44),
    )),
    "layer": TableView("layers of the main process", _layers, (
        _name("layer", "layer", 26), _name("resource", "resource", 8), SHARE, TIME, _time("per_unit_ns", "each"),
    )),
    "line": TableView("lines of the main process by time; a library's in (…)", partial(_places, "line"), (
        _place("file", "line", most=24), *INSIDE,
    )),
    "function": TableView("functions of the main process by time; a library's in (…)", partial(_places, "function"), (
        _function_and_file("function", 28), *INSIDE,
    )),
    "callsite": TableView("call sites of all processes by time", lambda run, digest: callsite_rows(digest), (
        _function("function", "function", 18), _place("file", "called from"), IN, TIME, COUNT,
    )),
    "kernel": TableView("device work of all processes by time", _kernels, (
        _name("name", "name", 26), _name("operation", "launched in", 13), TIME, COUNT, _share("occupancy", "occ."),
        _time("launch_ns", "latency"), _figure("queue", "queue", text.number),
    )),
    "counter": TableView("hardware counters by kernel; shares of peak, see docs/counters.md", _counters, (
        _name("kernel", "kernel", 22), _name("operation", "launched in", 12), COUNT, _share("sm_active", "SM"),
        _share("occupancy", "occ."), _share("compute", "comp."), _share("tensor", "tens."), _share("dram", "DRAM"),
        _share("l2_hit", "L2"), _figure("tflops", "TFLOP/s", _rate), _figure("gbs", "GB/s", _rate),
    )),
    "transition": TableView("transitions of the main process by count", _transitions, (
        _name("operation", "operation", 15), _layer("from"), _layer("to"), _function("function", "function", 15),
        _place("file", "called from", most=17), _figure("per_unit", "each", text.number),
    )),
    "memory": TableView("memory of all processes by the line that keeps it; a library's in (…)", _memory, (
        _place("file", "allocated at", most=26), IN, _process("name", "process", 12), _name("what", "kind", 6),
        _size("bytes", "keeps"), _size("error_bytes", "±"), _per_hour("per hour"),
    )),
    "wait": TableView("waits of all processes by time", _waits, (
        _process("process", "process", 17), _process("for", "waits for", 17), _name("on", "on", 14), IN, TIME, COUNT,
    )),
}  # fmt: skip
BRIEF = {
    "process": (_process("name", "process", 18), *PROCESS, _text("mostly", "mostly", 15), ENDED),
    "callsite": (
        _function("function", "call site", 18), _place("near_file", "called from", line="near_line"),
        _name("operation", "operation", 15), TIME, COUNT,
    ),
}  # fmt: skip
"""Columns of the tables in the summary."""


def as_grid(p: Printer, columns: tuple[Column, ...], rows: Rows) -> Grid:
    """Rows for the terminal. Where it is narrow, names become shorter; numbers stay whole."""
    cells = [_texts(row, columns) for row in rows]
    widths = [len(p.text(column.title)) for column in columns]
    for row in cells:
        widths = [
            max(width, len(p.text(cell)))
            for width, cell in zip(widths, row, strict=True)
        ]
    _narrow(widths, columns, p.console.width)
    titles = [column.title for column in columns]
    table = grid(
        p, titles, left=[c.title for c in columns if not c.right], widths=widths
    )
    for row, of in zip(cells, rows, strict=True):
        fitted = [_fitting(p, *each) for each in zip(row, columns, widths, strict=True)]
        for shown, column in zip(fitted, columns, strict=True):
            file, line = column.place
            if file and of[file]:
                p.link(shown, of[file], of[line])
        table.add_row(*fitted)
    return table


def _narrow(widths: list[int], columns: tuple[Column, ...], room: int) -> None:
    """Take from the widest column of names until the table fits."""
    while sum(widths) + len(widths) - 1 > room:
        names = [
            i
            for i, c in enumerate(columns)
            if not c.right and widths[i] > max(LEAST_NAME, len(c.title))
        ]
        if not names:
            return
        widths[max(names, key=lambda i: widths[i])] -= 1


def _fitting(p: Printer, cell: str, column: Column, width: int) -> Text:
    """A cell; one that is too long loses what says least. An ellipsis takes three places in ASCII."""
    shown = p.text(cell)
    most = width
    while len(shown) > width and most > 1:
        shown = p.text(column.cut(cell, most))
        most -= 1
    return shown


def _with_calls(rows: Rows) -> Rows:
    """Each line, and below it what it spends its time on."""
    out: Rows = []
    for row in rows:
        out.append({**row, "inside": "all of it"})
        for call in row["calls"][:MOST_CALLS]:
            out.append({**row, **call, **BELOW_A_LINE})
    return out


def print_view(
    p: Printer, run: Run, digest: Digest, by: str, calls: bool = False
) -> None:
    """Print a view as a table; with `calls`, what each line or function spends its time on below it."""
    view = VIEWS[by]
    rows = view.rows(run, digest)
    if not rows:
        hint = " Record with --memory." if by == "memory" else ""
        what = view.about.split(" of ")[0]
        p.print(p.text(f"No {what} recorded in {digest.path}.{hint}"))
        return
    p.print(
        p.text(f"{digest.program}: {view.about}", "bold"),
        as_grid(
            p,
            view.columns,
            _with_calls(rows[:MOST_ROWS]) if calls else rows[:MOST_ROWS],
        ),
    )
    if len(rows) > MOST_ROWS:
        p.print(
            p.line(
                f"… {len(rows) - MOST_ROWS} more: cutaway show {digest.path} --by {by} --json",
                "dim",
            )
        )
    below = awaited_lines(run, digest) if by == "wait" else []
    if below:
        title = "what those that the main process waits for do meanwhile, by line"
        shown = as_grid(p, VIEWS["line"].columns, below[:MOST_BELOW])
        p.print("", p.text(f"{digest.program}: {title}", "bold"), shown)


def _fields(one: object, keys: Iterable[str]) -> dict[str, Any]:
    return {key: getattr(one, key) for key in keys}


def _texts(row: dict[str, Any], columns: Iterable[Column]) -> list[str]:
    return [column.text(row) for column in columns]
