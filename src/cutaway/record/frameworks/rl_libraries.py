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
    Rule(*ALGORITHMS, backpropagation="train", checkpoint="save save_replay_buffer"),
    Rule(*ALGORITHMS, "collect_rollouts", iteration=True),
    Rule(*POLICIES, inference="forward predict predict_values predict_all"),
    *vectors("stable_baselines3.common.vec_env.base_vec_env", "VecEnv+"),
    Rule(*BUFFERS, replay="add"),
    Rule(*BUFFERS, replay="sample _get_samples", mark="batch"),
    Rule(EVALUATIONS, "", evaluation="evaluate_policy"),
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
    Rule("tianshou.trainer", "Trainer+", replay="_collect_training_data", backpropagation="_update_step"),
    Rule("tianshou.trainer", "Trainer+", evaluation="_test_step"),
    Rule("tianshou.data.collector", "BaseCollector+", replay="collect"),
    Rule("tianshou.data.collector", "BaseCollector+", inference="_compute_action_policy_hidden"),
    Rule("tianshou.data.buffer.buffer_base", "ReplayBuffer+", replay="add sample"),
    Rule("tianshou.algorithm.algorithm_base", "Algorithm+", backpropagation="_update"),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", simulation="step", steps=rewards),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", simulation="reset"),
    Rule("tianshou.utils.logger.logger_base", "BaseLogger+", checkpoint="save_data"),
]


# TorchRL. One rollout of a collector is an iteration. What it does beside acting and stepping is to keep steps and to make a
# batch of them: `replay`. Collectors with workers wait for a batch in `next`: the simulation of their workers.
def _stepped(env: Any, result: Any) -> int:
    return int(env.numel())


COLLECTORS, OBJECTIVES, TRAINERS = "torchrl.collectors", "torchrl.objectives", "torchrl.trainers.trainers"
REPLAY_BUFFERS = ("torchrl.data.replay_buffers.replay_buffers", "ReplayBuffer+")
WORKERS: dict[str, Any] = {"by": cover.cover_items, "iteration": True}
RULES += [
    Rule("torchrl.envs.common", "EnvBase+", simulation="step step_and_maybe_reset", steps=_stepped),
    Rule("torchrl.envs.common", "EnvBase+", simulation="reset"),
    Rule(f"{COLLECTORS}._base", "BaseCollector+", sync="update_policy_weights_"),
    Rule(f"{COLLECTORS}._single", "Collector", replay="rollout", iteration=True),
    Rule(f"{COLLECTORS}._multi_sync", "MultiSyncCollector", simulation="iterator", **WORKERS),
    Rule(f"{COLLECTORS}._multi_async", "MultiAsyncCollector", simulation="iterator", **WORKERS),
    Rule(f"{COLLECTORS}._evaluator", "Evaluator", evaluation="evaluate"),
    Rule(f"{OBJECTIVES}.common", "LossModule+", backpropagation="forward"),
    Rule(f"{OBJECTIVES}.value.advantages", "ValueEstimatorBase+", backpropagation="forward"),
    Rule(TRAINERS, "Trainer+", backpropagation="optim_steps", update=True),
    Rule(TRAINERS, "Trainer+", checkpoint="_save_trainer"),
    Rule(TRAINERS, "LogValidationReward", evaluation="__call__"),
    Rule(*REPLAY_BUFFERS, replay="add extend sample update_priority"),
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
        Rule(*agent, inference="act", replay="record_transition", checkpoint="write_checkpoint"),
        Rule(*agent, backpropagation="update", update=True),
    ]
for wrapper in ("Wrapper+", "MultiAgentEnvWrapper+"):
    WRAPPERS = _on_backends("skrl.envs.wrappers.{}.base")
    RULES += [
        Rule(WRAPPERS, wrapper, simulation="step", steps="num_envs"),
        Rule(WRAPPERS, wrapper, simulation="reset state"),
    ]
