"""One clock for a run of several hosts.

Every host counts CLOCK_MONOTONIC from its own boot. The wall clocks in the anchors say roughly how far two hosts lie apart.
Their connections say it better: what one end has received or acknowledged, the other end has sent before. The log holds
how far each connection had got at many moments (`link` lines), so each pair of moments may bound the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.log import Log

_SLACK = 2
"""Bytes by which the kernel's counters may differ for the same data: the ends of a connection count as one byte each."""
_FAR = 1 << 62
_FROM, _UNTIL, _SENT, _ACKED, _GOT = range(5)  # columns of samples


@dataclass(frozen=True)
class HostClock:
    """How the clock of a host was moved: by so much, known to within `error_ns` (None: by wall clocks only)."""

    shift_ns: int
    error_ns: int | None


@dataclass
class _Host:
    wall: list[int] = field(default_factory=list)  # wall clock minus monotonic clock
    links: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)


def host_clocks(logs: Iterable[tuple[str, Log]]) -> dict[str, HostClock]:
    """The clocks of all hosts of a run, on that of the host that has been up longest, so that no time becomes negative."""
    hosts: dict[str, _Host] = {}
    for name, log in logs:
        host = hosts.setdefault(name, _Host())
        host.wall += [anchor.real - anchor.mono + log.shift for anchor in log.anchors if anchor.real]
        for on, start, end, *counters in log.links:
            host.links.setdefault(on, []).append((start - log.shift, end - log.shift, *counters))
    walls = {name: int(np.median(host.wall)) for name, host in hosts.items() if host.wall}
    if not walls:
        return {name: HostClock(0, None) for name in hosts}
    reference = min(walls, key=lambda name: walls[name])
    names = sorted(hosts)
    bound = _bounds([hosts[name] for name in names])
    clocks = {}
    for place, name in enumerate(names):
        wall = walls.get(name, walls[reference]) - walls[reference]
        most, least = bound[place][names.index(reference)], -bound[names.index(reference)][place]
        clocks[name] = HostClock(0, 0) if name == reference else _within(wall, least, most)
    return clocks


def _within(wall: int, least: int, most: int) -> HostClock:
    if most >= _FAR or least <= -_FAR:
        return HostClock(max(0, min(max(wall, least), most)), None)
    middle = wall if least <= wall <= most else (least + most) // 2
    return HostClock(max(0, middle), max(abs(most - middle), abs(middle - least)))


def _bounds(hosts: Sequence[_Host]) -> list[list[int]]:
    """`[a][b]`: how much more than that of `b` the shift of `a` can be at most; through third hosts as well."""
    size = range(len(hosts))
    bound = [[0 if a == b else min(_FAR, _bound(hosts[a], hosts[b])) for b in size] for a in size]
    for via, a, b in product(size, repeat=3):
        bound[a][b] = min(bound[a][b], bound[a][via] + bound[via][b])
    return bound


def _bound(a: _Host, b: _Host) -> int:
    found = [_FAR]
    for on, samples in a.links.items():
        kind, _, ends = on.partition(":")
        here, _, there = ends.partition(">")
        if others := b.links.get(f"{kind}:{there}>{here}"):
            mine, theirs = _columns(samples), _columns(others)
            # When one end has received more than the other had sent, or knows of more than the other had, it is later.
            found += [*_apart(mine, _SENT, theirs, _GOT), *_apart(mine, _GOT, theirs, _ACKED)]
    return min(found)


def _apart(a: NDArray[np.int64], counted: int, b: NDArray[np.int64], beyond: int) -> list[int]:
    """The least time from a moment of `a` to the first of `b` that counts more than `a` did then."""
    at = np.searchsorted(b[beyond], a[counted] + _SLACK, side="right")
    known = at < len(b[beyond])
    later, earlier = b[_UNTIL][at[known]], a[_FROM][known]
    return [int((later - earlier).min())] if known.any() else []


def _columns(samples: list[tuple[int, ...]]) -> NDArray[np.int64]:
    """Ordered by time; the counters only grow."""
    columns: NDArray[np.int64] = np.array(sorted(samples), np.int64).T
    return columns
