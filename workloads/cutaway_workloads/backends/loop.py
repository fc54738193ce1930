"""The training loop that all backends share: collect, then update as often as there were steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import gymnasium
import numpy as np

import cutaway

from . import make
from .agent import ALGORITHMS, Replay, Settings, first_weights


@dataclass(frozen=True)
class Plan:
    """One training run. `every` steps are collected, then as many updates made; `warm_up` steps are random."""

    backend: str
    algorithm: str = "td3"
    env: str = "Walker2d-v5"
    steps: int = 10_000
    every: int = 1000
    warm_up: int = 1000
    capacity: int = 100_000
    exploration: float = 0.1
    batch: int = 100
    hidden: tuple[int, ...] = (400, 300)
    seed: int = 1


def train(plan: Plan, say: Callable[[str], None] = print) -> float:
    """Trains as planned; the mean return of the last ten episodes."""
    env = gymnasium.make(plan.env)
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    assert isinstance(env.action_space, gymnasium.spaces.Box)
    scale = env.action_space.high
    settings = Settings(
        env.observation_space.shape[0], scale.shape[0],
        hidden=plan.hidden, batch=plan.batch, **ALGORITHMS[plan.algorithm],
    )  # fmt: skip
    agent = make(plan.backend, settings, first_weights(settings, plan.seed))
    replay = Replay(settings, plan.capacity, plan.seed)
    cutaway.describe(
        backend=plan.backend, algorithm=plan.algorithm, env=plan.env, every=plan.every
    )
    rng = np.random.default_rng(plan.seed)
    returns: list[float] = []
    observation, _ = env.reset(seed=plan.seed)
    so_far, began = 0.0, time.monotonic()
    for first in range(0, plan.steps, plan.every):
        cutaway.iteration()
        for step in range(first, min(first + plan.every, plan.steps)):
            if step < plan.warm_up:
                action = rng.uniform(-1, 1, settings.action)
            else:
                noise = plan.exploration * rng.standard_normal(settings.action)
                action = np.clip(
                    agent.act(observation.astype(settings.dtype)) + noise, -1, 1
                )
            following, reward, ended, cut, _ = env.step(
                (scale * action).astype(np.float32)
            )
            replay.add(observation, action, reward, following, ended)
            so_far += float(reward)
            observation = following
            if ended or cut:
                returns.append(so_far)
                so_far = 0.0
                observation, _ = env.reset()
        if first + plan.every > plan.warm_up:
            agent.learn(replay, plan.every)
        pace = (first + plan.every) / (time.monotonic() - began)
        say(
            f"{first + plan.every} steps, return {mean_return(returns):.0f}, {pace:.0f} steps/s"
        )
    env.close()
    return mean_return(returns)


def mean_return(returns: list[float]) -> float:
    return float(np.mean(returns[-10:])) if returns else float("nan")
