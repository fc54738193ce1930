"""PPO on CartPole with Stable-Baselines3, evaluated now and then by its callback."""

import torch
from benchmarks.naming.truth import annotate, iterations
from stable_baselines3 import PPO
from stable_baselines3.common import callbacks
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

FRAMEWORK = "Stable-Baselines3"

annotate(ActorCriticPolicy, "forward", "inference")
annotate(DummyVecEnv, "step", "simulation")
annotate(DummyVecEnv, "reset", "simulation")
annotate(RolloutBuffer, "add", "replay")
annotate(RolloutBuffer, "_get_samples", "replay")
annotate(RolloutBuffer, "compute_returns_and_advantage", "backpropagation")
annotate(PPO, "train", "backpropagation")
annotate(callbacks, "evaluate_policy", "evaluation")
iterations(PPO, "collect_rollouts")

torch.manual_seed(1)
env = make_vec_env("CartPole-v1", n_envs=4, seed=1)
model = PPO(
    "MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=4, seed=1, device="cpu"
)
evaluation = callbacks.EvalCallback(
    make_vec_env("CartPole-v1", seed=2), n_eval_episodes=3, eval_freq=1_024, verbose=0
)
model.learn(12_000, callback=evaluation)
