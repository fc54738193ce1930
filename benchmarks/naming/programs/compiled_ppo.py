"""A policy gradient whose policy and update are functions compiled by torch.compile, as LeanRL does it."""

import gymnasium as gym
import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn

FRAMEWORK = "torch.compile"
ENVS, STEPS, EPOCHS, ITERATIONS = 4, 64, 4, 60


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(3, 256), nn.Tanh(), nn.Linear(256, 1))
        self.value = nn.Sequential(nn.Linear(3, 256), nn.Tanh(), nn.Linear(256, 1))

    def act(self, seen):
        mean = self.mean(seen)
        action = mean + 0.5 * torch.randn_like(mean)
        return action, -(action - mean).square().sum(-1), self.value(seen).squeeze(-1)


torch.manual_seed(1)
torch.set_num_threads(1)
envs = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * ENVS)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)


def learn(seen, taken, before, advantages, returns):
    optimizer.zero_grad()
    now = -(taken - agent.mean(seen)).square().sum(-1)
    ratio = (now - before).exp()
    gain = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    error = (agent.value(seen).squeeze(-1) - returns).square()
    loss = error.mean() - gain.mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


act = torch.compile(agent.act, backend="aot_eager")
learn = torch.compile(learn, backend="aot_eager")
seen, taken = torch.zeros(STEPS, ENVS, 3), torch.zeros(STEPS, ENVS, 1)
logs, values, rewards = (torch.zeros(STEPS, ENVS) for _ in range(3))
with operation("simulation"):
    observed, _ = envs.reset(seed=1)
for _ in range(ITERATIONS):
    iteration()
    for at in range(STEPS):
        with operation("inference"), torch.no_grad():
            here = torch.from_numpy(observed.astype(np.float32))
            action, log, value = act(here)
            chosen = action.numpy()
        with operation("simulation"):
            observed, reward, _, _, _ = envs.step(chosen)
        with operation("replay"):
            seen[at], taken[at], logs[at], values[at] = here, action, log, value
            rewards[at] = torch.from_numpy(reward)
    with operation("backpropagation"):
        returns = rewards.flip(0).cumsum(0).flip(0) / STEPS
        advantages = returns - values
        for _ in range(EPOCHS):
            for part in torch.randperm(STEPS).split(STEPS // 4):
                learn(
                    seen[part],
                    taken[part],
                    logs[part],
                    advantages[part],
                    returns[part],
                )
