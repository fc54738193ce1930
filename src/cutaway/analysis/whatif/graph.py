"""A run that can be replayed: threads with what each of them did, and what they give to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.items import DELAY, Items
from cutaway.machines.machine import Machine

GIL_LAYERS = ("python", "native", "simulator")
MESSAGE = "message"
"""The layer of what it takes to hand something to another process: nobody makes that faster who makes an operation faster."""
_WARM_UP = 3  # iterations


class Key(NamedTuple):
    """Whose work it is: what changes and elasticities are about."""

    process: int
    thread: int
    operation: str
    layer: str
    title: str = ""  # of a kernel

    @property
    def place(self) -> tuple[int, str, str]:
        """Without the thread."""
        return self.process, self.operation, self.layer


@dataclass(frozen=True)
class Thread:
    """A thread of the graph, or a stream of a device."""

    process: int
    name: str
    device: bool = False


@dataclass(frozen=True)
class Segment:
    """Some iterations that follow each other, of all threads, with what every channel held at the start."""

    items: list[Items]
    channels: list[float]
    seconds: list[float]  # of each iteration, as recorded

    @property
    def warm_up(self) -> int:
        """How many iterations at the start live on what the channels happened to hold; all, if there are few."""
        count = len(self.seconds)
        return max(_WARM_UP, count // 4) if count > 2 * _WARM_UP else count


@dataclass(frozen=True)
class Graph:
    """A run that can be replayed. `steps`: environment steps of an iteration."""

    threads: list[Thread]
    keys: list[Key]
    channels: list[str]
    segments: list[Segment]
    leader: int
    cores: int
    steps: float = 0.0
    notes: list[str] = field(default_factory=list)
    wake: float = 0.0  # seconds a thread loses when it wakes on a core that sleeps
    machine: Machine | None = None  # another one than it was recorded on
    kept: Mapping[Key, float] = field(default_factory=dict)
    """How much of its work each key would have without the recorder; all of it, if a key is missing."""

    @property
    def unrecorded(self) -> NDArray[np.float64]:
        """The factor of each key's time that takes away what recording cost."""
        return np.array([self.kept.get(key, 1.0) for key in self.keys])

    @property
    def on_devices(self) -> bool:
        """Whether some of the work is a device's."""
        return any(thread.device for thread in self.threads)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """The recorded iterations that count."""
        return self.settled([np.array(segment.seconds) for segment in self.segments])

    def settled(self, seconds: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Iterations of all segments without those that warm up; all of them, if nothing else is left."""
        warm_ups = [segment.warm_up for segment in self.segments]
        kept = [own[skipped:] for own, skipped in zip(seconds, warm_ups, strict=True)]
        return np.concatenate(kept if any(map(len, kept)) else seconds)

    def seconds_by_key(self) -> dict[Key, float]:
        """What all threads worked, or waited for nobody known."""
        totals = np.zeros(len(self.keys))
        for items in chain.from_iterable(segment.items for segment in self.segments):
            own = items.kinds <= DELAY
            totals += np.bincount(items.whats[own], items.amounts[own], len(totals))
        return dict(zip(self.keys, totals.tolist(), strict=True))

    @property
    def events(self) -> int:
        """How many items a replay works off."""
        items = chain.from_iterable(segment.items for segment in self.segments)
        return sum(map(len, items))
