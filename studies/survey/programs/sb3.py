"""One algorithm of Stable-Baselines3 or SBX on one simulator: `python -m studies.survey.programs.sb3 PPO CartPole-v1`."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

import torch

from studies.survey.programs.simulators import make

torch.set_num_threads(1)
SETTINGS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 256, "batch_size": 64, "n_epochs": 10},
    "A2C": {"n_steps": 32},
    "SAC": {"batch_size": 256, "learning_starts": 100},
    "TD3": {"batch_size": 100, "learning_starts": 100},
    "DDPG": {"batch_size": 100, "learning_starts": 100},
    "DQN": {"learning_starts": 100},
}
OUR_NETWORK = {"TD3": [400, 300], "DDPG": [400, 300]}


def main(words: list[str]) -> int:
    """Trains for so many steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("algorithm", choices=SETTINGS)
    parser.add_argument("env")
    parser.add_argument(
        "--library", choices=("stable_baselines3", "sbx"), default="stable_baselines3"
    )
    parser.add_argument("--steps", type=int, default=5000)
    args = parser.parse_args(words)
    settings = dict(SETTINGS[args.algorithm])
    if args.algorithm in OUR_NETWORK:
        settings["policy_kwargs"] = {"net_arch": OUR_NETWORK[args.algorithm]}
    if args.algorithm == "PPO" and args.library == "sbx":
        settings.pop("n_epochs")
    env = make(args.env)
    images = len(env.observation_space.shape) > 1
    if images:
        settings |= {
            "n_steps": 128 // getattr(env, "num_envs", 1),
            "n_epochs": 4,
        }  # as is usual on Atari
    policy = "CnnPolicy" if images else "MlpPolicy"
    getattr(importlib.import_module(args.library), args.algorithm)(
        policy, env, **settings
    ).learn(args.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
