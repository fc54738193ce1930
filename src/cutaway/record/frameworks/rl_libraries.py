"""Libraries of reinforcement learning, one after the other: Stable-Baselines3, tianshou, TorchRL, skrl, d3rlpy, RLlib, OpenSpiel,
Sample Factory, PufferLib. Each adds its own to `RULES` and `MODULES`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType

from cutaway import _recorder
from cutaway.record import processes
from cutaway.record.frameworks import cover
from cutaway.record.frameworks.cover import Rule, replace, rewards, span
from cutaway.record.frameworks.environments import vectors
from cutaway.record.imports import Any

RULES: list[Rule] = []
MODULES: dict[str, Callable[[Any], None]] = {}

# Stable-Baselines3, sb3-contrib and SBX share their base classes. One pass of every learn() is collect_rollouts, then train:
# the former begins an iteration. `get` of a rollout buffer is a generator; what it does for each minibatch is _get_samples.
ALGORITHMS = ("stable_baselines3.common.base_class", "BaseAlgorithm+")
BUFFERS = ("stable_baselines3.common.buffers cleanrl_utils.buffers", "BaseBuffer+")
POLICIES = ("stable_baselines3.common.policies", "BasePolicy+")
EVALUATIONS = "stable_baselines3.common.evaluation sb3_contrib.common.maskable.evaluation"
RULES += [
    Rule(*ALGORITHMS, "train", "backpropagation"),
    Rule(*ALGORITHMS, "collect_rollouts", iteration=True),
    Rule(*ALGORITHMS, "save save_replay_buffer", "checkpoint"),
    Rule(*POLICIES, "forward predict predict_values predict_all", "inference"),
    *vectors("stable_baselines3.common.vec_env.base_vec_env", "VecEnv+"),
    Rule(*BUFFERS, "add", "replay"),
    Rule(*BUFFERS, "sample _get_samples", "replay", mark="batch"),
    Rule(EVALUATIONS, "", "evaluate_policy", "evaluation"),
]


def _random_search(module: Any) -> None:
    """ARS trains by evaluating candidates: what it calls evaluation is its simulation."""
    module.evaluate_policy = cover.uncovered(module.evaluate_policy)
    cover.cover(module.ARS, "_do_one_update", None, iteration=True)


MODULES["sb3_contrib.ars.ars"] = _random_search

# tianshou 2. What collecting is beside acting and stepping is `replay`: batches of transitions are made, stored and checked. A
# collector steps only the environments whose episodes it still wants. The test step is evaluation.
RULES += [
    Rule("tianshou.trainer", "Trainer+", "_training_step", iteration=True),
    Rule("tianshou.trainer", "Trainer+", "_collect_training_data", "replay"),
    Rule("tianshou.trainer", "Trainer+", "_update_step", "backpropagation"),
    Rule("tianshou.trainer", "Trainer+", "_test_step", "evaluation"),
    Rule("tianshou.data.collector", "BaseCollector+", "collect", "replay"),
    Rule("tianshou.data.collector", "BaseCollector+", "_compute_action_policy_hidden", "inference"),
    Rule("tianshou.data.buffer.buffer_base", "ReplayBuffer+", "add sample", "replay"),
    Rule("tianshou.algorithm.algorithm_base", "Algorithm+", "_update", "backpropagation"),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", "step", "simulation", steps=rewards),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", "reset", "simulation"),
    Rule("tianshou.utils.logger.logger_base", "BaseLogger+", "save_data", "checkpoint"),
]


# TorchRL. One rollout of a collector is an iteration. What it does beside acting and stepping is to keep steps and to make a
# batch of them: `replay`. Collectors with workers wait for a batch in `next`: the simulation of their workers.
def _stepped(env: Any, result: Any) -> int:
    return int(env.numel())


COLLECTORS, OBJECTIVES, TRAINERS = "torchrl.collectors", "torchrl.objectives", "torchrl.trainers.trainers"
REPLAY_BUFFERS = ("torchrl.data.replay_buffers.replay_buffers", "ReplayBuffer+")
WORKERS: dict[str, Any] = {"by": cover.cover_items, "iteration": True}
RULES += [
    Rule("torchrl.envs.common", "EnvBase+", "step step_and_maybe_reset", "simulation", steps=_stepped),
    Rule("torchrl.envs.common", "EnvBase+", "reset", "simulation"),
    Rule(f"{COLLECTORS}._base", "BaseCollector+", "update_policy_weights_", "sync"),
    Rule(f"{COLLECTORS}._single", "Collector", "rollout", "replay", iteration=True),
    Rule(f"{COLLECTORS}._multi_sync", "MultiSyncCollector", "iterator", "simulation", **WORKERS),
    Rule(f"{COLLECTORS}._multi_async", "MultiAsyncCollector", "iterator", "simulation", **WORKERS),
    Rule(f"{COLLECTORS}._evaluator", "Evaluator", "evaluate", "evaluation"),
    Rule(f"{OBJECTIVES}.common", "LossModule+", "forward", "backpropagation"),
    Rule(f"{OBJECTIVES}.value.advantages", "ValueEstimatorBase+", "forward", "backpropagation"),
    Rule(TRAINERS, "Trainer+", "optim_steps", "backpropagation", update=True),
    Rule(TRAINERS, "Trainer+", "_save_trainer", "checkpoint"),
    Rule(TRAINERS, "LogValidationReward", "__call__", "evaluation"),
    Rule(*REPLAY_BUFFERS, "add extend sample update_priority", "replay"),
]


def _single_collector(module: Any) -> None:
    """The policy is whatever can be called, compiled perhaps; what calls it gets it with the operation around."""
    policy = vars(module.Collector).get("_wrapped_policy")
    if not isinstance(policy, property):
        return
    policy_of: Any = policy.fget

    def _wrapped_policy(self: Any) -> Any:
        policy = policy_of(self)
        known = vars(self).get("_cutaway_policy")
        if known is None or known.__wrapped__ is not policy:
            known = vars(self)["_cutaway_policy"] = span(policy, "inference")
        return known

    replace(module.Collector, "_wrapped_policy", property(_wrapped_policy, policy.fset))


MODULES[f"{COLLECTORS}._single"] = _single_collector


# skrl, on torch, JAX and Warp alike. `eval` of a trainer is evaluation.
def _on_backends(template: str) -> str:
    return " ".join(template.format(backend) for backend in ("torch", "jax", "warp"))


MEMORY_CALLS = "add_samples sample sample_by_index sample_all"
for agent in (
    (_on_backends("skrl.agents.{}.base"), "Agent+"),
    (_on_backends("skrl.multi_agents.{}.base"), "MultiAgent+"),
):
    RULES += [
        Rule(*agent, "act", "inference"),
        Rule(*agent, "record_transition", "replay"),
        Rule(*agent, "update", "backpropagation", update=True),
        Rule(*agent, "write_checkpoint", "checkpoint"),
    ]
for wrapper in ("Wrapper+", "MultiAgentEnvWrapper+"):
    WRAPPERS = _on_backends("skrl.envs.wrappers.{}.base")
    RULES += [
        Rule(WRAPPERS, wrapper, "step", "simulation", steps="num_envs"),
        Rule(WRAPPERS, wrapper, "reset state", "simulation"),
    ]
RULES += [
    Rule(_on_backends("skrl.memories.{}.base"), "Memory+", MEMORY_CALLS, "replay"),
    Rule(_on_backends("skrl.trainers.{}.base"), "Trainer+", "eval", "evaluation"),
]

# d3rlpy. Its environments are gymnasium's. Modules that imported the functions of evaluation by name before they were covered
# have them covered again.
QLEARNING, TRANSFORMERS = "d3rlpy.algos.qlearning.base", "d3rlpy.algos.transformer.base"
ENVIRONMENT_CALLS = "evaluate_qlearning_with_environment evaluate_transformer_with_environment"
BUFFER_CALLS = (
    "append append_episode clip_episode sample_transition sample_transition_batch sample_trajectory "
    "sample_trajectory_batch"
)
RULES += [
    Rule("d3rlpy.base", "LearnableBase+", "save save_model save_policy", "checkpoint"),
    Rule(QLEARNING, "QLearningAlgoBase+", "update", "backpropagation", update=True),
    Rule(QLEARNING, "QLearningAlgoBase+", "sample_action predict predict_value", "inference"),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", "update", "backpropagation", update=True),
    Rule(TRANSFORMERS, "StatefulTransformerWrapper+", "predict", "inference"),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", "predict", "inference"),
    Rule("d3rlpy.algos.qlearning.explorers", "Explorer+", "sample", "inference"),
    Rule("d3rlpy.dataset.replay_buffer", "ReplayBufferBase+", BUFFER_CALLS, "replay"),
    Rule(f"d3rlpy.metrics.utility {QLEARNING} {TRANSFORMERS}", "", ENVIRONMENT_CALLS, "evaluation"),
    Rule("d3rlpy.metrics.evaluators", "EvaluatorProtocol+", "__call__", "evaluation"),
    Rule("d3rlpy.logging.logger", "D3RLPyLogger", "save_model", "checkpoint"),
]


# RLlib, new API stack: `train` is an iteration; env runners simulate and infer, learners update. The driver's time in
# `synchronous_parallel_sample` is simulation too: it waits for its env runners, or samples itself. Evaluation runners are of the
# same class as the others; their configuration tells them apart. Connectors make the network's input and the environment's
# action; a learner's run inside its update.
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
        _recorder.set_process(name=next(name for name in names if name != "_WrappedExecutable"))


def _learners_made(group: Any, nothing: Any) -> None:
    if group.is_remote:
        processes.set_role("driver")  # it waits for its learners, it is none


TRAINABLE, RUNNER = "ray.tune.trainable.trainable", "ray.rllib.env.env_runner"
LEARNER, CONNECTORS = "ray.rllib.core.learner.learner", "ray.rllib.connectors.connector_pipeline_v2"
RL_MODULE, BUFFER = "ray.rllib.core.rl_module.rl_module", "ray.rllib.utils.replay_buffers.base"
EVALUATION_CALLS = "_run_one_evaluation evaluate evaluate_offline"
RULES += [
    Rule(TRAINABLE, "Trainable", "train", iteration=True),
    Rule(TRAINABLE, "Trainable+", "save", "checkpoint"),
    Rule("ray.rllib.algorithms.algorithm", "Algorithm+", EVALUATION_CALLS, "evaluation"),
    Rule("ray.rllib.execution.rollout_ops", "", "synchronous_parallel_sample", "simulation"),
    Rule(RUNNER, "EnvRunner", "__init__", on_exit=_runner_made),
    Rule(RUNNER, "EnvRunner+", "sample", "simulation"),
    Rule(RUNNER, "EnvRunner+", "_sample", on_exit=_sampled),
    Rule(RUNNER, "EnvRunner+", "set_state", "sync"),
    Rule(f"{RUNNER}_group", "EnvRunnerGroup+", "sync_weights sync_env_runner_states", "sync"),
    Rule(f"{RUNNER}_group", "EnvRunnerGroup", "foreach_env_runner_async_fetch_ready", "simulation"),
    Rule(RL_MODULE, "RLModule+", "forward_exploration forward_inference", "inference"),
    Rule(CONNECTORS, "ConnectorPipelineV2", "__call__", "inference"),
    Rule(LEARNER, "Learner+", "update", "backpropagation"),
    Rule(LEARNER, "Learner", "__init__", on_exit=_learner_made),
    Rule(f"{LEARNER}_group", "LearnerGroup", "update", "backpropagation"),
    Rule(f"{LEARNER}_group", "LearnerGroup", "__init__", on_exit=_learners_made),
    Rule(BUFFER, "ReplayBufferInterface+", "add sample update_priorities", "replay"),
    Rule("ray.rllib.utils.checkpoints", "Checkpointable+", "save_to_path", "checkpoint"),
]


# OpenSpiel: tree search with inference or rollouts inside, and the processes of its AlphaZero. A game an actor plays is simulation;
# its steps are the decisions in it. So is the time the learner waits for games: it looks into the queues of its actors and sleeps.
# The evaluator's whole work is evaluation.
def _played(logger: Any, trajectory: Any) -> None:
    _recorder.step(len(trajectory.states))


def _cleared(histogram: Any) -> None:
    """A step of the learner begins where it clears its statistics; this one it has only once."""
    if sys._getframe(1).f_code.co_name == "learner":
        cover.begin_iteration()


def _waits_for_games(module: ModuleType) -> None:
    def sleep(seconds: float) -> None:
        # Without arguments: the first one would be taken for an environment.
        span(partial(time.sleep, seconds), "simulation")()

    clock = ModuleType("time")
    vars(clock).update(vars(time), sleep=sleep)
    replace(module, "time", clock)


SPIEL = "open_spiel.python"
ZERO = f"{SPIEL}.algorithms.alpha_zero"
SEARCHES = f"{SPIEL}.algorithms.mcts {SPIEL}.algorithms.async_mcts"
MODELS = f"{ZERO}.model_linen {ZERO}.model_nnx"
RULES += [
    Rule(SEARCHES, "MCTSBot+", "mcts_search async_mcts_search", "search"),
    Rule(SEARCHES, "RandomRolloutEvaluator+", "evaluate prior_and_value", "simulation"),
    Rule(f"{SPIEL}.algorithms.ismcts", "ISMCTSBot+", "run_search", "search"),
    Rule(MODELS, "Model", "inference", "inference"),
    Rule(MODELS, "Model", "update", "backpropagation"),
    Rule(MODELS, "Model", "save_checkpoint", "checkpoint"),
    Rule(f"{ZERO}.replay_buffer", "Buffer+", "append sample", "replay"),
    Rule(f"{ZERO}.alpha_zero", "", "_play_game", "simulation", on_exit=_played),
    Rule(f"{ZERO}.alpha_zero", "", "update_checkpoint", "sync"),
    Rule(f"{ZERO}.alpha_zero", "", "evaluator", "evaluation"),
    Rule(f"{SPIEL}.utils.stats", "HistogramNamed", "reset", on_enter=_cleared),
    Rule(f"{SPIEL}.rl_environment", "Environment+", "step", "simulation", steps=1),
    Rule(f"{SPIEL}.rl_environment", "Environment+", "reset", "simulation"),
]
MODULES[f"{ZERO}.alpha_zero"] = _waits_for_games

# Sample Factory: rollout workers, inference workers, batchers and learners, in processes of their own or in one. What a rollout
# worker does beside stepping environments is to write trajectories: `replay`. A training batch is an iteration of the learner.
ALGO, LEARNING = "sample_factory.algo", "sample_factory.algo.learning"
RULES += [
    Rule(f"{ALGO}.sampling.batched_sampling", "BatchedVectorEnvRunner+", "advance_rollouts", "replay"),
    Rule(f"{ALGO}.sampling.non_batched_sampling", "NonBatchedVectorEnvRunner+", "advance_rollouts", "replay"),
    Rule(f"{ALGO}.sampling.inference_worker", "InferenceWorker", "_handle_policy_steps", "inference"),
    Rule(f"{ALGO}.utils.model_sharing", "ParameterClientAsync+", "ensure_weights_updated", "sync"),
    Rule(f"{LEARNING}.batcher", "Batcher", "on_new_trajectories on_training_batch_released", "replay"),
    Rule(f"{LEARNING}.learner_worker", "LearnerWorker", "on_new_training_batch", iteration=True),
    Rule(f"{LEARNING}.learner", "Learner+", "train", "backpropagation", update=True),
    Rule(f"{LEARNING}.learner", "Learner+", "_save_impl", "checkpoint"),
    Rule("sample_factory.enjoy", "", "enjoy", "evaluation"),
]


def _side_by_side(module: Any) -> None:
    """Environments side by side look like one to gymnasium's rule, which is there first."""
    for cls in (module.BatchedVecEnv, module.SequentialVectorizeWrapper):
        cls.step = cover.uncovered(vars(cls)["step"])
        cover.cover(cls, "step", "simulation", steps=rewards)


