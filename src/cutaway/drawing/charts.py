"""Charts of measured points: lines with their 95 % intervals, and round numbers for axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from .colours import SERIES
from .svg import Picture

WIDTH = 460
HEIGHT = 264
LEFT = 58
BOTTOM = 36
TOP = 22
RIGHT = 12
TICKS = 4
LETTER = 6.4


class Series(NamedTuple):
    """Points (x, y, low, high) of one line."""

    name: str
    points: list[tuple[float, float, float, float]]


def lines(x_label: str, y_label: str, series: Sequence[Series]) -> Picture:
    """Lines, points and intervals; both axes begin at 0."""
    points = list(chain.from_iterable(one.points for one in series))
    x_most = max(point[0] for point in points) or 1.0
    step = tick((max(max(point[1], point[3]) for point in points) or 1.0) / TICKS)
    ticks = math.ceil(max(max(point[1], point[3]) for point in points) / step) or 1
    wide = (WIDTH - LEFT - RIGHT) / x_most
    tall = (HEIGHT - BOTTOM - TOP) / (ticks * step)
    drawn = Picture(WIDTH, HEIGHT, f"{y_label} against {x_label}")

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * x, HEIGHT - BOTTOM - tall * y

    for i in range(ticks + 1):
        x, y = place(0, step * i)
        drawn.line(x, y, WIDTH - RIGHT, y)
        drawn.text(x - 6, y + 4, short(step * i), "end")
    for x_value in sorted({point[0] for point in points}):
        x, y = place(x_value, 0)
        drawn.text(x, y + 16, f"{x_value:g}", "middle")
    for i, one in enumerate(series):
        colour = SERIES[i % len(SERIES)]
        drawn.path([place(point[0], point[1]) for point in one.points], colour)
        for x_value, y_value, low, high in one.points:
            x, y = place(x_value, y_value)
            drawn.line(x, place(0, low)[1], x, place(0, high)[1], stroke=colour)
            drawn.dot(x, y, colour, f"{y_value:,.4g} at {x_value:g} {x_label}")
    _names(drawn, series)
    drawn.text(WIDTH - RIGHT, HEIGHT - 4, x_label, "end")
    drawn.text(LEFT, 10, y_label)
    return drawn


def _names(drawn: Picture, series: Sequence[Series]) -> None:
    """What the colours stand for: above the chart, from the right."""
    x: float = WIDTH - RIGHT
    for i, one in reversed(list(enumerate(series))):
        if one.name:
            drawn.text(x, 10, one.name, "end")
            x -= LETTER * len(one.name) + 15
            drawn.box(x, 1, 10, 10, SERIES[i % len(SERIES)])
            x -= 12


def short(value: float) -> str:
    """A number beside an axis.

    >>> short(12000), short(12.4), short(0.25)
    ('12k', '12', '0.25')
    """
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    if value >= 10:
        return f"{value:.0f}"
    return f"{value:.2g}"


def tick(least: float) -> float:
    """The next round number: 1, 2 or 5 and zeros.

    >>> tick(62.7), tick(0.11)
    (100.0, 0.2)
    """
    if least > 0:
        power = 10.0 ** math.floor(math.log10(least))
    else:
        power = 1.0
    return float(next(n * power for n in (1, 2, 5, 10) if n * power >= least))
