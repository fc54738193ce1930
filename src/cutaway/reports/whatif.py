"""What `cutaway what-if` prints."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain, pairwise
from typing import Any

from cutaway.analysis.whatif.predict import NAMELESS, Prediction, WhatIf, Worth

_ROWS = 18
_KNEE = 0.05
_MANY_TIMES = 100


def head(known: WhatIf) -> list[str]:
    """The error of the replay comes first, always."""
    count = len(known.seconds)
    first = f"replayed as recorded: {abs(known.error):.1%} off ({1e3 * known.recorded:.3g} ms an iteration, {count} iterations)"
    return [first, *known.graph.notes, ""]


def predictions(known: WhatIf, found: list[Prediction]) -> list[str]:
    """One line for each change, what the interval is made of, and what it assumes."""
    lines = head(known)
    for one in found:
        span = f"({_times(one.least)} to {_times(one.most)})"
        times = f"{1e3 * one.before:.3g} -> {1e3 * one.after:.3g} ms an iteration"
        lines.append(f"{one.change}: {_times(one.speedup)}x as fast {span}, {times}")
    if len(found) > 1:
        lines.append(_knee(found))
    lines += ["", _interval(found)]
    if len(found) == 1 and found[0].least <= 1 <= found[0].most:
        lines.append("too close to call: it may gain nothing")
    assumed = dict.fromkeys(chain.from_iterable(one.assumes for one in found))
    return [*lines, *(["assumes: " + "; ".join(assumed)] if assumed else [])]


def _times(speedup: float) -> str:
    return f"{speedup:.2f}" if speedup < _MANY_TIMES else "over 100"


def _interval(found: list[Prediction]) -> str:
    """Where the width comes from: recording for longer makes only one part smaller."""
    model = max(one.model for one in found)
    recording = max(one.recording for one in found)
    return (
        f"in brackets: where 9 of 10 should lie; such predictions were ±{model:.0%} off when "
        f"they were checked, this recording leaves ±{recording:.1%} open"
    )


def _knee(found: list[Prediction]) -> str:
    """Where more of it stops being worth it."""
    for one, more in pairwise(found):
        if one.after / more.after < 1 + _KNEE:
            return f"knee: {one.change}; from there to {more.change} gains less than {_KNEE:.0%}"
    return f"no knee up to {found[-1].change}"


def table(known: WhatIf, worth: list[Worth]) -> list[str]:
    """The causal profile."""
    known.require()
    lines = [
        *head(known),
        "10 % faster: how much faster the whole gets. free: how many times as fast without it.",
    ]
    lines.append(f"{'':9} {'':40} {'10 % faster':>12} {'free':>8}")
    for row in worth[:_ROWS]:
        free = f"{row.free:.2f}x" if row.free < _MANY_TIMES else ">100x"
        lines.append(
            f"{row.kind:9} {row.name[:40]:40} {10 * row.elasticity:>10.1f} % {free:>8}"
        )
    named = (row for row in worth if row.kind != "process" and row.name != NAMELESS)
    best = next(named, None)
    if best:
        lines += ["", f"next: cutaway what-if {known.run.trace.path} {best.name}=2x"]
    return lines


def plain(known: WhatIf, found: list[Prediction], worth: list[Worth]) -> dict[str, Any]:
    """For scripts."""
    about = {
        "schema": 1,
        "iterations": len(known.seconds),
        "seconds": known.recorded,
        "replay_error": known.error,
        "notes": known.graph.notes,
    }
    shown = []
    for one in found:
        span = {"speedup": one.speedup, "least": one.least, "most": one.most}
        shown.append({**asdict(one), **span})
    return {**about, "predictions": shown, "worth": [asdict(row) for row in worth]}
