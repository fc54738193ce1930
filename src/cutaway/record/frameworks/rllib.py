"""RLlib, new API stack: `train` is an iteration; env runners simulate and infer, learners update.

The driver's time in `synchronous_parallel_sample` is simulation too: it waits for its env runners, or samples itself.
Evaluation runners are of the same class as the others; their configuration tells them apart.
"""

from __future__ import annotations

from cutaway import _recorder
from cutaway.record import processes
from cutaway.record.frameworks.cover import HIDDEN_IN, cover, cover_family
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    when_imported("ray.tune.trainable.trainable", _trainables)
    when_imported("ray.rllib.algorithms.algorithm", _algorithms)
    when_imported("ray.rllib.execution.rollout_ops", _rollouts)
    when_imported("ray.rllib.env.env_runner", _env_runners)
    when_imported("ray.rllib.env.env_runner_group", _groups)
    when_imported("ray.rllib.core.rl_module.rl_module", _modules)
    when_imported("ray.rllib.connectors.connector_pipeline_v2", _connectors)
    when_imported("ray.rllib.core.learner.learner", _learners)
    when_imported("ray.rllib.core.learner.learner_group", _learner_groups)
    when_imported("ray.rllib.utils.replay_buffers.base", _buffers)
    when_imported("ray.rllib.utils.checkpoints", _checkpoints)


def _trainables(module: Any) -> None:
    cover(module.Trainable, "train", None, iteration=True)
    cover_family(module.Trainable, ("save",), "checkpoint")


def _algorithms(module: Any) -> None:
    cover_family(module.Algorithm, ("_run_one_evaluation", "evaluate", "evaluate_offline"), "evaluation")


def _rollouts(module: Any) -> None:
    cover(module, "synchronous_parallel_sample", "simulation")


def _env_runners(module: Any) -> None:
    base = module.EnvRunner
    cover(base, "__init__", None, on_exit=_runner_made)
    cover_family(base, ("sample",), "simulation")
    cover_family(base, ("_sample",), None, on_exit=_sampled)
    cover_family(base, ("set_state",), "sync")


def _runner_made(runner: Any, nothing: Any) -> None:
    evaluates = runner.config.in_evaluation
    if runner.worker_index > 0:  # 0 is the one in the algorithm's own process
        name = f"{type(runner).__name__}#{runner.worker_index}"
        _recorder.set_process(name=f"evaluation {name}" if evaluates else name)
    if evaluates:
        runner.sample = _recorder.Span(runner.sample, "evaluation", hidden_in=HIDDEN_IN["evaluation"])


def _sampled(runner: Any, episodes: Any) -> None:
    """Rows in which a vector environment only resets are no steps, so RLlib's own count is taken."""
    if not runner.config.in_evaluation:
        _recorder.step(sum(episode.env_steps() for episode in episodes))


def _groups(module: Any) -> None:
    cover_family(module.EnvRunnerGroup, ("sync_weights", "sync_env_runner_states"), "sync")
    cover(module.EnvRunnerGroup, "foreach_env_runner_async_fetch_ready", "simulation")


def _modules(module: Any) -> None:
    cover_family(module.RLModule, ("forward_exploration", "forward_inference"), "inference")


def _connectors(module: Any) -> None:
    """They make the network's input and the environment's action; a learner's run inside its update."""
    cover(module.ConnectorPipelineV2, "__call__", "inference")


def _learners(module: Any) -> None:
    cover_family(module.Learner, ("update",), "backpropagation")
    cover(module.Learner, "__init__", None, on_exit=_learner_made)


def _learner_made(learner: Any, nothing: Any) -> None:
    if learner.config.num_learners > 0:  # else it lives in the algorithm's own process
        names = (cls.__name__ for cls in type(learner).__mro__)
        _recorder.set_process(name=next(name for name in names if name != "_WrappedExecutable"))


def _learner_groups(module: Any) -> None:
    cover(module.LearnerGroup, "update", "backpropagation")
    cover(module.LearnerGroup, "__init__", None, on_exit=_learners_made)


def _learners_made(group: Any, nothing: Any) -> None:
    if group.is_remote:
        processes.set_role("driver")  # it waits for its learners, it is none


def _buffers(module: Any) -> None:
    cover_family(module.ReplayBufferInterface, ("add", "sample", "update_priorities"), "replay")


def _checkpoints(module: Any) -> None:
    cover_family(module.Checkpointable, ("save_to_path",), "checkpoint")
