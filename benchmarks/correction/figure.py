"""The figure of the proof: for each program what recording added, what is left after correction, and the truth."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.correction.bias import Bias

LEFT, TOP, ROW, WIDTH, BAR = 190, 34, 34, 520, 11
COLOURS = {"corrected": "#4477aa", "removed": "#ee8866", "unrecorded": "#999999"}


def svg(title: str, found: Mapping[str, Bias]) -> str:
    """Bars in units of the unrecorded time; the whisker is the 95 % interval of the corrected time against the truth."""
    largest = max(1.1, *(b.raw[0] * 1.03 for b in found.values()))
    scale = WIDTH / largest
    height = TOP + ROW * len(found) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
        'font-family="system-ui, DejaVu Sans, sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="{LEFT}" y="20" font-weight="bold">{title}</text>',
    ]
    for i, (name, b) in enumerate(found.items()):
        y = TOP + ROW * i
        corrected, raw = b.corrected[0] * scale, b.raw[0] * scale
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{name}</text>'
        )
        parts.append(_bar(LEFT, y, corrected, COLOURS["corrected"]))
        parts.append(
            _bar(LEFT + corrected, y, max(0.0, raw - corrected), COLOURS["removed"])
        )
        parts.append(_bar(LEFT, y + BAR + 1, scale, COLOURS["unrecorded"]))
        low, high = (LEFT + v * scale for v in b.corrected[1:])
        middle = y + BAR / 2
        parts.append(f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#000000"/>')
    parts.append(_legend(height - 12))
    return "\n".join([*parts, "</svg>\n"])


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'


def _legend(y: int) -> str:
    names = ("corrected", "removed", "unrecorded")
    said = (
        "recorded, after correction (95 %)",
        "removed by correction",
        "unrecorded: the truth",
    )
    parts, x = [], 20
    for name, text in zip(names, said, strict=True):
        parts.append(
            f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLOURS[name]}"/>'
        )
        parts.append(f'<text x="{x + 15}" y="{y}">{text}</text>')
        x += 40 + 7 * len(text)
    return "".join(parts)
