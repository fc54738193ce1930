"""RLlib, new API stack: `train` is an iteration; env runners simulate and infer, learners update.

The driver's time in `synchronous_parallel_sample` is simulation too: it waits for its env runners, or samples itself.
Evaluation runners are of the same class as the others; their configuration tells them apart. Connectors make the network's input
and the environment's action; a learner's run inside its update.
"""

from __future__ import annotations

from cutaway import _recorder
from cutaway.record import processes
from cutaway.record.frameworks.cover import HIDDEN_IN, Rule
from cutaway.record.imports import Any


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


def _learner_made(learner: Any, nothing: Any) -> None:
    if learner.config.num_learners > 0:  # else it lives in the algorithm's own process
        names = (cls.__name__ for cls in type(learner).__mro__)
        _recorder.set_process(name=next(name for name in names if name != "_WrappedExecutable"))


def _learners_made(group: Any, nothing: Any) -> None:
    if group.is_remote:
        processes.set_role("driver")  # it waits for its learners, it is none


TRAINABLE = "ray.tune.trainable.trainable"
RUNNER, RUNNERS = "ray.rllib.env.env_runner", "ray.rllib.env.env_runner_group"
LEARNER, LEARNERS = "ray.rllib.core.learner.learner", "ray.rllib.core.learner.learner_group"
MODULE, BUFFER = "ray.rllib.core.rl_module.rl_module", "ray.rllib.utils.replay_buffers.base"
EVALUATIONS = "_run_one_evaluation evaluate evaluate_offline"
RULES = (
    Rule(TRAINABLE, "Trainable", "train", iteration=True),
    Rule(TRAINABLE, "Trainable+", "save", "checkpoint"),
    Rule("ray.rllib.algorithms.algorithm", "Algorithm+", EVALUATIONS, "evaluation"),
    Rule("ray.rllib.execution.rollout_ops", "", "synchronous_parallel_sample", "simulation"),
    Rule(RUNNER, "EnvRunner", "__init__", on_exit=_runner_made),
    Rule(RUNNER, "EnvRunner+", "sample", "simulation"),
    Rule(RUNNER, "EnvRunner+", "_sample", on_exit=_sampled),
    Rule(RUNNER, "EnvRunner+", "set_state", "sync"),
    Rule(RUNNERS, "EnvRunnerGroup+", "sync_weights sync_env_runner_states", "sync"),
    Rule(RUNNERS, "EnvRunnerGroup", "foreach_env_runner_async_fetch_ready", "simulation"),
    Rule(MODULE, "RLModule+", "forward_exploration forward_inference", "inference"),
    Rule("ray.rllib.connectors.connector_pipeline_v2", "ConnectorPipelineV2", "__call__", "inference"),
    Rule(LEARNER, "Learner+", "update", "backpropagation"),
    Rule(LEARNER, "Learner", "__init__", on_exit=_learner_made),
    Rule(LEARNERS, "LearnerGroup", "update", "backpropagation"),
    Rule(LEARNERS, "LearnerGroup", "__init__", on_exit=_learners_made),
    Rule(BUFFER, "ReplayBufferInterface+", "add sample update_priorities", "replay"),
    Rule("ray.rllib.utils.checkpoints", "Checkpointable+", "save_to_path", "checkpoint"),
)
