"""What recording itself cost, subtracted where it was paid.

Each cell knows how many events began in it (the part of an event's cost inside its own interval is paid there)
and how many were made from it (the part outside is paid by the surroundings). With the cost of one event of each
kind this gives corrected time for each cell, and the cells still add up to a corrected total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.calibration.costs import Costs

KINDS = ("call", "operation", "api_call")
"""Kinds of events, as the cells count them: `call` has the columns `calls` and `calls_made`."""


@dataclass(frozen=True)
class Corrected:
    """Corrected time of each cell, with the 95 % interval that the costs' intervals give."""

    ns: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def correct(cells: Mapping[str, NDArray[Any]], costs: Costs | None) -> Corrected:
    """Subtracts the costs. A cell with less time than its events are said to have cost comes out negative: the caller adds up first.
    While a thread waits for a device that works (`gpu`), the device decides when the wait ends: what was recorded meanwhile did
    not lengthen it, and nothing is subtracted.

    >>> from cutaway.calibration.costs import Cost
    >>> cells = {"ns": np.array([1000]), "calls": np.array([10]), "calls_made": np.array([0])}
    >>> correct(cells, Costs(inside={"call": Cost(20.0, 10.0, 30.0)}))
    Corrected(ns=array([800]), low=array([700]), high=array([900]))
    """
    raw = cells["ns"]
    if costs is None:
        return Corrected(raw, raw, raw)
    paid = [_paid(cells, costs, bound) for bound in ("ns", "high", "low")]
    return Corrected(*(raw - np.rint(p).astype(np.int64) for p in paid))


def _paid(cells: Mapping[str, NDArray[Any]], costs: Costs, bound: str) -> NDArray[np.float64]:
    total = np.zeros(len(cells["ns"]))
    for kind in KINDS:
        for column, side in ((f"{kind}s", costs.inside), (f"{kind}s_made", costs.outside)):
            if kind in side:
                total += cells[column] * getattr(side[kind], bound)
    if "blocked" in cells and "busy" in cells:
        total[(cells["blocked"] != 0) & (cells["busy"] != 0)] = 0.0
    return total
