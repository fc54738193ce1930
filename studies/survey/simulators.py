"""Simulators of the survey as gymnasium environments: gymnasium's own, PyBullet's Walker as PyBullet ships it, EnvPool's Pong."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np


class BulletWalker(gymnasium.Env[Any, Any]):
    """PyBullet's own Walker2D, glue and all. Its code asks for `gym`: gymnasium answers to that name."""

    def __init__(self) -> None:
        self._env = _bullet().Walker2DBulletEnv()
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._env.seed(seed)
        return np.asarray(self._env.reset(), np.float32), {}

    def step(self, action: Any) -> Any:
        observation, reward, ended, told = self._env.step(action)
        return np.asarray(observation, np.float32), float(reward), bool(ended), False, told


def _bullet() -> Any:
    for name in ("", ".spaces", ".utils", ".utils.seeding"):
        sys.modules[f"gym{name}"] = importlib.import_module(f"gymnasium{name}")
    found = importlib.util.find_spec("pybullet_envs")
    assert found is not None
    package = ModuleType("pybullet_envs")  # its __init__ registers environments in a way of 2016
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules["pybullet_envs"] = package
    return importlib.import_module("pybullet_envs.gym_locomotion_envs")


def make(name: str) -> Any:
    """One environment by its name in the survey."""
    if name == "bullet:Walker2D":
        return gymnasium.wrappers.TimeLimit(BulletWalker(), 1000)
    if name.startswith("ALE/"):
        import ale_py

        gymnasium.register_envs(ale_py)
        env = gymnasium.make(name, frameskip=1)
        return gymnasium.wrappers.AtariPreprocessing(env)
    return gymnasium.make(name)
