"""Greedy play of a checkpoint, in this process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import cutaway

from . import checkpoint, envs
from .config import Config
from .policy import TorchPolicy
from .train import make_net, run_directory
from .transport import Requests


def evaluate(config: Config, episodes: int) -> str:
    """Plays `episodes` with the checkpoint in the run's directory; one line with the mean return."""
    returns = play(config, episodes)
    return f"episodes={episodes} return={np.mean(returns):.4g} low={min(returns):.4g} high={max(returns):.4g}"


def play(config: Config, episodes: int) -> list[float]:
    """The returns of greedy episodes."""
    alone = replace(config, actors=1, envs_per_actor=1)
    game = envs.make(config.env, config.seed + 12_345)
    net = make_net(alone, game.spec)
    state, _ = checkpoint.load(run_directory(config), alone)
    net.load_state_dict(state["net"])
    policy = TorchPolicy(alone, net, greedy=True)
    obs = np.zeros((1, *game.spec.shape), game.spec.dtype)
    zero, one = np.zeros(1, np.int64), np.ones(1, np.uint8)
    returns = []
    with cutaway.operation("evaluation"):
        for _ in range(episodes):
            game.reset(obs[0])
            reward, done, score = 0.0, False, 0.0
            first = one
            while not done:
                requests = Requests(zero, zero, obs, np.array([reward], np.float32), first, zero, zero)
                actions, _ = policy.act(requests)
                reward, done = game.step(int(actions[0]), obs[0])
                score += reward
                first = np.zeros(1, np.uint8)
            returns.append(score)
    return returns
