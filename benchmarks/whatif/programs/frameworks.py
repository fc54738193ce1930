"""Programs of frameworks: Stable-Baselines3 and gymnasium's vector environments."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from benchmarks.whatif.programs.common import Pace, World, one_thread


class _Ticks(BaseCallback):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace
        self.before = 0
        self.goes_on = True

    def _on_rollout_end(self) -> None:
        steps, self.before = self.num_timesteps - self.before, self.num_timesteps
        self.goes_on = self.pace.tick(steps)

    def _on_step(self) -> bool:
        return self.goes_on


def _vectorised(envs: int, units: int, slow: int, workers: bool) -> Any:
    costs = [units] * (envs - 1) + [units * slow]
    makes: list[Any] = [partial(World, cost) for cost in costs]
    return SubprocVecEnv(makes, "fork") if workers else DummyVecEnv(makes)


def ppo(
    seconds: float,
    envs: int = 4,
    units: int = 8,
    slow: int = 1,
    workers: int = 0,
    batch: int = 64,
    epochs: int = 2,
    width: int = 64,
    threads: int = 1,
) -> tuple[float, float]:
    """PPO; `slow`: the last environment takes so many times as long; `workers`: one process for each environment."""
    one_thread(threads)
    env = _vectorised(envs, units, slow, bool(workers))
    net = {"net_arch": [width, width]}
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=batch,
        n_epochs=epochs,
        device="cpu",
        policy_kwargs=net,
    )
    pace = Pace(seconds)
    model.learn(10**9, _Ticks(pace))
    return pace.rates


def dqn(seconds: float, units: int = 4, batch: int = 64) -> tuple[float, float]:
    """DQN: one environment, an update every four steps."""
    one_thread()
    model = DQN(
        "MlpPolicy", World(units), learning_starts=50, train_freq=4, batch_size=batch, buffer_size=5000, device="cpu"
    )  # fmt: skip
    pace = Pace(seconds)
    model.learn(10**9, _Ticks(pace), log_interval=10**9)
    return pace.rates


def vector(
    seconds: float, envs: int = 4, units: int = 8, workers: int = 1
) -> tuple[float, float]:
    """A plain loop over gymnasium's vector environments: a policy each step, an update every 16 steps."""
    import cutaway

    one_thread()
    makes = [partial(World, units)] * envs
    made = (
        gymnasium.vector.AsyncVectorEnv(makes)
        if workers
        else gymnasium.vector.SyncVectorEnv(makes)
    )
    policy = torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)
    )
    optimizer = torch.optim.Adam(policy.parameters())
    seen, _ = made.reset()
    pace, goes_on = Pace(seconds), True
    while goes_on:
        kept = []
        for _ in range(16):
            with torch.no_grad():
                actions = policy(torch.as_tensor(seen)).argmax(1).numpy()
            seen, *_ = made.step(actions)
            kept.append(seen)
        batch = torch.as_tensor(np.concatenate(kept))
        loss = policy(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cutaway.iteration()
        goes_on = pace.tick(16 * envs)
    made.close()
    return pace.rates
