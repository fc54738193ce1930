"""What an allocator did, event by event, as sums by who allocated: how much there was at most, and who had what then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Key = tuple[str, int]
"""An operation, and the frame of a stack (log "frame"); "" and 0 where nobody knows."""


UNKNOWN = -1
"""The address of what was allocated before, if nobody knows where it lies."""


class Event(NamedTuple):
    """An allocation, or a release (`size` below 0), with what its device has after it."""

    device: int  # -1: the CPU
    address: int
    size: int
    allocated: int
    reserved: int
    key: Key


@dataclass
class Sum:
    """One operation or line on one device."""

    peak: int = 0  # most that was allocated after one of its events, by all together
    reserved: int = 0  # what the allocator had then
    kept: int = 0
    count: int = 0
    held: int = 0  # its own part of the most that the device ever had

    def add(self, event: Event) -> None:
        """Take in an event."""
        if event.allocated >= self.peak:
            self.peak = event.allocated
            self.reserved = event.reserved
        self.kept += event.size
        self.count += 1


def sums(events: Sequence[Event]) -> dict[tuple[int, Key], Sum]:
    """By device and key. What was allocated before the first event belongs to nobody."""
    found: defaultdict[tuple[int, Key], Sum] = defaultdict(Sum)
    alive: defaultdict[int, dict[int, tuple[int, Key]]] = defaultdict(dict)
    fullest = _fullest(events)
    for number, event in enumerate(events):
        found[event.device, event.key].add(event)
        own = alive[event.device]
        if event.size > 0 and event.address > UNKNOWN:
            own[event.address] = (event.size, event.key)
        else:
            own.pop(event.address, None)
        if fullest[event.device] == number:
            _divide(event, own, found)
    return dict(found)


def _fullest(events: Sequence[Event]) -> dict[int, int]:
    """The number of the event after which each device had most."""
    most: dict[int, tuple[int, int]] = {}
    for number, event in enumerate(events):
        if event.device not in most or event.allocated > most[event.device][0]:
            most[event.device] = (event.allocated, number)
    return {device: number for device, (_, number) in most.items()}


def _divide(
    event: Event,
    alive: dict[int, tuple[int, Key]],
    found: defaultdict[tuple[int, Key], Sum],
) -> None:
    """Who has what of all that is allocated now."""
    known = 0
    for size, key in alive.values():
        found[event.device, key].held += size
        known += size
    if event.allocated > known:
        found[event.device, ("", 0)].held += event.allocated - known
