"""python -m benchmarks.correction.train WORKLOAD STEPS: one seeded training program of the proof, as a user would write it."""

from __future__ import annotations

import sys
from typing import Any

import torch

WORKLOADS = {
    "PPO Walker2d": ("PPO", "Walker2d-v5", 36000),
    "A2C Walker2d": ("A2C", "Walker2d-v5", 16000),
    "SAC Walker2d": ("SAC", "Walker2d-v5", 1800),
    "DDPG Walker2d": ("DDPG", "Walker2d-v5", 2400),
    "TD3 Walker2d": ("TD3", "Walker2d-v5", 7000),
    "PPO Hopper": ("PPO", "Hopper-v5", 36000),
    "PPO Ant": ("PPO", "Ant-v5", 30000),
    "PPO HalfCheetah": ("PPO", "HalfCheetah-v5", 36000),
    "DQN Pong": ("DQN", "ALE/Pong-v5", 3600),
    "PPO CartPole": ("PPO", "CartPole-v1", 60000),
    "SBX SAC HalfCheetah": ("SBX SAC", "HalfCheetah-v5", 2400),
    "PPO CartPole, 2 workers": ("PPO subprocess", "CartPole-v1", 32000),
}


def build(algorithm: str, env: str) -> Any:
    import stable_baselines3 as sb3

    if algorithm == "SBX SAC":
        import sbx

        return sbx.SAC("MlpPolicy", env, learning_starts=64, buffer_size=20_000, seed=1)
    if algorithm == "PPO subprocess":
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.vec_env import SubprocVecEnv

        return sb3.PPO(
            "MlpPolicy",
            make_vec_env(env, 2, seed=1, vec_env_cls=SubprocVecEnv),
            n_steps=128,
            seed=1,
            device="cpu",
        )
    if env.startswith("ALE/"):
        from benchmarks.overhead.programs import dqn_pong

        return dqn_pong()
    small = (
        {"n_steps": 256}
        if algorithm == "PPO"
        else {}
        if algorithm == "A2C"
        else {"learning_starts": 64, "buffer_size": 20_000}
    )
    return getattr(sb3, algorithm)("MlpPolicy", env, seed=1, device="cpu", **small)


def main() -> None:
    torch.set_num_threads(1)
    algorithm, env, steps = WORKLOADS[sys.argv[1]]
    build(algorithm, env).learn(int(sys.argv[2]) if len(sys.argv) > 2 else steps)


if __name__ == "__main__":
    main()
