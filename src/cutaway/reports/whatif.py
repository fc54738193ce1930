"""What `cutaway what-if` prints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, pairwise
from typing import Any

from cutaway.analysis.whatif.predict import (
    MOST_DOUBT,
    NAMELESS,
    Prediction,
    WhatIf,
    Worth,
)
from cutaway.analysis.whatif.times import lasting

_ROWS = 18
_KNEE = 0.05
_MANY_TIMES = 100
_ALL = 0.9


def head(known: WhatIf) -> list[str]:
    """The error of the replay comes first, always."""
    count = len(known.seconds)
    first = f"replayed as recorded: {abs(known.error):.1%} off ({lasting(known.recorded)} an iteration, {count} iterations)"
    return [first, *known.graph.notes, ""]


def predictions(known: WhatIf, found: list[Prediction]) -> list[str]:
    """One line for each change, what the interval is made of, and what it assumes."""
    lines = head(known)
    for one in found:
        span = f"({times(one.least)} to {times(one.most)})"
        took = f"{lasting(one.before)} -> {lasting(one.after)}"
        lines.append(f"{one.change}: {times(one.speedup)}x as fast {span}, {took}")
    if len(found) > 1:
        lines.append(knee(found))
    lines += ["", interval(found)]
    if len(found) == 1 and found[0].least <= 1 <= found[0].most:
        lines.append("too close to call: it may gain nothing")
    assumed = dict.fromkeys(chain.from_iterable(one.assumes for one in found))
    return [*lines, *(["assumes: " + "; ".join(assumed)] if assumed else [])]


def times(speedup: float) -> str:
    """How many times as fast."""
    if speedup < _MANY_TIMES:
        return f"{speedup:.2f}"
    return "over 100"


def interval(found: Sequence[Prediction]) -> str:
    """Where the width comes from: recording for longer makes only one part smaller."""
    model = max(one.model for one in found)
    recording = max(one.recording for one in found)
    return (
        f"in brackets: where 9 of 10 should lie. Such predictions are ±{model:.0%} off, this recording leaves ±{recording:.0%} open; "
        "the times are those of an iteration."
    )


def knee(found: Sequence[Prediction]) -> str:
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
        "What the whole gains if one of them gets 10 % faster, or takes no time (free):",
    ]
    lines.append(f"{'':9} {'':40} {'10 % faster':>12} {'free':>8}")
    shown = [row for row in worth if not is_all(row)]
    for row in shown[:_ROWS]:
        if row.free < _MANY_TIMES:
            free = f"{row.free:.2f}x"
        else:
            free = ">100x"
        lines.append(
            f"{row.kind:9} {row.name[:40]:40} {10 * row.elasticity:>10.1f} % {free:>8}"
        )
    if known.spread > MOST_DOUBT:
        lines.append(
            f"The time of an iteration is known to ±{known.spread:.0%} only, so this order may be chance; record it for longer."
        )
    first = best(shown)
    if first:
        path, change = (
            shlex.quote(str(one)) for one in (known.run.trace.path, f"{first.name}=2x")
        )
        lines += ["", f"next: cutaway what-if {path} {change}"]
    return lines


def best(shown: Sequence[Worth]) -> Worth | None:
    """What is worth most and can be changed by its name."""
    named = (row for row in shown if row.kind != "process" and row.name != NAMELESS)
    return next(named, None)


def is_all(row: Worth) -> bool:
    """A line that calls the whole training, as `model.learn(...)` does, tells nobody what to mend."""
    return row.kind == "line" and row.share > _ALL


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
