"""Online DQN on CartPole with d3rlpy: a replay buffer in Python, an evaluation after each epoch."""

import d3rlpy
import gymnasium as gym
from benchmarks.naming.truth import annotate, iterations
from d3rlpy.algos import DQN
from d3rlpy.algos.qlearning import base
from d3rlpy.dataset import ReplayBuffer
from d3rlpy.logging.logger import D3RLPyLogger

FRAMEWORK = "d3rlpy"
ENVIRONMENT = "frameworks"

env, eval_env = gym.make("CartPole-v1"), gym.make("CartPole-v1")
d3rlpy.seed(1)
d3rlpy.envs.seed_env(env, 1)
d3rlpy.envs.seed_env(eval_env, 1)
dqn = d3rlpy.algos.DQNConfig(
    batch_size=32, learning_rate=2.5e-4, target_update_interval=100
).create(device="cpu")
buffer = d3rlpy.dataset.create_fifo_replay_buffer(limit=10_000, env=env)
explorer = d3rlpy.algos.LinearDecayEpsilonGreedy(1.0, 0.1, 1_000)

annotate(type(explorer), "sample", "inference")
annotate(type(env), "step", "simulation")
annotate(type(env), "reset", "simulation")
annotate(ReplayBuffer, "append", "replay")
annotate(ReplayBuffer, "clip_episode", "replay")
annotate(ReplayBuffer, "sample_transition_batch", "replay")
annotate(DQN, "update", "backpropagation")
annotate(base, "evaluate_qlearning_with_environment", "evaluation")
annotate(D3RLPyLogger, "save_model", "checkpoint")
iterations(DQN, "update")

dqn.fit_online(
    env,
    buffer,
    explorer,
    n_steps=3_000,
    n_steps_per_epoch=1_000,
    update_interval=1,
    update_start_step=500,
    eval_env=eval_env,
    eval_n_trials=3,
    show_progress=False,
)
