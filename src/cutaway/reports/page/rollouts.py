"""How many sequences a language model decoded over time, and what waited: what tail.js draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutaway.analysis.rollouts import Curve, curves
from cutaway.reports import rollouts

from .section import Source, short

WIDE = 600  # columns of the picture
DRAWN = {
    "sequences": "sequences decoding",
    "waiting": "waiting for the engine",
    "queue": "samples ready for the trainer",
    "staleness": "policy versions between sampling and training",
}


def tail(of: Source) -> dict[str, Any] | None:
    """The batch of the engine over the steady state, and what else was counted; None where nobody counted anything."""
    first, end = of.run.steady().edges
    begin, last = of.run.span
    span = max(first, begin), min(end, last)
    rows = []
    for name, title in DRAWN.items():
        for process, curve in curves(of.run, name).items():
            drawn = _columns(curve.within(*span), span)
            if drawn:
                where = short(of.found.processes[process].name)
                rows.append({"title": title, "process": where, **drawn})
    if not rows:
        return None
    return {
        "title": "How many sequences were decoded at once, and what waited",
        "says": rollouts.sentence(of.found.rollouts),
        "from": (span[0] - begin) / 1e9,
        "to": (span[1] - begin) / 1e9,
        "rows": rows,
    }


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
