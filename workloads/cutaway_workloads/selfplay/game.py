"""Go as the network sees it: planes from the side of who is to move, and the symmetries of the board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
PLANES = 4


@dataclass(frozen=True)
class Board:
    """Rules by OpenSpiel; a move is a point, or the last number for a pass."""

    size: int = 9
    komi: float = 7.5

    @property
    def moves(self) -> int:
        return self.size**2 + 1

    def start(self) -> Any:
        import pyspiel

        return pyspiel.load_game(
            "go", {"board_size": self.size, "komi": self.komi}
        ).new_initial_state()

    def planes(self, state: Any) -> Floats:
        """Own stones, the other's, empty points, and whether White is to move."""
        seen = np.array(state.observation_tensor(0), np.float32).reshape(
            -1, self.size, self.size
        )
        white = state.current_player() == 1
        own, other = (1, 0) if white else (0, 1)
        return np.stack([seen[own], seen[other], seen[2], np.full_like(seen[0], white)])

    def turned(self, planes: Floats, policy: Floats, way: int) -> tuple[Floats, Floats]:
        """A batch seen in one of the eight ways to lay a board."""
        points = policy[:, :-1].reshape(-1, self.size, self.size)
        planes, points = (
            np.rot90(planes, way % 4, (2, 3)),
            np.rot90(points, way % 4, (1, 2)),
        )
        if way >= 4:
            planes, points = planes[..., ::-1], points[..., ::-1]
        return np.ascontiguousarray(planes), np.hstack(
            [points.reshape(len(points), -1), policy[:, -1:]]
        )
