"""What the collectors written in Python find: API calls, device work, operators with their shapes. Imported when there is any."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

_PER_LINE = 500


class Api(NamedTuple):
    """One accelerator API call of a host thread."""

    name: str
    start: int
    end: int
    correlation: int = 0
    os_thread: int = 0
    synchronises: bool = False


class Work(NamedTuple):
    """One piece of device work."""

    name: str
    kind: int
    start: int
    end: int
    correlation: int = 0
    device: int = 0
    stream: int = 0
    size: int = 0
    graph: int = 0
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers: int = 0
    shared: int = 0


def operator_entries(
    calls: Iterable[tuple[tuple[str, Any, Any, Any], list[int]]],
) -> list[dict[str, Any]]:
    """Log entries "operator": one for each operator and its shapes, with the correlation ids of the launches of every call.

    >>> product = ("aten::mm", [[2, 3], [3, 4]], ["float", "float"], [])
    >>> operator_entries([(product, [7]), (product, [9])])[0]["calls"]
    [[7], [9]]
    """
    alike: dict[str, tuple[tuple[str, Any, Any, Any], list[list[int]]]] = {}
    for what, correlations in calls:
        alike.setdefault(json.dumps(what), (what, []))[1].append(correlations)
    lines = []
    for what, made in alike.values():
        about = dict(zip(("name", "dims", "types", "concrete"), what, strict=True))
        for i in range(0, len(made), _PER_LINE):
            lines.append(about | {"calls": made[i : i + _PER_LINE]})
    return lines
