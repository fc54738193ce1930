"""Environments of every shape that no library's rules know, and classes that look like one. Each is stepped 20 times."""

from __future__ import annotations

import sys
from collections import namedtuple
from typing import Any

import numpy as np

TimeStep = namedtuple("TimeStep", "step_type reward discount observation")
STEPS = 20


class Bare:
    def reset(self) -> float:
        return 0.0

    def step(self, action: int) -> Any:
        return 0.5, 1.0, False


class Gym21(Bare):
    def step(self, action: int) -> Any:
        return np.zeros(4), 1.0, np.bool_(False), {}


class Vector(Bare):
    def step(self, action: Any) -> Any:
        return (
            np.zeros((8, 4)),
            np.ones(8, np.float32),
            np.zeros(8, bool),
            np.zeros(8, bool),
            {},
        )


class Privileged(Bare):
    """The order of older rsl_rl: two observations first; the ends are whole numbers."""

    def step(self, action: Any) -> Any:
        return np.zeros((8, 4)), None, np.ones(8, np.float32), np.zeros(8, np.int64), {}


class Functional(Bare):
    """gymnax: the state goes in and out."""

    def step(self, key: Any, state: Any, action: Any) -> Any:
        return np.zeros(4), state, np.float32(1.0).reshape(()), np.zeros((), bool), {}


class DeepMind(Bare):
    def step(self, action: int) -> Any:
        return TimeStep(1, 1.0, 1.0, np.zeros(4))


class State:
    reward, done = np.ones(8), np.zeros(8)


class Physics(Bare):
    """Brax, MuJoCo Playground: a state that holds reward and end."""

    def step(self, state: Any, action: Any) -> Any:
        return State()


class Parallel(Bare):
    """PettingZoo: a dictionary for each of them, by agent."""

    def step(self, actions: Any) -> Any:
        return (
            {"a": 0, "b": 0},
            {"a": 1.0, "b": 0.0},
            {"a": False, "b": False},
            {"a": False, "b": False},
            {},
        )


class InTurns(Bare):
    """PettingZoo's AEC."""

    def __init__(self) -> None:
        self.rewards, self.terminations = {"a": 0.0}, {"a": False}

    def step(self, action: Any) -> None:
        return None


class Advancing:
    def reset(self) -> None: ...

    def advance(self, action: Any) -> Any:
        return 0.5, 1.0, True


class Outer(Bare):
    """A wrapper: both are environments, a step counts once."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def step(self, action: Any) -> Any:
        return self.inner.step(action)


class Scheduler:
    def reset(self) -> None: ...

    def step(self) -> None: ...


class Bar(Scheduler):
    def step(self, n: int = 1) -> bool:  # type: ignore[override]
        return True


class Machine(Scheduler):
    def step(self, event: str = "") -> str:  # type: ignore[override]
        return "waiting"


class Meter(Scheduler):
    def step(self) -> Any:
        return 0.1, 0.2, 0.3, {"loss": 0.1}


class Doubtful(Scheduler):
    def step(self, action: Any = 0) -> Any:
        return np.zeros(4), 1.0


class Dreamed:
    """A dictionary, as DreamerV3's environments return."""

    def reset(self) -> None: ...

    def step(self, action: Any) -> dict[str, Any]:
        return {
            "image": 0,
            "reward": 1.0,
            "is_first": False,
            "is_last": False,
            "is_terminal": False,
        }


class JitTracer:
    """What JAX hands to a function while it writes down what that does."""

    shape, dtype = (8,), "float32"


class Traced:
    """Stepped while it is compiled, and never else."""

    def reset(self) -> None: ...

    def step(self, action: Any) -> tuple[Any, ...]:
        end = JitTracer()
        end.dtype = "bool"
        return JitTracer(), JitTracer(), end, {}


class OfflineBuffer:
    """A data set: nothing is stored while it is drawn from."""

    def reset(self) -> None: ...

    def sample(self, size: int) -> list[int]:
        return [0] * size


class Ring:
    def push(self, one: Any) -> None: ...

    def sample(self, n: int) -> Any:
        return np.zeros((n, 4)), np.zeros(n)


class Dice:
    def add(self, one: Any) -> None: ...

    def sample(self) -> float:
        return 0.5


class Game:
    """Neither a search nor an environment: it returns no reward."""

    def search(self, text: str) -> int:
        return text.find("x")


class Network:
    def train(self, examples: Any) -> None: ...

    def predict(self, board: Any) -> int:
        return board


class Forest:
    """It predicts, but does not train."""

    def predict(self, board: Any) -> int:
        return board


class OthelloMCTS:
    def getActionProb(self, board: Any) -> int:
        return max(self.search(board, depth) for depth in range(3))

    def search(self, board: Any, depth: int) -> int:
        if depth < 1:
            return Network().predict(Forest().predict(board))
        return self.search(board, depth - 1)


def drive(world: Any, method: str = "step", *arguments: Any) -> None:
    world.reset()
    for _ in range(STEPS):
        getattr(world, method)(*arguments)


def main() -> None:
    for cls in (
        Bare,
        Gym21,
        Vector,
        Privileged,
        DeepMind,
        Parallel,
        InTurns,
        Dreamed,
        Traced,
    ):
        drive(cls(), "step", 0)
    drive(Functional(), "step", 0, 0, 0)
    drive(Physics(), "step", 0, 0)
    drive(Advancing(), "advance", 0)
    drive(Outer(Bare()), "step", 0)
    for cls in (Scheduler, Bar, Machine, Meter, Doubtful):
        drive(cls())
        assert type(vars(cls)["step"]).__name__ == "function", cls  # as it was
    drive(OfflineBuffer(), "sample", 16)
    for _ in range(STEPS):
        Game().search("x")
        OthelloMCTS().getActionProb(0)
    for memory in (Ring(), Dice()):
        for _ in range(STEPS):
            next(
                getattr(memory, name)
                for name in ("push", "add")
                if hasattr(memory, name)
            )(0)
            memory.sample(*((16,) if isinstance(memory, Ring) else ()))


if __name__ == "__main__":
    main()
    sys.exit(0)
