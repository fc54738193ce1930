"""The programs that are measured. Each is a model with a `learn` that calls back at the start of each iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def ppo_cartpole() -> Any:
    from stable_baselines3 import PPO

    return PPO(
        "MlpPolicy",
        "CartPole-v1",
        n_steps=16,
        batch_size=16,
        n_epochs=2,
        seed=1,
        device="cpu",
    )


def dqn_pong() -> Any:
    import ale_py
    import gymnasium as gym
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gym.register_envs(ale_py)
    env = VecFrameStack(
        make_atari_env("ALE/Pong-v5", n_envs=1, seed=1, env_kwargs={"frameskip": 1}), 4
    )
    return DQN(
        "CnnPolicy",
        env,
        buffer_size=2_000,
        learning_starts=64,
        train_freq=4,
        seed=1,
        device="cpu",
    )


def sac_halfcheetah() -> Any:
    from stable_baselines3 import SAC

    return SAC(
        "MlpPolicy",
        "HalfCheetah-v5",
        learning_starts=64,
        buffer_size=20_000,
        seed=1,
        device="cpu",
    )


def sbx_sac_halfcheetah() -> Any:
    from sbx import SAC

    return SAC(
        "MlpPolicy", "HalfCheetah-v5", learning_starts=64, buffer_size=20_000, seed=1
    )


# How many iterations make a block of some tens of milliseconds, and how many such a block of some tenths of a second.
PROGRAMS: dict[str, tuple[str, Callable[[], Any], int]] = {
    "ppo": ("PPO CartPole", ppo_cartpole, 1),
    "dqn": ("DQN Pong", dqn_pong, 1),
    "sac": ("SAC HalfCheetah", sac_halfcheetah, 1),
    "sbx": ("SBX SAC HalfCheetah", sbx_sac_halfcheetah, 1),
}
COARSE = 5


def make(name: str) -> tuple[Any, int]:
    torch.set_num_threads(1)
    _, build, block = PROGRAMS[name]
    return build(), block
