"""Sample Factory: rollout workers, inference workers, batchers and learners, in processes of their own or in one. What a rollout
worker does beside stepping environments is to write trajectories: `replay`. A training batch is an iteration of the learner."""

from __future__ import annotations

from cutaway.record.frameworks import hooks
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule, rewards
from cutaway.record.imports import Any

ALGO, LEARNING = "sample_factory.algo", "sample_factory.algo.learning"
RULES = [
    Rule(
        f"{ALGO}.sampling.batched_sampling",
        "BatchedVectorEnvRunner+",
        replay="advance_rollouts",
    ),
    Rule(
        f"{ALGO}.sampling.non_batched_sampling",
        "NonBatchedVectorEnvRunner+",
        replay="advance_rollouts",
    ),
    # Around those: it sends the next observations to the inference worker, and whole rollouts to the batcher.
    Rule(
        f"{ALGO}.sampling.rollout_worker",
        "RolloutWorker",
        replay="advance_rollouts",
    ),
    Rule(
        f"{ALGO}.sampling.inference_worker",
        "InferenceWorker",
        inference="_handle_policy_steps",
    ),
    Rule(
        f"{ALGO}.utils.model_sharing",
        "ParameterClientAsync+",
        sync="ensure_weights_updated",
    ),
    Rule(
        f"{LEARNING}.batcher",
        "Batcher",
        replay="on_new_trajectories on_training_batch_released",
    ),
    Rule(
        f"{LEARNING}.learner_worker",
        "LearnerWorker",
        "on_new_training_batch",
        iteration=True,
    ),
    Rule(f"{LEARNING}.learner", "Learner+", backpropagation="train", update=True),
    Rule(f"{LEARNING}.learner", "Learner+", checkpoint="_save_impl"),
    Rule("sample_factory.enjoy", "", evaluation="enjoy"),
]


def _side_by_side(module: Any) -> None:
    """Environments side by side look like one to gymnasium's rule, which is there first."""
    for cls in (module.BatchedVecEnv, module.SequentialVectorizeWrapper):
        cls.step = hooks.original(vars(cls)["step"])
        hooks.instrument(cls, "step", "simulation", steps=rewards)


CARD = Card(
    "Sample Factory",
    version="2.1",
    rules=RULES,
    modules={f"{ALGO}.utils.make_env": _side_by_side},
    loop="sample_factory",
    settings=[
        Settings(
            workers="set --num_workers={n}",
            fewer="--num_workers={n}",
            one_process="--serial_mode=True",
            inference="raise --num_envs_per_worker, so that one forward pass serves more environments",
            update="raise --batch_size, or lower --num_epochs",
            passes="lower --num_epochs",
        )
    ],
)
