"""The page of a grid: the study's figures as SVG in one offline HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from cutaway.balance.grid import Row

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 460, 260, 58, 36, 14
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#e15759")
STYLE = """
:root{color-scheme:light dark;--fg:#1a1c20;--bg:#fff;--dim:#69707d;--line:#d9dce1}
@media(prefers-color-scheme:dark){:root{--fg:#e6e6e6;--bg:#1b1c1f;--dim:#9aa0a8;--line:#3a3d42}}
body{font:14px system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:980px;margin:2em auto;padding:0 1em}
h1{font-size:20px}h2{font-size:15px;margin:0 0 .3em}.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:24px}
svg text{fill:var(--fg);font:11px system-ui,sans-serif}svg .axis{stroke:var(--line)}table{border-collapse:collapse;margin-top:2em}
td,th{padding:.25em .9em;text-align:right;border-bottom:1px solid var(--line)}.dim{color:var(--dim)}
"""
CSP = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Series:
    """Points (x, y, low, high) of one line."""

    name: str
    points: list[tuple[float, float, float, float]]


def figures(rows: Sequence[Row]) -> list[tuple[str, str, str, list[Series]]]:
    """(title, x, y, series) of every figure the data allow."""
    fastest = max((r.steps_per_s for r in rows), default=0.0) or 1.0
    found = [
        ("Throughput", "actors", "steps/s", _series(rows, lambda r: (r.steps_per_s, r.low, r.high))),
        ("Run time, relative to the fastest", "actors", "×", _series(rows, lambda r: _inverse(r, fastest))),
    ]
    if any(r.gpu_w or r.cpu_w for r in rows):
        watts = _series(rows, lambda r: 3 * ((r.gpu_w or 0) + (r.cpu_w or 0),))
        per_joule = _series(rows, lambda r: 3 * (r.steps_per_j or 0.0,))
        found.append(("Power", "actors", "W", watts))
        found.append(("Performance per watt", "actors", "steps/J", per_joule))
    shares = [r for r in rows if r.sm_percent is not None]
    if len({r.sm_percent for r in shares}) > 1:
        found.append(("Slow-down with fewer SMs", "% of the SMs", "×", _sm_series(shares)))
    return found


def _inverse(row: Row, fastest: float) -> tuple[float, float, float]:
    if row.steps_per_s <= 0:
        return 0.0, 0.0, 0.0
    return fastest / row.steps_per_s, fastest / row.high, fastest / max(row.low, row.steps_per_s / 10)


def _series(rows: Sequence[Row], value: Callable[[Row], tuple[float, float, float]]) -> list[Series]:
    groups: dict[str, Series] = {}
    for row in rows:
        limits = ((row.cpus, "CPUs"), (row.sm_percent, "% SMs"))
        name = ", ".join(f"{v} {unit}" for v, unit in limits if v is not None)
        groups.setdefault(name, Series(name, [])).points.append((float(row.actors or 1), *value(row)))
    return list(groups.values())


def _sm_series(rows: Sequence[Row]) -> list[Series]:
    found = []
    for actors in dict.fromkeys(r.actors for r in rows):
        group = [r for r in rows if r.actors == actors]
        fastest = max(r.steps_per_s for r in group)
        points = sorted((float(r.sm_percent or 0), *_inverse(r, fastest)) for r in group)
        found.append(Series(f"{actors} actors", points))
    return found


def draw(x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """One figure: lines, points and 95 % intervals."""
    points = [p for s in series for p in s.points]
    x_most, y_most = max(p[0] for p in points) or 1.0, max(max(p[1], p[3]) for p in points) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - 12) * x / x_most, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * y / y_most

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)} against {escape(x_label)}">'
    ]
    for i in range(5):
        x, y = place(0, y_most * i / 4)
        parts.append(f'<line class="axis" x1="{x:.0f}" y1="{y:.0f}" x2="{WIDTH - 12}" y2="{y:.0f}"/>')
        parts.append(
            f'<text x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{_short(y_most * i / 4)}</text>'
        )
    for x_value in sorted({p[0] for p in points}):
        x, y = place(x_value, 0)
        parts.append(f'<text x="{x:.0f}" y="{y + 16:.0f}" text-anchor="middle">{x_value:g}</text>')
    for colour, one in zip(COLOURS * 9, series, strict=False):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(p[0], p[1]) for p in one.points))
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>')
        for p in one.points:
            (x, y), (_, low), (_, high) = place(p[0], p[1]), place(p[0], p[2]), place(p[0], p[3])
            parts.append(
                f'<line stroke="{colour}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
            )
            parts.append(f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
    parts.append(f'<text x="{WIDTH - 12}" y="{HEIGHT - 4}" text-anchor="end">{escape(x_label)}</text>')
    parts.append(f'<text x="{LEFT}" y="10">{escape(y_label)}</text>')
    parts += _legend([s.name for s in series])
    parts.append("</svg>")
    return "".join(parts)


def _legend(names: Sequence[str]) -> list[str]:
    return [
        f'<text x="{WIDTH - 14}" y="{TOP + 14 * (i + 1)}" text-anchor="end" style="fill:{colour}">{escape(name)}</text>'
        for i, (colour, name) in enumerate(zip(COLOURS * 9, names, strict=False))
        if name
    ]


def _short(value: float) -> str:
    if value >= 10000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def page(command: str, rows: Sequence[Row], advice: Sequence[str]) -> str:
    drawn = "".join(f"<section><h2>{escape(t)}</h2>{draw(x, y, s)}</section>" for t, x, y, s in figures(rows))
    body = "".join(f"<p>{escape(line)}</p>" for line in advice)
    cells = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(v))}</td>" for v in (
            r.actors, r.cpus, r.sm_percent, r.steps_per_s, f"{r.low:,.0f} … {r.high:,.0f}", r.cpu_cores, r.gpu_w, r.steps_per_j, r.marks
        )) + "</tr>"
        for r in rows
    )  # fmt: skip
    names = ("actors", "CPUs", "% SMs", "steps/s", "95 %", "cores", "GPU W", "steps/J", "")
    heads = "".join(f"<th>{name}</th>" for name in names)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{CSP}">'
        f"<title>Cutaway balance</title><style>{STYLE}</style><h1>Balance</h1><p class=dim>{escape(command)}</p>{body}"
        f'<div class="grid">{drawn}</div><table><tr>{heads}</tr>{cells}</table></html>\n'
    )


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
