"""The figure of the proof: for each program what recording added, what is left after correction, and the truth."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.correction.bias import Bias
from cutaway.drawing.svg import Picture

LEFT, TOP, ROW, WIDTH, BAR = 190, 34, 34, 520, 11
LEGEND = {
    "#4477aa": "recorded, after correction (95 %)",
    "#ee8866": "removed by correction",
    "#999999": "unrecorded: the truth",
}
CORRECTED, REMOVED, UNRECORDED = LEGEND


def drawn(title: str, found: Mapping[str, Bias]) -> Picture:
    """Bars in units of the unrecorded time; the whisker is the 95 % interval of the corrected time against the truth."""
    scale = WIDTH / max(1.1, *(b.raw[0] * 1.03 for b in found.values()))
    foot = TOP + ROW * len(found)
    picture = Picture(LEFT + WIDTH + 30, foot + 3 * 17 + 16, title)
    picture.text(LEFT, 20, title)
    for i, (name, b) in enumerate(found.items()):
        y = TOP + ROW * i
        corrected, raw = b.corrected[0] * scale, b.raw[0] * scale
        low, high = (LEFT + v * scale for v in b.corrected[1:])
        middle = y + BAR / 2
        picture.text(LEFT - 8, y + 15, name, "end")
        picture.box(LEFT, y, corrected, BAR, CORRECTED)
        picture.box(LEFT + corrected, y, max(0.0, raw - corrected), BAR, REMOVED)
        picture.box(LEFT, y + BAR + 1, scale, BAR, UNRECORDED)
        picture.line(low, middle, high, middle, stroke="#000000")
    picture.legend(LEFT, foot + 8, list(LEGEND.items()))
    return picture