RULES += [
    Rule(_on_backends("skrl.memories.{}.base"), "Memory+", replay=MEMORY_CALLS),
    Rule(_on_backends("skrl.trainers.{}.base"), "Trainer+", evaluation="eval"),
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
    Rule("d3rlpy.base", "LearnableBase+", checkpoint="save save_model save_policy"),
    Rule(QLEARNING, "QLearningAlgoBase+", backpropagation="update", update=True),
    Rule(QLEARNING, "QLearningAlgoBase+", inference="sample_action predict predict_value"),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", backpropagation="update", update=True),
    Rule(TRANSFORMERS, "StatefulTransformerWrapper+", inference="predict"),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", inference="predict"),
    Rule("d3rlpy.algos.qlearning.explorers", "Explorer+", inference="sample"),
    Rule("d3rlpy.dataset.replay_buffer", "ReplayBufferBase+", replay=BUFFER_CALLS),
    Rule(f"d3rlpy.metrics.utility {QLEARNING} {TRANSFORMERS}", "", evaluation=ENVIRONMENT_CALLS),
    Rule("d3rlpy.metrics.evaluators", "EvaluatorProtocol+", evaluation="__call__"),
    Rule("d3rlpy.logging.logger", "D3RLPyLogger", checkpoint="save_model"),
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
    Rule(TRAINABLE, "Trainable+", checkpoint="save"),
    Rule("ray.rllib.algorithms.algorithm", "Algorithm+", evaluation=EVALUATION_CALLS),
    Rule("ray.rllib.execution.rollout_ops", "", simulation="synchronous_parallel_sample"),
    Rule(RUNNER, "EnvRunner", "__init__", on_exit=_runner_made),
    Rule(RUNNER, "EnvRunner+", simulation="sample", sync="set_state"),
    Rule(RUNNER, "EnvRunner+", "_sample", on_exit=_sampled),
    Rule(f"{RUNNER}_group", "EnvRunnerGroup+", sync="sync_weights sync_env_runner_states"),
    Rule(f"{RUNNER}_group", "EnvRunnerGroup", simulation="foreach_env_runner_async_fetch_ready"),
    Rule(RL_MODULE, "RLModule+", inference="forward_exploration forward_inference"),
    Rule(CONNECTORS, "ConnectorPipelineV2", inference="__call__"),
    Rule(LEARNER, "Learner+", backpropagation="update"),
    Rule(LEARNER, "Learner", "__init__", on_exit=_learner_made),
    Rule(f"{LEARNER}_group", "LearnerGroup", backpropagation="update"),
    Rule(f"{LEARNER}_group", "LearnerGroup", "__init__", on_exit=_learners_made),
    Rule(BUFFER, "ReplayBufferInterface+", replay="add sample update_priorities"),
    Rule("ray.rllib.utils.checkpoints", "Checkpointable+", checkpoint="save_to_path"),
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
    Rule(SEARCHES, "MCTSBot+", search="mcts_search async_mcts_search"),
    Rule(SEARCHES, "RandomRolloutEvaluator+", simulation="evaluate prior_and_value"),
    Rule(f"{SPIEL}.algorithms.ismcts", "ISMCTSBot+", search="run_search"),
    Rule(MODELS, "Model", inference="inference", backpropagation="update", checkpoint="save_checkpoint"),
    Rule(f"{ZERO}.replay_buffer", "Buffer+", replay="append sample"),
    Rule(f"{ZERO}.alpha_zero", "", simulation="_play_game", on_exit=_played),
    Rule(f"{ZERO}.alpha_zero", "", sync="update_checkpoint", evaluation="evaluator"),
    Rule(f"{SPIEL}.utils.stats", "HistogramNamed", "reset", on_enter=_cleared),
    Rule(f"{SPIEL}.rl_environment", "Environment+", simulation="step", steps=1),
    Rule(f"{SPIEL}.rl_environment", "Environment+", simulation="reset"),
]
MODULES[f"{ZERO}.alpha_zero"] = _waits_for_games

# Sample Factory: rollout workers, inference workers, batchers and learners, in processes of their own or in one. What a rollout
# worker does beside stepping environments is to write trajectories: `replay`. A training batch is an iteration of the learner.
ALGO, LEARNING = "sample_factory.algo", "sample_factory.algo.learning"
RULES += [
    Rule(f"{ALGO}.sampling.batched_sampling", "BatchedVectorEnvRunner+", replay="advance_rollouts"),
    Rule(f"{ALGO}.sampling.non_batched_sampling", "NonBatchedVectorEnvRunner+", replay="advance_rollouts"),
    Rule(f"{ALGO}.sampling.inference_worker", "InferenceWorker", inference="_handle_policy_steps"),
    Rule(f"{ALGO}.utils.model_sharing", "ParameterClientAsync+", sync="ensure_weights_updated"),
    Rule(f"{LEARNING}.batcher", "Batcher", replay="on_new_trajectories on_training_batch_released"),
    Rule(f"{LEARNING}.learner_worker", "LearnerWorker", "on_new_training_batch", iteration=True),
    Rule(f"{LEARNING}.learner", "Learner+", backpropagation="train", update=True),
    Rule(f"{LEARNING}.learner", "Learner+", checkpoint="_save_impl"),
    Rule("sample_factory.enjoy", "", evaluation="enjoy"),
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
    Rule("pufferlib.pufferl", "PuffeRL", inference="evaluate", iteration=True),
    Rule("pufferlib.pufferl", "PuffeRL", backpropagation="train", update=True),
    Rule("pufferlib.pufferl", "PuffeRL", checkpoint="save_checkpoint"),
    Rule("pufferlib.pufferl", "", evaluation="eval"),
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
