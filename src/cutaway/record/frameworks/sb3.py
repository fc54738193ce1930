"""Stable-Baselines3, sb3-contrib and SBX, which share their base classes: the two loops, policies, buffers."""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks.cover import cover, cover_family
from cutaway.record.frameworks.gymnasium import cover_vectors
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

POLICY_CALLS = ("forward", "predict", "predict_values", "predict_all")


def install() -> None:
    when_imported("stable_baselines3.common.base_class", _algorithms)
    when_imported("stable_baselines3.common.policies", _policies)
    when_imported("stable_baselines3.common.vec_env.base_vec_env", _vectors)
    for name in ("stable_baselines3.common.buffers", "cleanrl_utils.buffers"):
        when_imported(name, _buffers)
    for name in ("stable_baselines3.common.evaluation", "sb3_contrib.common.maskable.evaluation"):
        when_imported(name, _evaluation)
    when_imported("sb3_contrib.ars.ars", _random_search)


def _algorithms(module: ModuleType) -> None:
    """One pass of every learn() is collect_rollouts, then train: the former begins an iteration."""
    base = module.BaseAlgorithm
    cover_family(base, ("train",), "backpropagation")
    cover_family(base, ("collect_rollouts",), None, iteration=True)
    cover_family(base, ("save", "save_replay_buffer"), "checkpoint")


def _policies(module: ModuleType) -> None:
    cover_family(module.BasePolicy, POLICY_CALLS, "inference")


def _vectors(module: ModuleType) -> None:
    cover_vectors(module.VecEnv)


def _buffers(module: ModuleType) -> None:
    # `get` of a rollout buffer is a generator; what it does for each minibatch is _get_samples.
    cover_family(module.BaseBuffer, ("add",), "replay")
    cover_family(module.BaseBuffer, ("sample", "_get_samples"), "replay", mark="batch")


def _evaluation(module: ModuleType) -> None:
    cover(module, "evaluate_policy", "evaluation")


def _random_search(module: ModuleType) -> None:
    """ARS trains by evaluating candidates: what it calls evaluation is its simulation."""
    evaluate: Any = module.evaluate_policy
    if type(evaluate) is _recorder.Span:
        module.evaluate_policy = evaluate.__wrapped__  # type: ignore[attr-defined]
    cover(module.ARS, "_do_one_update", None, iteration=True)
