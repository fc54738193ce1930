"""One run as a matrix: the time of each iteration of its steady state, by cell.

`diff` and `compare` both start here, so they choose the same iterations, the same
blocks and the same interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Floats = NDArray[np.float64]
Key = tuple[str, ...]
"""A cell, the leading names of one, or () for everything."""
CELL = ("operation", "layer", "resource")

FEWEST_ITERATIONS = 5
"""Fewer than this say nothing about how much iterations vary."""
MOST_BLOCKS = 20
LEAST_RECORDED = 0.5
"""What must have been recorded of an iteration that counts."""


@dataclass(frozen=True)
class Measured:
    """The iterations of the leading process that count, and what they consist of."""

    iterations: Table
    cells: dict[Key, Floats]
    """Recorded nanoseconds of each iteration, by operation, layer and resource."""

    def __len__(self) -> int:
        return len(self.iterations)

    @property
    def recorded(self) -> Floats:
        """Which share of each iteration was recorded."""
        return np.asarray(self.iterations["recorded"], np.float64)

    @property
    def lasted(self) -> Floats:
        """Nanoseconds from the start of each iteration to the start of the next."""
        lasted = self.iterations["end_ns"] - self.iterations["start_ns"]
        return np.asarray(lasted, np.float64)


def measure(run: Run) -> Measured:
    """Sweeps a run by iteration. `Run` keeps the result."""
    own = _iterations(run)
    position = {number: at for at, number in enumerate(own["iteration"].tolist())}
    cells: defaultdict[Key, Floats] = defaultdict(lambda: np.zeros(len(own)))
    if len(own):
        swept = run.breakdown(by=("process", *CELL, "iteration"))
        for row in swept.where(process=run.main_process):
            at = position.get(row["iteration"])
            if at is not None:
                key = (row["operation"], row["layer"], row["resource"])
                cells[key][at] += row["ns"]
    return Measured(own, dict(cells))


def _iterations(run: Run) -> Table:
    """Those of the steady state that were recorded for the most part, event by event.

    The last one does not count: nothing marks its end, so it holds the end of the
    program, too.
    """
    own = run.steady().iterations().where(process=run.main_process)
    own = own.head(max(len(own) - 1, 0))
    recorded = own["recorded"] >= LEAST_RECORDED
    return own.where(recorded & (own["start_ns"] >= run.full_since))


def matrix(cells: dict[Key, Floats], keys: Sequence[Key], count: int) -> Floats:
    """Iterations (rows) by key (columns). Cells below a shorter key are added up."""
    out = np.zeros((count, len(keys)))
    column = {key: at for at, key in enumerate(keys)}
    for cell, ns in cells.items():
        for length in range(len(cell) + 1):
            at = column.get(cell[:length])
            if at is not None:
                out[:, at] += ns
    return out


def blocks(times: Floats, weights: Floats | None = None) -> Floats | None:
    """Time per unit in blocks of neighbouring iterations; None for too few of them.

    Neighbours are alike, so single iterations would promise too narrow an interval. A
    block holds about as many iterations as there are blocks, until there are 20.
    `weights` says how many units each iteration holds.
    """
    count = len(times)
    if count < FEWEST_ITERATIONS:
        return None
    if weights is None:
        weights = np.ones(count)
    number = min(MOST_BLOCKS, max(FEWEST_ITERATIONS, round(count**0.5)))
    block = np.arange(count) * number // count
    units = np.bincount(block, weights, number)
    sums = np.zeros((number, times.shape[1]))
    np.add.at(sums, block, times)
    used = units > 0
    if used.sum() < FEWEST_ITERATIONS:
        return None
    return np.asarray(sums[used] / units[used][:, None])
