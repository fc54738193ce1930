"""Sample Factory: rollout workers, inference workers, batchers and learners, in processes of their own or in one.

What a rollout worker does beside stepping environments is to write trajectories: `replay`. A training batch is an
iteration of the learner.
"""

from __future__ import annotations

from cutaway.record.frameworks.cover import Rule, cover, is_covered, rewards
from cutaway.record.imports import Any

ALGO = "sample_factory.algo"
RULES = (
    Rule(f"{ALGO}.sampling.batched_sampling", "BatchedVectorEnvRunner+", "advance_rollouts", "replay"),
    Rule(f"{ALGO}.sampling.non_batched_sampling", "NonBatchedVectorEnvRunner+", "advance_rollouts", "replay"),
    Rule(f"{ALGO}.sampling.inference_worker", "InferenceWorker", "_handle_policy_steps", "inference"),
    Rule(f"{ALGO}.utils.model_sharing", "ParameterClientAsync+", "ensure_weights_updated", "sync"),
    Rule(f"{ALGO}.learning.batcher", "Batcher", "on_new_trajectories on_training_batch_released", "replay"),
    Rule(f"{ALGO}.learning.learner_worker", "LearnerWorker", "on_new_training_batch", iteration=True),
    Rule(f"{ALGO}.learning.learner", "Learner+", "train", "backpropagation", update=True),
    Rule(f"{ALGO}.learning.learner", "Learner+", "_save_impl", "checkpoint"),
    Rule("sample_factory.enjoy", "", "enjoy", "evaluation"),
)


def _vectors(module: Any) -> None:
    """Environments side by side look like one to gymnasium's rule, which is there first."""
    for cls in (module.BatchedVecEnv, module.SequentialVectorizeWrapper):
        step = vars(cls)["step"]
        if is_covered(step):
            cls.step = step.__wrapped__
        cover(cls, "step", "simulation", steps=rewards)


MODULES = {f"{ALGO}.utils.make_env": _vectors}
