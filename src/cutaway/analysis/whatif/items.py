"""What a thread does, in order: the items that native/replay/replay.h works off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# As in native/replay/replay.h
RUN, RUN_GIL, DELAY, GIVE, TAKE, PEEK, PASS, ASK, COLLECT, EACH, ANSWER = range(11)
PATIENCE, EACH_DELAY = 11, 12
Item = tuple[int, int, float]
"""A kind, a key or a channel, seconds or an amount."""
_SWITCH = 5e-3  # seconds after which CPython hands its lock over


@dataclass(frozen=True)
class Items:
    """What a thread does, in order."""

    kinds: NDArray[np.uint8]
    whats: NDArray[np.uint32]
    amounts: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Item]:
        return zip(
            self.kinds.tolist(), self.whats.tolist(), self.amounts.tolist(), strict=True
        )

    def picked(self, places: NDArray[np.intp]) -> Items:
        """Those at some places, in that order."""
        return Items(self.kinds[places], self.whats[places], self.amounts[places])

    @staticmethod
    def of(row: Iterable[Item]) -> Items:
        """From single items."""
        table = np.array([*row], np.float64).reshape(-1, 3)
        kinds, whats, amounts = table.T
        return Items(kinds.astype(np.uint8), whats.astype(np.uint32), amounts.copy())


def in_turns(code: NDArray[Any], what: NDArray[Any], amount: NDArray[Any]) -> Items:
    """Items, with work under the interpreter lock cut where CPython hands the lock over."""
    parts = (
        np.where(code == RUN_GIL, np.ceil(amount / _SWITCH), 1).astype(np.int64).clip(1)
    )
    return Items(
        np.repeat(code, parts).astype(np.uint8),
        np.repeat(what, parts).astype(np.uint32),
        np.repeat(amount / parts, parts),
    )
