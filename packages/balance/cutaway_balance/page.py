"""The page of a grid: the study's figures as SVG in one offline HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutaway.drawing.charts import Series, lines
from cutaway.drawing.markup import Markup, joined, paragraphs, tag
from cutaway.drawing.shell import document
from cutaway.drawing.tables import Column, cell, table
from cutaway_balance.grid import Row

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
Interval = tuple[float, float, float]  # value, low, high


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


def page(command: str, rows: Sequence[Row], advice: Sequence[str]) -> str:
    """The whole file."""
    charts = []
    for title, x, y, series in figures(rows):
        picture = lines(x, y, series).markup()
        charts.append(tag("section", tag("h2", title), picture))
    points = table([Column(name, "n") for name in HEADS], list(map(_cells, rows)))
    about = {"role": "region", "aria_label": "all points"}
    body = joined(
        tag("header", tag("h1", "Balance"), tag("span", command, class_="soft")),
        paragraphs(*advice),
        tag("div", *charts, class_="charts"),
        tag("h2", "All points"),
        tag("div", points, class_="wide", tabindex=0, **about),
    )
    return document("Cutaway balance", body)


def _cells(row: Row) -> list[Markup]:
    interval = f"{row.low:,.0f} … {row.high:,.0f}"
    limits = row.actors, row.cpus, row.sm_percent
    rest = row.cpu_cores, row.gpu_w, row.steps_per_j, row.marks
    return [_cell(value) for value in (*limits, row.steps_per_s, interval, *rest)]


def _cell(value: object) -> Markup:
    if value is None:
        return cell("–", "n")
    if isinstance(value, float):
        return cell(f"{value:,.1f}", "n")
    return cell(str(value), "n")
