"""How the run went: its pace, and the shares of its operations from start to end."""

from __future__ import annotations

from typing import Any

from cutaway.drawing.markup import Markup, joined, tag
from cutaway.drawing.svg import Fluid, legend, swatch
from cutaway.reports import text
from cutaway.reports.progress import counted_in
from cutaway.reports.text import percent

from .section import Palette, Section, Source, milliseconds, short

GRAPH = 62
"""The height of the pace over time; below it the shares."""
SHARES = 120


def over_time(of: Source) -> dict[str, Any] | None:
    """The pace and the shares of the operations over the run; times in seconds since its start."""
    names = list(of.few.operations())
    stretches = of.few.stretches
    what = counted_in(stretches)
    if len(stretches) < 2:
        return None
    rows = []
    for stretch in stretches:
        shares = [[short(name), stretch.shares.get(name)] for name in names]
        rows.append(
            {
                "from": stretch.start_ns / 1e9,
                "to": stretch.end_ns / 1e9,
                "rate": stretch.rate(what),
                "shares": [one for one in shares if one[1]],
            }
        )
    paced = any(
        row["rate"] for row in rows
    )  # without steps and iterations there is no pace to draw
    line = f"{what} a second (line) and the share of each operation (below)"
    title = f"How the run went: {line if paced else 'the share of each operation'}"
    return {"title": title, "what": what, "rows": rows}


def draw_over_time(data: dict[str, Any], colours: Palette) -> Markup:
    """The pace as a line over the shares of the operations."""
    rows, what = data["rows"], data["what"]
    begin: float = rows[0]["from"]
    end: float = rows[-1]["to"]
    length = (end - begin) or 1.0
    fastest = max(row["rate"] for row in rows)
    top = GRAPH + 8 if fastest else 0
    drawn = Fluid(top + SHARES + 20, data["title"])

    def at(seconds: float) -> float:
        return (seconds - begin) / length

    if fastest:
        middles = [at((row["from"] + row["to"]) / 2) for row in rows]
        heights = [row["rate"] / fastest for row in rows]
        drawn.curve(6, GRAPH - 6, list(zip(middles, heights, strict=True)), "ink")
        drawn.rule(GRAPH)
    for row in rows:
        left = at(row["from"])
        wide = max(0.0005, at(row["to"]) - left - 0.0005)
        span = f"from {_seconds(row['from'])} to {_seconds(row['to'])}"
        pace = f"{text.number(row['rate'])} {what}/s " if fastest else ""
        y = float(top)
        for name, share in row["shares"]:
            said = f"{text.operation(name)}: {percent(share)}\n{pace}{span}"
            drawn.box(left, y, wide, share * SHARES, colours.fill(name), said)
            y += share * SHARES
    foot = top + SHARES + 16
    drawn.text(0, foot, _seconds(begin), kind="soft")
    drawn.text(1, foot, _seconds(end), "end", "soft")
    highest = f"{text.number(fastest)} {what} a second at most" if fastest else ""
    return joined(
        _operations(rows, colours),
        tag("p", highest, class_="soft") if fastest else None,
        drawn.markup(),
    )


def _operations(rows: list[dict[str, Any]], colours: Palette) -> Markup:
    """A legend of the operations that have a share, as in the bars."""
    used: set[str] = set()
    for row in rows:
        used.update(name for name, share in row["shares"] if share >= 0.005)
    shown = [name for name in colours.colours if name in used]
    return legend([swatch(colours.fill(name), text.operation(name)) for name in shown])


def _seconds(seconds: float) -> str:
    return milliseconds(1e3 * seconds)


SECTION = Section("time", over_time, draw_over_time)
