"""Stable-Baselines3 PPO on CartPole. Nothing in here knows about Cutaway:

cutaway run examples/sb3_ppo.py
"""

import argparse

import torch
from stable_baselines3 import PPO

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8192)
parser.add_argument("--envs", type=int, default=4)
args = parser.parse_args()

torch.set_num_threads(1)


def main() -> None:
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env("CartPole-v1", n_envs=args.envs, seed=1)
    model = PPO("MlpPolicy", env, n_steps=256, batch_size=64, seed=1, device="cpu")
    model.learn(args.steps)
    print(f"{model.num_timesteps} steps, {model._n_updates} epochs of updates")


if __name__ == "__main__":
    main()
