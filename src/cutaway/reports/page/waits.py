"""Who waits for whom."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from cutaway.drawing.markup import Markup, joined, tag
from cutaway.drawing.tables import Column, cell, meter, table
from cutaway.reports import text
from cutaway.reports.digest import Digest, Process
from cutaway.reports.rows import holder_lines

from .cells import BAR, number, operation, who
from .section import Palette, Section, Source, milliseconds, short

MOST_WAITS = 40
MOST_HOLDERS = 8
FEW_ALIKE = 2
"""More processes of one role are one row."""
LEAST_WAIT = 0.005
"""Share of the process's life; shorter waits are left out."""


def waits(of: Source) -> dict[str, Any] | None:
    """Who waits for whom; nothing if nobody does."""
    rows = _waits(of.found)
    if not rows:
        return None
    holders = _holders(of.found)
    return {"title": "Who waits for whom", "rows": rows, "holders": holders}


def draw_waits(data: dict[str, Any], colours: Palette) -> Markup:
    """A row for each pair."""
    most = max(row["ms"] for row in data["rows"])
    rows = []
    for row in data["rows"]:
        bar = meter(row["ms"] / most, colours.fill(row["operation"]))
        figures = [
            number(milliseconds(row["ms"]), row["ms"]),
            number(text.percent(row["share"]), row["share"]),
        ]
        cells = who(row["who"]), who(row["whom"], "→ "), operation(row["operation"])
        rows.append([*cells, bar, *figures])
    named = Column("who"), Column("waits for"), Column("in"), BAR
    shown = table([*named, Column("time", "n"), Column("of its life", "n")], rows)
    if not data["holders"]:
        return shown
    title = tag("h3", "What holds the GIL while the main process waits for it")
    return joined(shown, title, _draw_holders(data["holders"], colours))


def _draw_holders(holders: list[dict[str, Any]], colours: Palette) -> Markup:
    """A row for each line of another thread."""
    most = holders[0]["share"]
    rows = []
    for row in holders:
        cells = [
            cell(tag("code", row["place"])),
            operation(row["operation"]),
            meter(row["share"] / most, colours.fill(row["operation"])),
            number(text.percent(row["share"]), row["share"]),
        ]
        rows.append(cells)
    heads = Column("line"), Column("in"), BAR, Column("of the wait", "n")
    return table(heads, rows)


def _holders(found: Digest) -> list[dict[str, Any]]:
    rows = []
    for row in holder_lines(found)[:MOST_HOLDERS]:
        place = text.place(row["file"], row["line"]) or row["function"]
        known = {"place": short(place), "operation": short(row["operation"])}
        rows.append({**known, "share": row["share"]})
    return rows


def _waits(found: Digest) -> list[dict[str, Any]]:
    """Waits by who and whom, those of the main process first; siblings become one row, so that its numbers are those of the verdict."""
    roles = found.roles()

    def siblings(process: Process) -> int:
        alike = roles[process.role] if process.role else 1
        return alike if alike > FEW_ALIKE else 1

    def name(process: Process) -> str:
        count = siblings(process)
        return (
            f"{count} × {process.role}"
            if count > 1
            else text.middle(short(process.name), 40)
        )

    spent: defaultdict[tuple[str, str, str], list[float]] = defaultdict(
        lambda: [0.0, 0.0]
    )
    for wait in found.waits:
        process = found.processes[wait.process]
        thing = short(wait.on.split(":")[0] or "unknown", 30)
        whom = (
            name(found.processes[wait.for_process]) if wait.for_process >= 0 else thing
        )
        sums = spent[name(process), whom, short(wait.operation)]
        sums[0] += wait.ns / 1e6
        sums[1] += (
            wait.ns
            / max(1, sum(process.layers.values()) or process.life_ns)
            / siblings(process)
        )
    main = name(found.main)
    longest = sorted(spent.items(), key=lambda kv: (kv[0][0] != main, -kv[1][0]))
    keys = ("who", "whom", "operation", "ms", "share")
    rows = [
        dict(zip(keys, (*names, *sums), strict=True))
        for names, sums in longest
        if sums[1] >= LEAST_WAIT
    ]
    return rows[:MOST_WAITS]


SECTION = Section("waits", waits, draw_waits)
