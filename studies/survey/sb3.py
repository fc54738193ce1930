"""One algorithm of Stable-Baselines3 or SBX on one simulator, as their users write it: `python -m studies.survey.sb3 PPO CartPole-v1`."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

import torch

from studies.survey.simulators import make

torch.set_num_threads(1)
SETTINGS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 512, "batch_size": 64, "n_epochs": 10},
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
    parser.add_argument("--library", choices=("stable_baselines3", "sbx"), default="stable_baselines3")
    parser.add_argument("--steps", type=int, default=5000)
    args = parser.parse_args(words)
    settings = dict(SETTINGS[args.algorithm])
    if args.algorithm in OUR_NETWORK:
        settings["policy_kwargs"] = {"net_arch": OUR_NETWORK[args.algorithm]}
    if args.algorithm == "PPO" and args.library == "sbx":
        settings.pop("n_epochs")
    env = make(args.env)
    policy = "CnnPolicy" if len(env.observation_space.shape) > 1 else "MlpPolicy"
    if policy == "CnnPolicy":
        from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

        env = VecFrameStack(DummyVecEnv([lambda: make(args.env)]), 4)
    getattr(importlib.import_module(args.library), args.algorithm)(policy, env, **settings).learn(args.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
