"""Isaac Lab. Its environments are gymnasium's by their class, but each steps `num_envs` of them at once; the wrappers for rsl_rl and
rl_games are vector environments of those. It has no training loop: those of rsl_rl, rl_games, skrl and Stable-Baselines3 train in it.
The hook points were read in its sources; it was not run."""

from __future__ import annotations

from cutaway.record.frameworks import hooks
from cutaway.record.frameworks.card import Card
from cutaway.record.imports import Any

ENVIRONMENTS = {
    "isaaclab.envs.manager_based_rl_env": "ManagerBasedRLEnv",
    "isaaclab.envs.direct_rl_env": "DirectRLEnv",
    "isaaclab.envs.direct_marl_env": "DirectMARLEnv",
}


def _many_at_once(module: Any) -> None:
    """Gymnasium's rule is there first, and counts one step a call."""
    cls = getattr(module, ENVIRONMENTS[module.__name__])
    cls.step = hooks.original(vars(cls)["step"])
    hooks.instrument(cls, "step", "simulation", steps="num_envs")


CARD = Card(
    "Isaac Lab",
    version="2.3",
    modules=dict.fromkeys(ENVIRONMENTS, _many_at_once),
)
