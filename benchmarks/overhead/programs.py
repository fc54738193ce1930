"""The programs that are measured, each a model that `learn` trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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


def dqn_jax() -> Any:
    from benchmarks.overhead.jax_dqn import JaxDqn

    return JaxDqn()


# How many iterations make a block of some tens of milliseconds, and how many such a block of some tenths of a second.
PROGRAMS: dict[str, tuple[str, Callable[[], Any], int]] = {
    "ppo": ("PPO CartPole", ppo_cartpole, 1),
    "dqn": ("DQN Pong", dqn_pong, 1),
    "sac": ("SAC HalfCheetah", sac_halfcheetah, 1),
    "sbx": ("SBX SAC HalfCheetah", sbx_sac_halfcheetah, 1),
    "jax": ("JAX DQN CartPole", dqn_jax, 1),
}
WITHOUT_TORCH = ("jax",)
COARSE = 5


def make(name: str) -> tuple[Any, int]:
    if name not in WITHOUT_TORCH:
        import torch

        torch.set_num_threads(1)
    _, build, block = PROGRAMS[name]
    return build(), block


def learn(model: Any, at_iteration: Callable[[], bool]) -> None:
    """Trains until `at_iteration`, called at the start of each iteration, is false."""
    if hasattr(model, "train_while"):
        model.train_while(at_iteration)
        return
    from stable_baselines3.common.callbacks import BaseCallback

    class Callback(BaseCallback):
        goes_on = True

        def _on_rollout_start(self) -> None:
            self.goes_on = self.goes_on and at_iteration()

        def _on_step(self) -> bool:
            return self.goes_on

    model.learn(10**9, callback=Callback())
