"""Operators with the shapes of their inputs (`record_shapes=True`), and which launches each call of them made."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.record.devices.events import operator_entries
from cutaway.trace.imports.recorded import MISSING, Columns

COLUMNS = ("args/Input Dims", "args/Input type", "args/Concrete Inputs")


def operators(
    events: Columns, texts: list[str], kernels: NDArray[np.bool_], calls: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Log entries of kind "operator". `kernels` and `calls` are masks of the events."""

    @cache
    def told(text: int) -> Any:
        try:
            return json.loads(texts[text] or "[]")
        except ValueError:  # the column reader takes more for JSON than Python does
            return []

    launched: dict[int, list[int]] = {}
    rows = kernels & (events["args/correlation"] != MISSING)
    for id, correlation in _rows(events, rows, "args/External id", "args/correlation"):
        launched.setdefault(id, []).append(correlation)
    rows = calls & (events[COLUMNS[0]] != 0)
    rows &= np.isin(events["args/External id"], list(launched))
    return operator_entries(
        ((texts[name], told(dims), told(types), told(concrete)), sorted(set(launched[id])))
        for id, name, dims, types, concrete in _rows(events, rows, "args/External id", "name", *COLUMNS)
    )


def _rows(events: Columns, rows: NDArray[np.bool_], *names: str) -> Any:
    return zip(*(events[name][rows].tolist() for name in names), strict=True)
