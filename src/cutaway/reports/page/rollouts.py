"""How many sequences a language model decoded over time, and what waited."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutaway.analysis.rollouts import Curve, bursts, curves
from cutaway.drawing.colours import COLOURS
from cutaway.drawing.markup import Markup, joined, tag
from cutaway.drawing.svg import Fluid
from cutaway.reports import rollouts

from .section import Palette, Section, Source, milliseconds, short

WIDE = 600  # columns of the picture
TALL = 84  # pixels of one area
MOST_BATCHES = 8
BATCHES = ("sequences", "waiting")
DRAWN = {
    "sequences": "sequences decoding",
    "waiting": "waiting for the engine",
    "queue": "samples ready for the trainer",
    "staleness": "policy versions between sampling and training",
}
ABOUT = {"stale": "staleness", "trainer-starved": "queue"}
"""What a verdict is about stands first."""


def tail(of: Source) -> dict[str, Any] | None:
    """The batch of the engine over time, and what else was counted; None where nobody counted anything. Of many batches a few from
    the middle are drawn, so that each can be seen; the rest over the steady state."""
    first, end = of.run.steady().edges
    begin, last = of.run.span
    span = max(first, begin), min(end, last)
    first_name = ABOUT.get(of.found.verdict.rule, "")
    rows = []
    for name in sorted(DRAWN, key=lambda name: name != first_name):
        for process, curve in curves(of.run, name).items():
            where = short(of.found.processes[process].name)
            rows += _row(name, where, curve, span, begin)
    if not rows:
        return None
    return {
        "title": "How many sequences were decoded at once, and what waited",
        "says": rollouts.sentence(of.found.rollouts),
        "rows": rows,
    }


def draw_tail(data: dict[str, Any], colours: Palette) -> Markup:
    """One area for each value and process, each with its own height and its own stretch of time."""
    several = len({row["process"] for row in data["rows"]}) > 1
    says = data["says"]
    shown = [tag("p", f"{says[:1].upper()}{says[1:]}.")]
    for row in data["rows"]:
        title = f"{row['title']}, {row['process']}" if several else row["title"]
        shown.append(tag("h3", f"{title} (at most {row['most']:.3g})"))
        shown.append(_area(row, title))
    return joined(*shown)


def _area(row: dict[str, Any], title: str) -> Markup:
    drawn = Fluid(TALL + 26, title)
    means, most = row["means"], row["most"] or 1
    points = [(0.0, 0.0)]
    for i, value in enumerate(means):
        points.append((i / len(means), value / most))
        points.append(((i + 1) / len(means), value / most))
    points.append((1.0, 0.0))
    drawn.rule(6, dashed=True)
    drawn.area(
        6, TALL, points, COLOURS["decode"], f"{title}: at most {row['most']:.3g}"
    )
    drawn.text(0, TALL + 22, milliseconds(1e3 * row["from"]), kind="soft")
    drawn.text(1, TALL + 22, milliseconds(1e3 * row["to"]), "end", "soft")
    return drawn.markup()


def _row(
    name: str, where: str, curve: Curve, span: tuple[int, int], begin: int
) -> list[dict[str, Any]]:
    """One area of the picture; none if nothing is known of that time."""
    part, says = _few_batches(curve, span) if name in BATCHES else (span, "")
    drawn = _columns(curve.within(*part), part)
    if not drawn or (name == "staleness" and not drawn["most"]):
        return []
    times = {"from": (part[0] - begin) / 1e9, "to": (part[1] - begin) / 1e9}
    return [{"title": DRAWN[name] + says, "process": where, **times, **drawn}]


def _few_batches(curve: Curve, span: tuple[int, int]) -> tuple[tuple[int, int], str]:
    """A stretch that holds no more batches than can be seen, and how many of how many they are."""
    every = bursts(curve.within(*span), span[1])
    if len(every) <= MOST_BATCHES:
        return span, ""
    first = (len(every) - MOST_BATCHES) // 2
    stretch = every[first].start_ns, every[first + MOST_BATCHES].start_ns
    return stretch, f", {MOST_BATCHES} of {len(every)} batches"


def _columns(curve: Curve, span: tuple[int, int]) -> dict[str, Any] | None:
    """The mean and the largest value in each column of the picture; None in one before the first value."""
    if not len(curve.at) or span[1] <= span[0]:
        return None
    edges = np.linspace(span[0], span[1], WIDE + 1)
    at = curve.at.astype(float)
    area = np.concatenate([[0.0], np.cumsum(curve.value * curve.lasts(span[1]))])
    times = np.append(at, float(span[1]))
    means = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    means[edges[1:] <= at[0]] = 0
    return {"most": float(curve.value.max()), "means": means.round(3).tolist()}


SECTION = Section("tail", tail, draw_tail)
