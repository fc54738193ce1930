"""EnvPool: `send` and `recv` are simulation; `step` is both of them, counted once. Each reward received is a step."""

from __future__ import annotations

from cutaway.record.frameworks.cover import Rule, rewards

# Before gymnasium's rules reach the classes made of this: there a step is always as wide as the pool.
RULES = (
    Rule("envpool.python.envpool", "EnvPoolMixin", "step recv", "simulation", steps=rewards),
    Rule("envpool.python.envpool", "EnvPoolMixin", "send reset async_reset", "simulation"),
)
