"""gymnasium (and gym before it): the outermost step and reset are simulation, whatever wrappers lie inside."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.frameworks.cover import cover_family
from cutaway.record.imports import when_imported


def install() -> None:
    for name in ("gymnasium.core", "gym.core"):
        when_imported(name, _environments)
    for name in ("gymnasium.spaces.space", "gym.spaces.space"):
        when_imported(name, _spaces)
    for name in ("gymnasium.vector.vector_env", "gym.vector.vector_env"):
        when_imported(name, _vectors)


def _environments(module: ModuleType) -> None:
    cover_family(module.Env, ("step",), "simulation", _is_vector, steps=1)
    cover_family(module.Env, ("reset",), "simulation", _is_vector)


def _spaces(module: ModuleType) -> None:
    cover_family(module.Space, ("sample",), None, mark="random")


def _is_vector(cls: type) -> bool:
    """EnvPool's classes are environments and vector environments at once."""
    return any(base.__name__ == "VectorEnv" for base in cls.__mro__)


def _vectors(module: ModuleType) -> None:
    cover_vectors(module.VectorEnv)


def cover_vectors(base: type) -> None:
    """A vector environment makes as many steps as it is wide; step = step_async + step_wait, counted once."""
    cover_family(base, ("step", "step_wait"), "simulation", steps="num_envs")
    cover_family(base, ("reset", "reset_async", "reset_wait", "step_async"), "simulation")
