"""A stretch of time cut into bins, as the lanes of the page draw it."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.sweep import Bins

FULL = 60  # a bin that belongs to one state entirely; small, so that it packs well

Plane = tuple[str, str]  # operation, layer


@dataclass
class Window:
    """A stretch of time cut into bins; `rows[i][plane]` is the time of a state in each bin."""

    cut: Bins
    rows: list[dict[Plane, NDArray[np.float64]]] = field(default_factory=list)

    def add(self, row: int, plane: Plane, total: NDArray[Any]) -> None:
        """Add the time of a state in each bin to a row."""
        self.rows[row][plane] = self.rows[row].get(plane, 0.0) + total.astype(float)

    def halve(self) -> None:
        """Join neighbouring bins."""
        self.cut = Bins(self.cut.start, self.cut.width * 2, self.cut.count // 2)
        for row in self.rows:
            for plane, total in row.items():
                row[plane] = total.reshape(-1, 2).sum(axis=1)

    def packed(self, planes: list[Plane]) -> str:
        """Bytes row × plane × bin, deflated, as base64; no bin gets more than FULL of all planes together."""
        out = np.zeros((len(self.rows), len(planes), self.cut.count), np.uint8)
        for i, row in enumerate(self.rows):
            scale = FULL / np.maximum(sum(row.values()), self.cut.width)
            for j, plane in enumerate(planes):
                if plane in row:
                    out[i, j] = np.rint(row[plane] * scale)
        return base64.b64encode(zlib.compress(out.tobytes(), 6)).decode()
