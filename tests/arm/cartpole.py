"""A small gymnasium program without annotations: a linear policy on CartPole."""

import gymnasium
import numpy as np

environment = gymnasium.make("CartPole-v1")
weights = np.array([0.1, 0.2, 1.0, 0.8])
observation, _ = environment.reset(seed=1)
for _ in range(500):
    action = int(np.linalg.norm(weights) * (weights @ observation) > 0)
    observation, _, ended, stopped, _ = environment.step(action)
    if ended or stopped:
        observation, _ = environment.reset()
