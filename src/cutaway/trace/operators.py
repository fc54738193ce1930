"""Operators with the shapes of their inputs, as they stand in a log: k "operator", for the live route and the importer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

_PER_LINE = 500


def grouped(calls: Iterable[tuple[tuple[str, Any, Any, Any], list[int]]]) -> list[dict[str, Any]]:
    """One entry for each operator and its shapes, with the correlation ids of the launches of every call.

    >>> product = ("aten::mm", [[2, 3], [3, 4]], ["float", "float"], [])
    >>> grouped([(product, [7]), (product, [9])])[0]["calls"]
    [[7], [9]]
    """
    alike: dict[str, tuple[tuple[str, Any, Any, Any], list[list[int]]]] = {}
    for what, correlations in calls:
        alike.setdefault(json.dumps(what), (what, []))[1].append(correlations)
    return [
        dict(zip(("name", "dims", "types", "concrete"), what, strict=True))
        | {"calls": made[i : i + _PER_LINE]}
        for what, made in alike.values()
        for i in range(0, len(made), _PER_LINE)
    ]
