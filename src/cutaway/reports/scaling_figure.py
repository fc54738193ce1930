"""The speed-up of runs with more and more workers, beside the ideal, and the lost part stacked by its cause."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .scaling import PARTS, Scaled

WIDTH, HEIGHT, LEFT, TOP, BAR = 640, 360, 56, 30, 34
COLOURS = {
    "serial": "#4477aa",
    "slowest": "#ee6677",
    "sync": "#ccbb44",
    "queue": "#aa3377",
    "work": "#228833",
    "machine": "#66ccee",
}
USED = "#9aa5b1"


def svg(runs: Sequence[Scaled]) -> str:
    """One bar a run: as high as the ideal, filled up to its speed-up, the losses above."""
    ideals = [run.point.workers / runs[0].point.workers for run in runs]
    highest = max(max(ideals), max(run.speedup for run in runs))
    scale = (HEIGHT - TOP - 40) / highest
    step = (WIDTH - LEFT - 170) / len(runs)
    shapes = [_axis(highest, scale)]
    for index, (run, ideal) in enumerate(zip(runs, ideals, strict=True)):
        shapes += _bar(run, ideal, LEFT + step * (index + 0.5), scale)
    shapes += _legend(runs)
    inside = "".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="speed-up by number of workers">{inside}</svg>'
    )


def _bar(run: Scaled, ideal: float, x: float, scale: float) -> list[str]:
    base = HEIGHT - 40
    at = base - run.speedup * scale
    shapes = [_box(x, at, run.speedup * scale, USED, f"speed-up {run.speedup:.2f}")]
    for part, share in run.losses.items():
        height = max(0.0, share) * ideal * scale
        at -= height
        title = f"{PARTS[part].title}: {100 * share:.1f} %"
        shapes.append(_box(x, at, height, COLOURS[part], title))
    top = base - ideal * scale
    shapes.append(
        f'<line x1="{x - BAR:.1f}" x2="{x + BAR:.1f}" y1="{top:.1f}" y2="{top:.1f}" stroke="currentColor" stroke-dasharray="3 2"/>'
    )
    shapes.append(_text(x, base + 18, str(run.point.workers), "middle"))
    shapes.append(
        _text(x, base - run.speedup * scale / 2 + 4, f"{run.speedup:.2f}×", "middle")
    )
    return shapes


def _box(x: float, y: float, height: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x - BAR / 2:.1f}" y="{y:.1f}" width="{BAR}" height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'


def _axis(highest: float, scale: float) -> str:
    base = HEIGHT - 40
    title = _text(LEFT - 40, TOP - 12, "speed-up; dashed: the ideal")
    return (
        title
        + _text(LEFT - 8, base + 4, "0", "end")
        + _text(LEFT - 8, base - highest * scale + 4, f"{highest:g}", "end")
        + _text((LEFT + WIDTH - 170) / 2, HEIGHT - 6, "workers", "middle")
    )


def _legend(runs: Sequence[Scaled]) -> list[str]:
    shown = []
    for part in PARTS:
        largest = max((run.losses[part] for run in runs), default=0.0)
        if largest > 0.005:
            shown.append(part)
    shapes = []
    for row, part in enumerate(shown):
        y = TOP + 20 * row
        shapes.append(
            f'<rect x="{WIDTH - 150}" y="{y}" width="12" height="12" fill="{COLOURS[part]}"/>'
        )
        shapes.append(_text(WIDTH - 132, y + 10, PARTS[part].title))
    return shapes
