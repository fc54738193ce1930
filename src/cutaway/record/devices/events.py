"""What the routes written in Python find: one API call, one piece of device work. Imported once there is some."""

from __future__ import annotations

from typing import NamedTuple


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
