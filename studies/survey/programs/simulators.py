"""Simulators of the survey as environments of Stable-Baselines3: gymnasium's, PyBullet's Walker, MiniGrid, EnvPool, camera images."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack

PONGS = 8
"""Games of Pong at once, as PPO is used on Atari."""


class BulletWalker(gymnasium.Env[Any, Any]):
    """PyBullet's own Walker2D, glue and all. Its code asks for `gym`: gymnasium answers to that name."""

    def __init__(self) -> None:
        self._env = _bullet().Walker2DBulletEnv()
        self.observation_space, self.action_space = (
            self._env.observation_space,
            self._env.action_space,
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._env.seed(seed)
        return np.asarray(self._env.reset(), np.float32), {}

    def step(self, action: Any) -> Any:
        observation, reward, ended, told = self._env.step(action)
        return (
            np.asarray(observation, np.float32),
            float(reward),
            bool(ended),
            False,
            told,
        )


class EnvPool(VecEnv):
    """EnvPool for Stable-Baselines3: one call steps all games, on threads of C++."""

    def __init__(self, task: str, games: int) -> None:
        import envpool

        self._env = envpool.make_gymnasium(task, num_envs=games)
        super().__init__(games, self._env.observation_space, self._env.action_space)
        self._actions: Any = None

    def reset(self) -> Any:
        return self._env.reset()[0]

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        observation, reward, ended, cut, _ = self._env.step(self._actions)
        over = ended | cut
        if over.any():
            observation[over] = self._env.reset(np.flatnonzero(over))[0]
        return observation, reward, over, [{} for _ in range(self.num_envs)]

    def close(self) -> None:
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def _bullet() -> Any:
    for name in ("", ".spaces", ".utils", ".utils.seeding"):
        sys.modules[f"gym{name}"] = importlib.import_module(f"gymnasium{name}")
    found = importlib.util.find_spec("pybullet_envs")
    assert found is not None
    package = ModuleType(
        "pybullet_envs"
    )  # its __init__ registers environments in a way of 2016
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules["pybullet_envs"] = package
    return importlib.import_module("pybullet_envs.gym_locomotion_envs")


def make(name: str) -> Any:
    """One environment, or several at once, by their name in the survey."""
    kind, _, task = name.rpartition(":")
    if kind == "envpool":
        return EnvPool(task, PONGS)
    if kind == "camera":
        return VecFrameStack(DummyVecEnv([lambda: _camera(task)]), 4)
    if kind == "bullet":
        return gymnasium.wrappers.TimeLimit(BulletWalker(), 1000)
    if name.startswith("ALE/"):
        return VecFrameStack(DummyVecEnv([lambda: _atari(name)] * PONGS), 4)
    if name.startswith("MiniGrid"):
        from minigrid.wrappers import ImgObsWrapper

        return gymnasium.wrappers.FlattenObservation(
            ImgObsWrapper(gymnasium.make(name))
        )
    return gymnasium.make(name)


def _atari(name: str) -> Any:
    import ale_py

    gymnasium.register_envs(ale_py)
    return gymnasium.wrappers.AtariPreprocessing(
        gymnasium.make(name, frameskip=1), grayscale_newaxis=True
    )


def _camera(name: str) -> Any:
    """What a camera sees instead of the state: 84 × 84 grey pixels, drawn by OpenGL without a screen."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    env: Any = gymnasium.make(name, render_mode="rgb_array", width=84, height=84)
    env = gymnasium.wrappers.AddRenderObservation(env, render_only=True)
    return gymnasium.wrappers.GrayscaleObservation(env, keep_dim=True)
