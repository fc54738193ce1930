"""rsl_rl, also as the trainer of Isaac Lab (`RslRlVecEnvWrapper` is a `VecEnv`): the rollout acts, steps and keeps the step; `update`
learns from it. There is one reward for each environment."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule, rewards


def _learns(module: str, algorithm: str) -> list[Rule]:
    return [
        Rule(module, f"{algorithm}+", inference="act", replay="process_env_step"),
        Rule(module, f"{algorithm}+", backpropagation="compute_returns"),
        Rule(module, f"{algorithm}+", backpropagation="update", update=True),
    ]


CARD = Card(
    "rsl_rl",
    version="5.5",
    rules=[
        Rule("rsl_rl.env.vec_env", "VecEnv+", simulation="step", steps=rewards),
        Rule("rsl_rl.env.vec_env", "VecEnv+", simulation="reset"),
        *_learns("rsl_rl.algorithms.ppo", "PPO"),
        *_learns("rsl_rl.algorithms.distillation", "Distillation"),
        Rule("rsl_rl.runners.on_policy_runner", "OnPolicyRunner+", checkpoint="save"),
    ],
    loop="rsl_rl",
    settings=[
        Settings(
            inference="raise num_envs of the environment, so that one forward pass serves more of them",
            update="lower num_mini_batches (fewer, larger minibatches) or num_learning_epochs",
            passes="lower num_learning_epochs",
        )
    ],
)
