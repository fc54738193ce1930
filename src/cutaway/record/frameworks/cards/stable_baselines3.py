"""Stable-Baselines3, sb3-contrib and SBX share their base classes. One pass of every learn() is collect_rollouts, then train:
the former begins an iteration."""

from __future__ import annotations

from cutaway.record.frameworks import hooks
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.environments import vectors
from cutaway.record.frameworks.hooks import Rule
from cutaway.record.imports import Any


def buffers(modules: str) -> tuple[Rule, Rule]:
    """`get` of a rollout buffer is a generator; what it does for each minibatch is _get_samples."""
    return (
        Rule(modules, "BaseBuffer+", replay="add"),
        Rule(modules, "BaseBuffer+", replay="sample _get_samples", mark="batch"),
    )


ALGORITHMS = ("stable_baselines3.common.base_class", "BaseAlgorithm+")
POLICIES = ("stable_baselines3.common.policies", "BasePolicy+")
EVALUATIONS = (
    "stable_baselines3.common.evaluation sb3_contrib.common.maskable.evaluation"
)
RULES = [
    Rule(*ALGORITHMS, backpropagation="train", checkpoint="save save_replay_buffer"),
    Rule(*ALGORITHMS, "collect_rollouts", iteration=True),
    Rule(*POLICIES, inference="forward predict predict_values predict_all"),
    *vectors("stable_baselines3.common.vec_env.base_vec_env", "VecEnv+"),
    *buffers("stable_baselines3.common.buffers"),
    Rule(EVALUATIONS, "", evaluation="evaluate_policy"),
]


def _random_search(module: Any) -> None:
    """ARS trains by evaluating candidates: what it calls evaluation is its simulation."""
    module.evaluate_policy = hooks.original(module.evaluate_policy)
    hooks.instrument(module.ARS, "_do_one_update", None, iteration=True)


CARD = Card(
    "Stable-Baselines3, sb3-contrib, SBX",
    version="2.9",
    rules=RULES,
    modules={"sb3_contrib.ars.ars": _random_search},
    loop="stable_baselines3",
    settings=[
        Settings(
            workers="use make_vec_env(..., n_envs={n}, vec_env_cls=SubprocVecEnv)",
            fewer="n_envs={n} in SubprocVecEnv, or DummyVecEnv",
            one_process="DummyVecEnv instead of SubprocVecEnv",
            inference="raise n_envs, so that one forward pass serves more environments",
            update="raise batch_size (fewer, larger minibatches), or lower n_epochs",
            passes="lower n_epochs",
            rarer="lower gradient_steps or raise train_freq, so that fewer updates are made for each step",
        )
    ],
    headline=4,
)
