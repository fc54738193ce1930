"""RLlib, new API stack: `train` is an iteration; env runners simulate and infer, learners update. The driver's time in
`synchronous_parallel_sample` is simulation too: it waits for its env runners, or samples itself. IMPALA and APPO only fetch what is
ready: their driver does not simulate, and what it waits for has no name. Neither has what RLlib does for its metrics.
Evaluation runners are of the
same class as the others; their configuration tells them apart. Connectors make the network's input and the environment's
action; a learner's run inside its update, or, for IMPALA and APPO, while the main thread makes batches for the thread that trains."""

from __future__ import annotations

from cutaway import _recorder
from cutaway.record import processes
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import HIDDEN_IN, Rule, span
from cutaway.record.imports import Any


def _runner_made(runner: Any, nothing: Any) -> None:
    evaluates = runner.config.in_evaluation
    if runner.worker_index > 0:  # 0 is the one in the algorithm's own process
        name = f"{type(runner).__name__}#{runner.worker_index}"
        _recorder.set_process(name=f"evaluation {name}" if evaluates else name)
    if evaluates:
        runner.sample = span(runner.sample, "evaluation")


def _sampled(runner: Any, episodes: Any) -> None:
    """Rows in which a vector environment only resets are no steps, so RLlib's own count is taken."""
    if not runner.config.in_evaluation:
        _recorder.step(sum(episode.env_steps() for episode in episodes))


def _learner_made(learner: Any, nothing: Any) -> None:
    if learner.config.num_learners > 0:  # else it lives in the algorithm's own process
        names = (cls.__name__ for cls in type(learner).__mro__)
        _recorder.set_process(
            name=next(name for name in names if name != "_WrappedExecutable")
        )


def _learners_made(group: Any, nothing: Any) -> None:
    if group.is_remote:
        processes.set_role("driver")  # it waits for its learners, it is none


def _hands_on(learner: type) -> bool:
    """IMPALA's and APPO's learners make batches in `update`; a thread of theirs calls that of `Learner` to train."""
    return any(cls.__name__ == "IMPALALearner" for cls in learner.__mro__)


class _Pulls:
    """Around RLlib's timer of pulling new weights: the runner waits for them."""

    def __init__(self, timer: Any) -> None:
        self._timer, self._opened = timer, _recorder.operation("sync")

    def __enter__(self) -> Any:
        self._opened.__enter__()
        return self._timer.__enter__()

    def __exit__(self, *failure: Any) -> Any:
        try:
            return self._timer.__exit__(*failure)
        finally:
            self._opened.__exit__(None, None, None)


def _timed(log_time: Any, logger: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
    timer = log_time(logger, key, *args, **kwargs)
    return _Pulls(timer) if key == "env_runner_state_server_pull" else timer


IN_UPDATES = ("backpropagation", *HIDDEN_IN["replay"])
METRICS = "ray.rllib.utils.metrics.metrics_logger"
TRAINING_DATA = "ray.rllib.core.learner.training_data"
TRAINABLE, RUNNER = "ray.tune.trainable.trainable", "ray.rllib.env.env_runner"
LEARNER, CONNECTORS = (
    "ray.rllib.core.learner.learner",
    "ray.rllib.connectors.connector_pipeline_v2",
)
RL_MODULE, BUFFER = (
    "ray.rllib.core.rl_module.rl_module",
    "ray.rllib.utils.replay_buffers.base",
)
EVALUATION_CALLS = "_run_one_evaluation evaluate evaluate_offline"
RULES = [
    Rule(TRAINABLE, "Trainable", "train", iteration=True),
    Rule(TRAINABLE, "Trainable+", checkpoint="save"),
    Rule("ray.rllib.algorithms.algorithm", "Algorithm+", evaluation=EVALUATION_CALLS),
    Rule(
        "ray.rllib.execution.rollout_ops", "", simulation="synchronous_parallel_sample"
    ),
    Rule(RUNNER, "EnvRunner", "__init__", on_exit=_runner_made),
    Rule(RUNNER, "EnvRunner+", simulation="sample", sync="set_state"),
    Rule(RUNNER, "EnvRunner+", "_sample", on_exit=_sampled),
    Rule(
        f"{RUNNER}_group", "EnvRunnerGroup+", sync="sync_weights sync_env_runner_states"
    ),
    Rule(RL_MODULE, "RLModule+", inference="forward_exploration forward_inference"),
    Rule(
        CONNECTORS,
        "ConnectorPipelineV2",
        inference="__call__",
        hidden_in=("replay", *HIDDEN_IN["inference"]),
    ),
    Rule(LEARNER, "Learner+", backpropagation="update", leave=_hands_on),
    Rule(LEARNER, "Learner+", sync="get_state"),
    Rule(METRICS, "MetricsLogger", "log_time", around=_timed),
    Rule(LEARNER, "Learner", replay="_make_batch_if_necessary", hidden_in=IN_UPDATES),
    Rule(TRAINING_DATA, "TrainingData", replay="solve_refs", hidden_in=IN_UPDATES),
    Rule(LEARNER, "Learner", "__init__", on_exit=_learner_made),
    Rule(f"{LEARNER}_group", "LearnerGroup", backpropagation="update"),
    Rule(f"{LEARNER}_group", "LearnerGroup", "__init__", on_exit=_learners_made),
    Rule(BUFFER, "ReplayBufferInterface+", replay="add sample update_priorities"),
    Rule(
        METRICS,
        "MetricsLogger",
        "aggregate reduce compile",
        mark="log",
    ),
    Rule("ray.rllib.utils.checkpoints", "Checkpointable+", checkpoint="save_to_path"),
]
CARD = Card(
    "RLlib",
    version="2.60",
    rules=RULES,
    loop="ray.rllib",
    settings=[
        Settings(
            until="2.20",
            workers="set num_rollout_workers={n}",
            fewer="num_rollout_workers={n}",
            one_process="num_rollout_workers=0 and a larger num_envs_per_worker",
            inference="raise num_envs_per_worker, so that one forward pass serves more environments",
        ),
        Settings(
            until="2.38",
            update="raise sgd_minibatch_size (fewer, larger minibatches), or lower num_sgd_iter",
            passes="lower num_sgd_iter",
        ),
        Settings(
            workers="set num_env_runners={n}",
            fewer="num_env_runners={n}",
            one_process="num_env_runners=0 and a larger num_envs_per_env_runner",
            inference="raise num_envs_per_env_runner, so that one forward pass serves more environments",
            update="raise minibatch_size (fewer, larger minibatches), or lower num_epochs",
            passes="lower num_epochs",
            rarer="lower training_intensity, so that fewer updates are made for each step",
        ),
    ],
    headline=6,
)
