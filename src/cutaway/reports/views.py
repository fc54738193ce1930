"""The tables of `cutaway show --by …`, as columns and rows; printed or written as JSON by the same functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from . import words
from .model import Digest
from .phrases import percent
from .printer import Printer, grid

if TYPE_CHECKING:
    from cutaway.analysis import Run

MOST_ROWS = 40
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Column:
    """A column of a view: its key in the rows, its title and how a value is shown."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    right: bool = True

    def text(self, row: dict[str, Any]) -> str:
        """What stands in a row."""
        return self.show(row[self.key])


@dataclass(frozen=True)
class Place(Column):
    """A line of code, from the column's own key (the file) and the key `line`."""

    most: int = 24
    line: str = "line"

    def text(self, row: dict[str, Any]) -> str:
        """The end of the path, which tells most."""
        return words.shorten(words.place(row[self.key], row[self.line]) or "–", self.most)


@dataclass(frozen=True)
class ViewTable:
    """A view: what it is about, its columns, and where its rows come from."""

    about: str
    columns: tuple[Column, ...]
    rows: Callable[[Run, Digest], Rows]


def left(key: str, title: str, most: int = 26) -> Column:
    """A column of names."""
    return Column(key, title, lambda v: words.clip(words.operation(str(v)), most), right=False)


def function(most: int) -> Column:
    """A column of functions, whose last part tells most."""
    return Column("function", "function", lambda v: words.shorten(words.clean(str(v)), most), right=False)


def _inside(most: int) -> Column:
    """What a line of yours spends its time in: a native call, a function of a library, or nothing but itself."""
    return Column(
        "inside", "inside", lambda v: words.shorten(words.clean(str(v)) or "itself", most), right=False
    )


def layer(key: str) -> Column:
    """A column of layers."""
    return Column(key, key, lambda v: words.SHORT_LAYER.get(str(v), words.clean(str(v))), right=False)


def _role(role: str) -> str:
    return words.clip(role or "–", 12)


