"""One clock for a run of several hosts.

Every host counts CLOCK_MONOTONIC from its own boot. The wall clocks in the anchors say roughly how far two hosts lie apart.
Their connections say it better: what one end has received or acknowledged, the other end has sent before. The log holds
how far each connection had got at many moments (`link` lines), so each pair of moments may bound the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.log import Log

_SLACK = 2
"""Bytes by which the kernel's counters may differ for the same data: the ends of a connection count as one byte each."""
_FAR = 1 << 62


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
    for via in size:
        for a in size:
            for b in size:
                bound[a][b] = min(bound[a][b], bound[a][via] + bound[via][b])
    return bound


def _bound(a: _Host, b: _Host) -> int:
    found = [_FAR]
    for on, samples in a.links.items():
        kind, _, ends = on.partition(":")
        here, _, there = ends.partition(">")
        if others := b.links.get(f"{kind}:{there}>{here}"):
            found += [*_sent_before_got(samples, others), *_got_before_acked(samples, others)]
    return min(found)


def _sent_before_got(sender: list[tuple[int, ...]], receiver: list[tuple[int, ...]]) -> list[int]:
    """When the receiver has more than the sender had sent, its moment is the later one."""
    sent, got = _columns(sender), _columns(receiver)
    at = np.searchsorted(got[4], sent[2] + _SLACK, side="right")
    known = at < len(got[4])
    later, earlier = got[1][at[known]], sent[0][known]
    return [int((later - earlier).min())] if known.any() else []


def _got_before_acked(receiver: list[tuple[int, ...]], sender: list[tuple[int, ...]]) -> list[int]:
    """When the sender knows of more than the receiver had, the sender's moment is the later one."""
    got, sent = _columns(receiver), _columns(sender)
    at = np.searchsorted(sent[3], got[4] + _SLACK, side="right")
    known = at < len(sent[3])
    later, earlier = sent[1][at[known]], got[0][known]
    return [int((later - earlier).min())] if known.any() else []


def _columns(samples: list[tuple[int, ...]]) -> NDArray[np.int64]:
    """(from, until, sent, acked, got), ordered by time; the counters only grow."""
    columns: NDArray[np.int64] = np.array(sorted(samples), np.int64).T
    return columns
