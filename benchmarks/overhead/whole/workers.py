"""Stable-Baselines3's PPO collecting from four environments in processes of their own."""

from __future__ import annotations

import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from benchmarks.overhead.whole.pace import run_for, seconds_asked

ENVIRONMENTS = 4
STEPS = 64


def main() -> None:
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    env = make_vec_env(
        "CartPole-v1", n_envs=ENVIRONMENTS, seed=1, vec_env_cls=SubprocVecEnv
    )
    model = PPO(
        "MlpPolicy", env, n_steps=STEPS, batch_size=64, n_epochs=4, seed=1, device="cpu"
    )

    def iteration() -> None:
        model.learn(ENVIRONMENTS * STEPS, reset_num_timesteps=False)

    run_for(seconds_asked(), iteration)
    env.close()


if __name__ == "__main__":
    main()