def _known(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """A value that may be unknown."""
    return lambda value: "–" if value is None else show(value)


def _metered(ns: int) -> str:
    return words.duration(ns) if ns else "–"


def _share(digest: Digest, ns: float) -> float:
    return ns / max(1, digest.total_ns)


def _processes(run: Run, digest: Digest) -> Rows:
    return [
        {
            "process": p.name, "pid": p.pid, "role": p.role, "alive_ns": p.life_ns, "cpu_ns": p.cpu_ns,
            "wait_share": p.wait_share, "events": p.events, "lost": p.lost, "exit": p.exit,
        }
        for p in digest.processes
    ]  # fmt: skip


def _operations(run: Run, digest: Digest) -> Rows:
    rows = [r for r in run.operations() if r["process"] == digest.main.id]
    own = digest.operations()
    return [
        {
            "share": _share(digest, own.get(r["operation"], 0)),
            **{k: v for k, v in r.items() if k != "process"},
        }
        for r in sorted(rows, key=lambda r: -own.get(r["operation"], 0))
    ]


def _reasons(run: Run, digest: Digest) -> Rows:
    table = run.breakdown(by=("process", "operation", "why"))
    rows = [r for r in table if r["process"] == digest.main.id]
    total = max(1, sum(r["ns"] for r in rows))
    return [
        {"operation": r["operation"], "why": r["why"], "share": r["ns"] / total, "ns": r["ns"]}
        for r in sorted(rows, key=lambda r: -r["ns"])
    ]


def _layers(run: Run, digest: Digest) -> Rows:
    total: dict[tuple[str, str], int] = {}
    for cell in digest.cells:
        key = cell.layer, cell.resource
        total[key] = total.get(key, 0) + cell.ns
    each = digest.units or 1
    return [
        {
            "layer": layer,
            "resource": resource,
            "share": _share(digest, ns),
            "ns": ns,
            "per_unit_ns": ns / each,
        }
        for (layer, resource), ns in sorted(total.items(), key=lambda kv: -kv[1])
    ]


def _callsites(run: Run, digest: Digest) -> Rows:
    return [
        {
            "function": h.function, "file": h.file,
            "line": h.line, "operation": h.operation,
            "layer": h.layer, "ns": h.ns, "count": h.count, "transitions": h.transitions,
            "your_file": h.your_file, "your_line": h.your_line,
        }
        for h in digest.hotspots
    ]  # fmt: skip


def _kernels(run: Run, digest: Digest) -> Rows:
    """By name, kind and launching operation; means over all launches of which the value is known."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in run.kernels():
        groups.setdefault((row["name"], row["kind"], row["operation"]), []).append(row)
    rows = []
    for (name, kind, operation), parts in groups.items():
        shapes = {key: sorted({part[key] for part in parts}) for key in ("grid", "block", "stream")}
        sums = {key: sum(part[key] for part in parts) for key in ("ns", "count")}
        means = {key: _mean(parts, key) for key in ("occupancy", "launch_ns", "queue")}
        rows.append({"name": name, "kind": kind, "operation": operation, **sums, **means, **shapes})
    return sorted(rows, key=lambda row: -int(row["ns"]))


def _lines(run: Run, digest: Digest) -> Rows:
    return _python_places(run, digest, "line")


def _functions(run: Run, digest: Digest) -> Rows:
    return _python_places(run, digest, "function")


def _python_places(run: Run, digest: Digest, by: str) -> Rows:
    """Your own line or function first, then where inside it or below it the time goes."""
    rows = []
    for r in run.lines(by):
        if r["process"] != digest.main.id:
            continue
        r["share"] = _share(digest, r["ns"])
        r["error"] = r["error_ns"] / max(1, digest.total_ns)
        if not r["your_file"]:  # no sample says which line of yours led there
            r |= {f"your_{key}": r[key] for key in ("function", "file", "line")}
        r["inside"] = r["native"] or ("" if r["function"] == r["your_function"] else r["function"])
        rows.append(r)
    return rows


def _mean(parts: list[dict[str, Any]], key: str) -> float | None:
    known = [(part[key], part["count"]) for part in parts if part[key] == part[key]]
    count = sum(n for _, n in known)
    return sum(value * n for value, n in known) / count if count else None


def _transitions(run: Run, digest: Digest) -> Rows:
    rows = [r for r in run.transitions() if r["process"] == digest.main.id]
    each = digest.units or 1
    return [
        {
            "operation": r["operation"], "from": r["from"], "to": r["to"], "function": r["function"],
            "file": r["file"],
            "line": r["line"], "count": r["count"], "per_unit": r["count"] / each,
        }
        for r in sorted(rows, key=lambda r: -r["count"])
    ]  # fmt: skip


def _waits(run: Run, digest: Digest) -> Rows:
    rows = []
    for wait in sorted(digest.waits, key=lambda w: -w.ns):
        process = digest.process(wait.process)
        name = process.name if process else ""
        rows.append(
            {"process": name, "for": wait.partner or "unknown", "on": wait.on or "unknown", "operation": wait.operation,
             "ns": wait.ns, "count": wait.count}
        )  # fmt: skip
    return rows


TIME = Column("ns", "time", words.duration)
COUNT = Column("count", "calls")
VIEWS: dict[str, ViewTable] = {
    "process": ViewTable(
        "processes of the run",
        (
            left("process", "process", 16), Column("pid", "pid"), Column("role", "role", _role, right=False),
            Column("alive_ns", "alive", words.duration), Column("cpu_ns", "CPU", _metered),
            Column("wait_share", "waits", percent), Column("events", "events"), Column("lost", "lost"),
            Column("exit", "ended", right=False),
        ),
        _processes,
    ),
    "operation": ViewTable(
        "operations of the main process",
        (
            left("operation", "operation", 20), Column("share", "share", percent), COUNT,
            Column("self_ns", "self", words.duration), Column("mean_ns", "mean", words.duration),
            Column("p50_ns", "median", words.duration), Column("p95_ns", "95 %", words.duration),
        ),
        _operations,
    ),
    "why": ViewTable(
        "who named the time of the main process (docs/naming.md)",
        (
            left("operation", "operation", 18), Column("share", "share", percent), TIME,
            Column("why", "why", lambda v: words.clip(str(v) or "–", 44), right=False),
        ),
        _reasons,
    ),
    "layer": ViewTable(
        "layers of the main process",
        (
            left("layer", "layer"), left("resource", "resource", 8), Column("share", "share", percent), TIME,
            Column("per_unit_ns", "each", words.duration),
        ),
        _layers,
    ),
    "line": ViewTable(
        "lines of the main process by time",
        (
            Place("your_file", "your line", right=False, most=20, line="your_line"), _inside(18),
            left("operation", "in", 15), Column("share", "share", percent), Column("error", "±", percent),
            Column("samples", "samples"),
        ),
        _lines,
    ),
    "function": ViewTable(
        "functions of the main process by time",
        (
            Column("your_function", "your function", lambda v: words.shorten(words.clean(str(v)) or "–", 22), right=False),
            _inside(18), left("operation", "in", 15), Column("share", "share", percent),
            Column("error", "±", percent), Column("samples", "samples"),
        ),
        _functions,
    ),
    "callsite": ViewTable(
        "call sites of all processes by time",
        (function(18), Place("file", "called from", right=False), left("operation", "in", 15), TIME, COUNT),
        _callsites,
    ),
    "kernel": ViewTable(
        "device work of all processes by time",
        (
            left("name", "name", 26), left("operation", "launched in", 13), TIME, COUNT,
            Column("occupancy", "occ.", _known(percent)), Column("launch_ns", "latency", _known(words.duration)),
            Column("queue", "queue", _known(words.number)),
        ),
        _kernels,
    ),
    "transition": ViewTable(
        "transitions of the main process by count",
        (
            left("operation", "operation", 15), layer("from"), layer("to"), function(15),
            Place("file", "called from", right=False, most=17), Column("per_unit", "each", words.number),
        ),
        _transitions,
    ),
    "wait": ViewTable(
        "waits of all processes by time",
        (
            left("process", "process", 14), left("for", "waits for", 14), left("on", "on", 16),
            left("operation", "in", 15), TIME, COUNT,
        ),
        _waits,
    ),
}  # fmt: skip


def rows_of(run: Run, digest: Digest, by: str) -> Rows:
    """The rows of a view."""
    return VIEWS[by].rows(run, digest)


def print_view(run: Run, digest: Digest, by: str, file: TextIO) -> None:
    """Print a view as a table."""
    view, p = VIEWS[by], Printer(file)
    rows = rows_of(run, digest, by)
    if not rows:
        what = view.about.split(" of ")[0]
        p.print(p.text(f"No {what} recorded in {digest.path}."))
        return
    table = grid(p, [(c.title, "right" if c.right else "left") for c in view.columns])
    for row in rows[:MOST_ROWS]:
        table.add_row(*(p.text(c.text(row)) for c in view.columns))
    p.print(p.text(f"{digest.program}: {view.about}", "bold"), table)
    if len(rows) > MOST_ROWS:
        p.print(p.line(f"… {len(rows) - MOST_ROWS} more: cutaway show {digest.path} --by {by} --json", "dim"))
