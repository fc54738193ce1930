"""PPO with N collectors: `python collectors.py sb3|rllib N SECONDS`. Nothing in it knows of Cutaway."""

from __future__ import annotations

import sys
import time


def sb3(workers: int, seconds: float) -> None:
    """Stable-Baselines3, SubprocVecEnv, one environment a process."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    torch.set_num_threads(1)
    env = make_vec_env(
        "HalfCheetah-v5", n_envs=workers, seed=1, vec_env_cls=SubprocVecEnv
    )
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=4, device="cpu")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        model.learn(64 * workers, reset_num_timesteps=False)
    env.close()


def rllib(workers: int, seconds: float) -> None:
    """RLlib, each env runner with a process of its own; the batch grows with them."""
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig

    ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False)
    config = PPOConfig().environment("CartPole-v1")
    config = config.env_runners(num_env_runners=workers, rollout_fragment_length=250)
    config = config.training(train_batch_size_per_learner=250 * workers, num_epochs=4)
    algorithm = config.build_algo()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        algorithm.train()
    algorithm.stop()


if __name__ == "__main__":
    {"sb3": sb3, "rllib": rllib}[sys.argv[1]](int(sys.argv[2]), float(sys.argv[3]))
