"""Sample Factory: rollout workers, inference workers, batchers and learners, in processes of their own or in one.

What a rollout worker does beside stepping environments is to write trajectories: `replay`. A training batch is an
iteration of the learner.
"""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks.cover import cover, cover_family
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

RUNNERS = ("batched_sampling", "non_batched_sampling")


def install() -> None:
    for name in RUNNERS:
        when_imported(f"sample_factory.algo.sampling.{name}", _runners)
    when_imported("sample_factory.algo.utils.make_env", _vectors)
    when_imported("sample_factory.algo.sampling.inference_worker", _inference)
    when_imported("sample_factory.algo.utils.model_sharing", _weights)
    when_imported("sample_factory.algo.learning.batcher", _batcher)
    when_imported("sample_factory.algo.learning.learner_worker", _learner_worker)
    when_imported("sample_factory.algo.learning.learner", _learner)
    when_imported("sample_factory.enjoy", _enjoy)


def _runners(module: ModuleType) -> None:
    for name in ("BatchedVectorEnvRunner", "NonBatchedVectorEnvRunner"):
        if hasattr(module, name):
            cover_family(getattr(module, name), ("advance_rollouts",), "replay")


def _vectors(module: ModuleType) -> None:
    """Environments side by side look like one to gymnasium's rule, which is there first."""
    for cls in (module.BatchedVecEnv, module.SequentialVectorizeWrapper):
        step = vars(cls)["step"]
        if type(step) is _recorder.Span:
            cls.step = step.__wrapped__  # type: ignore[attr-defined]
        cover(cls, "step", "simulation", steps=_stepped)


def _stepped(env: Any, result: Any) -> int:
    return len(result[1])


def _inference(module: ModuleType) -> None:
    cover(module.InferenceWorker, "_handle_policy_steps", "inference")


def _weights(module: ModuleType) -> None:
    cover_family(module.ParameterClientAsync, ("ensure_weights_updated",), "sync")


def _batcher(module: ModuleType) -> None:
    for name in ("on_new_trajectories", "on_training_batch_released"):
        cover(module.Batcher, name, "replay")


def _learner_worker(module: ModuleType) -> None:
    cover(module.LearnerWorker, "on_new_training_batch", None, iteration=True)


def _learner(module: ModuleType) -> None:
    cover_family(module.Learner, ("train",), "backpropagation", update=True)
    cover_family(module.Learner, ("_save_impl",), "checkpoint")


def _enjoy(module: ModuleType) -> None:
    cover(module, "enjoy", "evaluation")
