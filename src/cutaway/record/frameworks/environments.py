"""gymnasium (and gym before it), EnvPool: the outermost step and reset are simulation, whatever wrappers lie inside."""

from __future__ import annotations

from cutaway.record.frameworks.hooks import Rule, rewards


def _is_vector(cls: type) -> bool:
    """EnvPool's classes are environments and vector environments at once."""
    return any(base.__name__ == "VectorEnv" for base in cls.__mro__)


def vectors(modules: str, base: str) -> tuple[Rule, Rule]:
    """A vector environment makes as many steps as it is wide; step = step_async + step_wait, counted once."""
    return (
        Rule(modules, base, simulation="step step_wait", steps="num_envs"),
        Rule(modules, base, simulation="reset reset_async reset_wait step_async"),
    )


RULES = (
    # EnvPool: `step` is send and recv, counted once. It comes before gymnasium's rules reach the classes made of this: there a
    # step is always as wide as the pool.
    Rule(
        "envpool.python.envpool", "EnvPoolMixin", simulation="step recv", steps=rewards
    ),
    Rule("envpool.python.envpool", "EnvPoolMixin", simulation="send reset async_reset"),
    Rule(
        "gymnasium.core gym.core", "Env+", simulation="step", leave=_is_vector, steps=1
    ),
    Rule("gymnasium.core gym.core", "Env+", simulation="reset", leave=_is_vector),
    Rule("gymnasium.spaces.space gym.spaces.space", "Space+", "sample", mark="random"),
    *vectors("gymnasium.vector.vector_env gym.vector.vector_env", "VectorEnv+"),
)