MODULES[f"{ALGO}.utils.make_env"] = _side_by_side

# PufferLib 3: `PuffeRL.evaluate` collects (it is not evaluation) and begins an iteration; `train` is the update. In collecting,
# `send` and `recv` of the vector environments are simulation, the rest is acting.
RULES += [
    Rule("pufferlib.pufferl", "PuffeRL", "evaluate", "inference", iteration=True),
    Rule("pufferlib.pufferl", "PuffeRL", "train", "backpropagation", update=True),
    Rule("pufferlib.pufferl", "PuffeRL", "save_checkpoint", "checkpoint"),
    Rule("pufferlib.pufferl", "", "eval", "evaluation"),
]


def _received(vector: Any, result: Any) -> int:
    """(observations, rewards, terminals, truncations, infos, agent ids, mask): each agent that is not masked is a step."""
    return int(result[6].sum())


def _puffer_vectors(module: Any) -> None:
    for name in ("Serial", "Multiprocessing", "Ray", "PufferEnv"):
        vector = vars(module).get(name)  # there is one with Ray only where that is installed
        if isinstance(vector, type):
            cover.cover(vector, "send", "simulation")
            cover.cover(vector, "async_reset", "simulation")
            cover.cover(vector, "recv", "simulation", steps=_received)


MODULES |= {"pufferlib.vector": _puffer_vectors, "pufferlib.pufferlib": _puffer_vectors}
