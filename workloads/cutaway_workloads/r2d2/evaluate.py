"""Greedy play of a checkpoint, in this process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import cutaway

from . import checkpoint, envs
from .config import Config
from .policy import TorchPolicy
from .train import make_net, run_directory
from .transport import DONE, REWARD, Requests


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
    zero, scalars = np.zeros(1, np.int64), np.zeros((1, 4), np.float32)
    returns = []
    with cutaway.operation("evaluation"):
        for _ in range(episodes):
            game.reset(obs[0])
            done, score = False, 0.0
            scalars[0, REWARD], scalars[0, DONE] = 0.0, 1.0
            while not done:
                actions, _ = policy.act(Requests([0], zero, obs, scalars))
                reward, done = game.step(int(actions[0]), obs[0])
                score += reward
                scalars[0, REWARD], scalars[0, DONE] = reward, 0.0
            returns.append(score)
    return returns
