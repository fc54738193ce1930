"""EnvPool: `send` and `recv` are simulation; `step` is both of them, counted once. Each reward received is a step."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.frameworks.cover import cover
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    when_imported("envpool.python.envpool", _pools)


def _pools(module: ModuleType) -> None:
    # Before gymnasium's rules reach the classes made of this: there a step is always as wide as the pool.
    for name in ("step", "recv"):
        cover(module.EnvPoolMixin, name, "simulation", steps=_received)
    for name in ("send", "reset", "async_reset"):
        cover(module.EnvPoolMixin, name, "simulation")


def _received(pool: Any, result: Any) -> int:
    """(observation, reward, …) or a dm_env.TimeStep, whose reward is its second field, too."""
    return len(result[1])
