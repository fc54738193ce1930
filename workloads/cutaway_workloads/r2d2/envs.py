"""Environments as an actor sees them: a step writes the observation straight into the actor's slot.

atari:Pong            Arcade Learning Environment with SEED RL's preprocessing
CartPole-v1, …        any gymnasium id with a flat observation and discrete actions
tmaze:5               our memory task: a cue, a corridor of 5, a junction
cartpole:masked       CartPole without velocities
synthetic:500         burns 500 µs of CPU a step; 84×84 observations
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cutaway import CutawayError

from .shared import Array


@dataclass(frozen=True)
class EnvSpec:
    """What the other processes need to know of an environment."""

    shape: tuple[int, ...]
    dtype: str
    actions: int
    action_repeat: int = 1

    @property
    def image(self) -> bool:
        """Images are stacked and go through the convolutional torso."""
        return len(self.shape) == 2

    @property
    def stack(self) -> int:
        return 4 if self.image else 1


class Env(Protocol):
    """`reset` and `step` write the observation into `out`; an ended episode is reset by the caller."""

    spec: EnvSpec

    def reset(self, out: Array) -> None: ...

    def step(self, action: int, out: Array) -> tuple[float, bool]: ...


def make(name: str, seed: int) -> Env:
    """The environment of that name; unknown names raise a `CutawayError` that says what would do.

    >>> make("tmaze:5", seed=1).spec.actions
    3
    """
    kind, _, argument = name.partition(":")
    makers: dict[str, Callable[[str, int], Env]] = {
        "atari": _atari,
        "tmaze": _tmaze,
        "synthetic": _synthetic,
        "cartpole": _cartpole,
    }
    if argument and kind in makers:
        return makers[kind](argument, seed)
    return _gymnasium(name, seed)


def _atari(game: str, seed: int) -> Env:
    from .atari import Atari

    return Atari(game, seed)


def _tmaze(argument: str, seed: int) -> Env:
    from .toys import TMaze

    return TMaze(_number(argument, f"tmaze:{argument}", "tmaze:5"), seed)


def _synthetic(argument: str, seed: int) -> Env:
    from .toys import Synthetic

    return Synthetic(_number(argument, f"synthetic:{argument}", "synthetic:500"), seed)


def _cartpole(argument: str, seed: int) -> Env:
    from .toys import Gymnasium

    if argument != "masked":
        raise CutawayError(
            f"Unknown environment cartpole:{argument}: write cartpole:masked or CartPole-v1."
        )
    return Gymnasium("CartPole-v1", seed, keep=(0, 2))


def _gymnasium(name: str, seed: int) -> Env:
    from .toys import Gymnasium

    return Gymnasium(name, seed)


def _number(text: str, name: str, example: str) -> int:
    if not text.isdigit():
        raise CutawayError(
            f"Environment {name} needs a whole number after the colon, as in {example}."
        )
    return int(text)
