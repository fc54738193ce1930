"""The speed-up of runs with more and more workers, beside the ideal, and the lost part stacked by its cause."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.drawing.colours import USED
from cutaway.drawing.svg import Picture

from .scaling import PARTS, Scaled

WIDTH = 640
HEIGHT = 360
LEFT = 56
RIGHT = 170
TOP = 30
BAR = 34
BASE = HEIGHT - 40
COLOURS = {
    "serial": "#4477aa",
    "slowest": "#ee6677",
    "sync": "#ccbb44",
    "queue": "#aa3377",
    "work": "#228833",
    "machine": "#66ccee",
}
WORTH_AN_ENTRY = 0.005


def drawn(runs: Sequence[Scaled]) -> Picture:
    """One bar a run: as high as the ideal, filled up to its speed-up, the losses above."""
    ideals = [run.point.workers / runs[0].point.workers for run in runs]
    highest = max(*ideals, *(run.speedup for run in runs))
    scale = (BASE - TOP) / highest
    step = (WIDTH - LEFT - RIGHT) / len(runs)
    picture = Picture(WIDTH, HEIGHT, "speed-up by number of workers")
    picture.text(LEFT - 40, TOP - 12, "speed-up; dashed: the ideal")
    picture.text(LEFT - 8, BASE + 4, "0", "end")
    picture.text(LEFT - 8, TOP + 4, f"{highest:g}", "end")
    picture.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "workers", "middle")
    for index, (run, ideal) in enumerate(zip(runs, ideals, strict=True)):
        _bar(picture, run, ideal, LEFT + step * (index + 0.5), scale)
    rows = [(USED, "speed-up")]
    for part in PARTS:
        if max(run.losses[part] for run in runs) > WORTH_AN_ENTRY:
            rows.append((COLOURS[part], PARTS[part].title))
    picture.legend(WIDTH - RIGHT + 20, TOP, rows)
    return picture


def _bar(picture: Picture, run: Scaled, ideal: float, x: float, scale: float) -> None:
    left = x - BAR / 2
    tall = run.speedup * scale
    at = BASE - tall
    picture.box(left, at, BAR, tall, USED, f"speed-up {run.speedup:.2f}")
    for part, lost in run.losses.items():
        height = max(0.0, lost) * ideal * scale
        at -= height
        title = f"{PARTS[part].title}: {100 * lost:.1f} %"
        picture.box(left, at, BAR, height, COLOURS[part], title)
    top = BASE - ideal * scale
    picture.line(x - BAR, top, x + BAR, top, "ideal", dashed=True)
    picture.text(x, BASE + 18, str(run.point.workers), "middle")
    picture.text(x, BASE - tall / 2 + 4, f"{run.speedup:.2f}×", "middle", "inside")
