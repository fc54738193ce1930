"""Stable-Baselines3, sb3-contrib and SBX, which share their base classes: the two loops, policies, buffers.

One pass of every learn() is collect_rollouts, then train: the former begins an iteration.
"""

from __future__ import annotations

from cutaway.record.frameworks.cover import Rule, cover, is_covered
from cutaway.record.frameworks.gymnasium import vectors
from cutaway.record.imports import Any

ALGORITHMS = ("stable_baselines3.common.base_class", "BaseAlgorithm+")
BUFFERS = ("stable_baselines3.common.buffers cleanrl_utils.buffers", "BaseBuffer+")
EVALUATIONS = "stable_baselines3.common.evaluation sb3_contrib.common.maskable.evaluation"
POLICY_CALLS = "forward predict predict_values predict_all"
RULES = (
    Rule(*ALGORITHMS, "train", "backpropagation"),
    Rule(*ALGORITHMS, "collect_rollouts", iteration=True),
    Rule(*ALGORITHMS, "save save_replay_buffer", "checkpoint"),
    Rule("stable_baselines3.common.policies", "BasePolicy+", POLICY_CALLS, "inference"),
    *vectors("stable_baselines3.common.vec_env.base_vec_env", "VecEnv+"),
    # `get` of a rollout buffer is a generator; what it does for each minibatch is _get_samples.
    Rule(*BUFFERS, "add", "replay"),
    Rule(*BUFFERS, "sample _get_samples", "replay", mark="batch"),
    Rule(EVALUATIONS, "", "evaluate_policy", "evaluation"),
)


def _random_search(module: Any) -> None:
    """ARS trains by evaluating candidates: what it calls evaluation is its simulation."""
    if is_covered(module.evaluate_policy):
        module.evaluate_policy = module.evaluate_policy.__wrapped__
    cover(module.ARS, "_do_one_update", None, iteration=True)


MODULES = {"sb3_contrib.ars.ars": _random_search}
