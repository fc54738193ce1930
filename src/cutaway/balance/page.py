"""The page of a grid: the study's figures as SVG in one offline HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import chain
from typing import NamedTuple

from cutaway.balance.grid import Row

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 460, 260, 58, 36, 14
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#e15759")
STYLE = """
:root{color-scheme:light dark;--fg:#1a1d21;--bg:#fff;--dim:#667085;--line:#e3e6ea}
@media(prefers-color-scheme:dark){:root{--fg:#e7e9ec;--bg:#15181c;--dim:#9aa3af;--line:#323841}}
body{font:14px/1.45 system-ui,"DejaVu Sans",sans-serif;color:var(--fg);background:var(--bg);max-width:1180px;margin:0 auto;padding:20px}
h1{font-size:18px}h2{font-size:14px;margin:0 0 .3em}.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));
gap:24px}
svg{max-width:100%;height:auto}.wide{overflow-x:auto}
svg text{fill:var(--fg);font:11px system-ui,sans-serif}svg .axis{stroke:var(--line)}table{border-collapse:collapse;margin-top:2em}
td,th{padding:.25em .9em;text-align:right;border-bottom:1px solid var(--line)}.dim{color:var(--dim)}
"""
HEADS = (
    "actors",
    "CPUs",
    "% SMs",
    "steps/s",
    "95 %",
    "cores",
    "GPU W",
    "steps/J",
    "marks",
)
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'
CSP = "default-src 'none'; style-src 'unsafe-inline'"
Interval = tuple[float, float, float]  # value, low, high


class Series(NamedTuple):
    """Points (x, y, low, high) of one line."""

    name: str
    points: list[tuple[float, float, float, float]]


def figures(rows: Sequence[Row]) -> list[tuple[str, str, str, list[Series]]]:
    """(title, x, y, series) of every figure the data allow."""
    fastest = max((r.steps_per_s for r in rows), default=0.0) or 1.0

    def slower(r: Row, fastest: float = fastest) -> Interval:
        if r.steps_per_s <= 0:
            return 0.0, 0.0, 0.0
        return (
            fastest / r.steps_per_s,
            fastest / r.high,
            fastest / max(r.low, r.steps_per_s / 10),
        )

    def over_actors(value: Callable[[Row], Interval]) -> list[Series]:
        groups: dict[str, Series] = {}
        for row in rows:
            limits = ((row.cpus, "CPUs"), (row.sm_percent, "% SMs"))
            name = ", ".join(f"{v} {unit}" for v, unit in limits if v is not None)
            groups.setdefault(name, Series(name, [])).points.append(
                (float(row.actors or 1), *value(row))
            )
        return list(groups.values())

    found = [
        (
            "Throughput",
            "actors",
            "steps/s",
            over_actors(lambda r: (r.steps_per_s, r.low, r.high)),
        ),
        ("Run time, relative to the fastest", "actors", "×", over_actors(slower)),
    ]
    if any(r.gpu_w or r.cpu_w for r in rows):
        watts = over_actors(lambda r: 3 * ((r.gpu_w or 0) + (r.cpu_w or 0),))
        found.append(("Power", "actors", "W", watts))
        per_joule = over_actors(lambda r: 3 * (r.steps_per_j or 0.0,))
        found.append(("Performance per watt", "actors", "steps/J", per_joule))
    if len({r.sm_percent for r in rows if r.sm_percent is not None}) > 1:
        series = []
        for actors in dict.fromkeys(r.actors for r in rows if r.sm_percent is not None):
            group = [r for r in rows if r.actors == actors and r.sm_percent is not None]
            best = max(r.steps_per_s for r in group)
            points = sorted((float(r.sm_percent or 0), *slower(r, best)) for r in group)
            series.append(Series(f"{actors} actors", points))
        found.append(("Slow-down with fewer SMs", "% of the SMs", "×", series))
    return found


def draw(x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """One figure: lines, points and 95 % intervals."""
    points = list(chain.from_iterable(one.points for one in series))
    x_most, y_most = (
        max(p[0] for p in points) or 1.0,
        max(max(p[1], p[3]) for p in points) or 1.0,
    )

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - 12) * x / x_most, HEIGHT - BOTTOM - (
            HEIGHT - BOTTOM - TOP
        ) * y / y_most

    def text(x: float, y: float, words: str, more: str = ' text-anchor="end"') -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(words)}</text>'

    label = f"{escape(y_label)} against {escape(x_label)}"
    labels = [text(WIDTH - 12, HEIGHT - 4, x_label), text(LEFT, 10, y_label, "")]
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    for i in range(5):
        value = y_most * i / 4
        x, y = place(0, value)
        short = (
            f"{value / 1000:.0f}k"
            if value >= 10000
            else f"{value:.0f}"
            if value >= 10
            else f"{value:.2g}"
        )
        parts.append(
            f'<line class="axis" x1="{x:.0f}" y1="{y:.0f}" x2="{WIDTH - 12}" y2="{y:.0f}"/>'
        )
        parts.append(text(x - 6, y + 4, short))
    for x_value in sorted({p[0] for p in points}):
        x, y = place(x_value, 0)
        parts.append(text(x, y + 16, f"{x_value:g}", ' text-anchor="middle"'))
    for i, (colour, one) in enumerate(zip(COLOURS * 9, series, strict=False)):
        corners = [place(point[0], point[1]) for point in one.points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>'
        )
        for p in one.points:
            (x, y), (_, low), (_, high) = (
                place(p[0], p[1]),
                place(p[0], p[2]),
                place(p[0], p[3]),
            )
            span = f'x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
            parts.append(f'<line stroke="{colour}" {span}/>')
            parts.append(f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        style = f' text-anchor="end" style="fill:{colour}"'
        labels.append(
            text(WIDTH - 14, TOP + 14 * (i + 1), one.name, style) if one.name else ""
        )
    return "".join([*parts, *labels, "</svg>"])


def page(command: str, rows: Sequence[Row], advice: Sequence[str]) -> str:
    """The whole file."""

    def cell(value: object) -> str:
        text = (
            "–"
            if value is None
            else f"{value:,.1f}"
            if isinstance(value, float)
            else str(value)
        )
        return f"<td>{escape(text)}</td>"

    drawn = "".join(
        f"<section><h2>{escape(t)}</h2>{draw(x, y, s)}</section>"
        for t, x, y, s in figures(rows)
    )
    body = "".join(f"<p>{escape(line)}</p>" for line in advice)
    cells = ""
    for r in rows:
        interval = f"{r.low:,.0f} … {r.high:,.0f}"
        limits, rate = (r.actors, r.cpus, r.sm_percent), (r.steps_per_s, interval)
        cells += f"<tr>{''.join(map(cell, (*limits, *rate, r.cpu_cores, r.gpu_w, r.steps_per_j, r.marks)))}</tr>"
    heads = "".join(f'<th scope="col">{name}</th>' for name in HEADS)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{VIEWPORT}<meta http-equiv="Content-Security-Policy" content="{CSP}">'
        f"<title>Cutaway balance</title><style>{STYLE}</style><main><h1>Balance</h1><p class=dim>{escape(command)}</p>{body}"
        f'<div class="grid">{drawn}</div><div class="wide" tabindex="0" role="region" aria-label="all points">'
        f"<table><tr>{heads}</tr>{cells}</table></div></main></html>\n"
    )
