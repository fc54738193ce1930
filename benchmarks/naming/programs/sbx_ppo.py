"""PPO on CartPole with SBX: Stable-Baselines3's loop, networks and updates jitted by JAX."""

import numpy as np
from benchmarks.naming.truth import annotate, iterations, operation
from jax._src import compiler
from sbx import PPO
from sbx.common import on_policy_algorithm
from sbx.ppo.policies import PPOPolicy
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

FRAMEWORK = "SBX"


class WaitingNumPy:
    """The loop waits for the policy's asynchronous results in np.array(actions): acting, too."""

    def __getattr__(self, name):
        return getattr(np, name)

    def array(self, values):
        with operation("inference"):
            return np.array(values)


on_policy_algorithm.np = WaitingNumPy()
annotate(compiler, "compile_or_get_cached", "compile")
annotate(PPOPolicy, "predict_all", "inference")
annotate(PPOPolicy, "reset_noise", "inference")
annotate(PPOPolicy, "prepare_obs", "inference")
annotate(DummyVecEnv, "step", "simulation")
annotate(DummyVecEnv, "reset", "simulation")
annotate(RolloutBuffer, "add", "replay")
annotate(RolloutBuffer, "_get_samples", "replay")
annotate(RolloutBuffer, "compute_returns_and_advantage", "backpropagation")
annotate(PPO, "train", "backpropagation")
iterations(PPO, "collect_rollouts")

env = make_vec_env("CartPole-v1", n_envs=4, seed=1)
PPO("MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=4, seed=1).learn(14_000)
