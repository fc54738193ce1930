"""PUCT tree search: leaves are collected in batches, and a virtual loss keeps the descents of a batch apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cutaway

from .game import Board, Floats

Evaluate = Callable[[Floats], tuple[Floats, Floats]]
EXPLORATION = 1.5
NOISE_SHARE, NOISE_SHAPE = 0.25, 0.3
LOSS = 1.0
"""Virtual loss: what a descent under way counts as, until its leaf is evaluated."""


class Node:
    """A position. Visits and values are those of its moves, seen by who is to move here."""

    __slots__ = ("children", "moves", "prior", "state", "value", "values", "visits")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.moves: list[int] = []
        self.prior = self.visits = self.values = np.zeros(0)
        self.children: dict[int, Node] = {}
        self.value: float | None = None  # of a position where the game is over

    def expand(self, probabilities: NDArray[Any]) -> None:
        self.moves = self.state.legal_actions()
        prior = probabilities[self.moves].astype(np.float64)
        self.prior = prior / max(prior.sum(), 1e-9)
        self.visits, self.values = np.zeros(len(self.moves)), np.zeros(len(self.moves))

    def best(self) -> int:
        """Which of `moves` to follow: value so far, and what its prior promises."""
        mean = self.values / np.maximum(self.visits, 1)
        promise = (
            EXPLORATION
            * self.prior
            * np.sqrt(self.visits.sum() + 1)
            / (1 + self.visits)
        )
        return int(np.argmax(mean + promise))


@dataclass(frozen=True)
class Search:
    """How far to look: `simulations` descents, `leaves` of them evaluated at once."""

    board: Board
    simulations: int = 64
    leaves: int = 8

    def run(
        self, state: Any, evaluate: Evaluate, noise: np.random.Generator | None = None
    ) -> Floats:
        """The share of visits of every move."""
        with cutaway.operation("search"):
            root = Node(state.clone())
            self._expand([root], evaluate)
            if noise is not None:
                drawn = noise.dirichlet([NOISE_SHAPE] * len(root.moves))
                root.prior = (1 - NOISE_SHARE) * root.prior + NOISE_SHARE * drawn
            for first in range(0, self.simulations, self.leaves):
                self._round(root, min(self.leaves, self.simulations - first), evaluate)
        policy = np.zeros(self.board.moves, np.float32)
        policy[root.moves] = root.visits / root.visits.sum()
        return policy

    def _round(self, root: Node, descents: int, evaluate: Evaluate) -> None:
        paths = [_descend(root) for _ in range(descents)]
        leaves = {id(leaf): leaf for leaf, _ in paths if leaf.value is None}
        found = self._expand(list(leaves.values()), evaluate) if leaves else []
        values = dict(zip(leaves, found, strict=True))
        for leaf, path in paths:
            _back_up(path, values[id(leaf)] if leaf.value is None else leaf.value)

    def _expand(self, nodes: Sequence[Node], evaluate: Evaluate) -> list[float]:
        with cutaway.operation("simulation"):
            planes = np.stack([self.board.planes(node.state) for node in nodes])
        policies, values = evaluate(planes)
        with cutaway.operation("simulation"):
            for node, policy in zip(nodes, policies, strict=True):
                node.expand(policy)
        return [float(value) for value in values]


def _descend(root: Node) -> tuple[Node, list[tuple[Node, int]]]:
    """Down to a position that is not evaluated yet, or where the game is over; and the way there."""
    node, path = root, []
    while node.moves and node.value is None:
        chosen = node.best()
        path.append((node, chosen))
        node.visits[chosen] += 1
        node.values[chosen] -= LOSS
        child = node.children.get(chosen)
        if child is None:
            child = node.children[chosen] = _play(node, chosen)
        node = child
    return node, path


def _play(node: Node, chosen: int) -> Node:
    with cutaway.operation("simulation"):
        state = node.state.clone()
        mover = state.current_player()
        state.apply_action(node.moves[chosen])
        child = Node(state)
        if state.is_terminal():
            child.value = -state.returns()[mover]  # for who would be to move
    return child


def _back_up(path: Sequence[tuple[Node, int]], value: float) -> None:
    for node, chosen in reversed(path):
        value = -value
        node.values[chosen] += LOSS + value
