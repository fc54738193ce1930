"""Whole games: self-play that gives examples, and matches of two networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import cutaway

from .game import Floats
from .search import Evaluate, Search


def self_play(
    search: Search, evaluate: Evaluate, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """One game against itself: planes, policies and results (seen by who was to move) of its positions."""
    state = search.board.start()
    planes, policies, movers = [], [], []
    while not state.is_terminal():
        policy = search.run(state, evaluate, rng)
        planes.append(search.board.planes(state))
        policies.append(policy)
        movers.append(state.current_player())
        early = len(movers) <= search.board.size**2 // 3
        state.apply_action(
            int(
                rng.choice(len(policy), p=_sure(policy)) if early else np.argmax(policy)
            )
        )
        cutaway.step()
    won = np.array([state.returns()[mover] for mover in movers], np.float32)
    return np.stack(planes), np.stack(policies), won


def match(
    search: Search, players: Sequence[Evaluate], rng: np.random.Generator, black: int
) -> bool:
    """One game; whether player 0 wins. The first moves are drawn from the search, so that games differ."""
    state = search.board.start()
    move = 0
    while not state.is_terminal():
        policy = search.run(state, players[black ^ state.current_player()])
        chosen = (
            rng.choice(len(policy), p=_sure(policy)) if move < 4 else np.argmax(policy)
        )
        state.apply_action(int(chosen))
        move += 1
        cutaway.step()
    return bool(state.returns()[black] > 0)


def _sure(policy: Floats) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    exact = policy.astype(np.float64)
    return np.asarray(exact / exact.sum())
