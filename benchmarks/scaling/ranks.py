"""PPO on CartPole on several ranks, like CleanRL's multi-GPU script: each rank has its own environments, and gradients are averaged
with one all_reduce. Nothing in it knows of Cutaway.

    torchrun --standalone --nproc_per_node=N ranks.py SECONDS
"""

from __future__ import annotations

import sys
import time

import gymnasium as gym
import numpy as np
import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributions.categorical import Categorical

ENVS, STEPS, EPOCHS, MINIBATCHES = 4, 64, 4, 4
CLIP = 0.2


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh()
        )
        self.actor = nn.Linear(256, 2)
        self.critic = nn.Linear(256, 1)

    def get_action_and_value(
        self, x: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.network(x)
        probs = Categorical(logits=self.actor(hidden))
        chosen = probs.sample() if action is None else action
        value = self.critic(hidden).flatten()
        return chosen, probs.log_prob(chosen), probs.entropy(), value


def average(agent: Agent) -> None:
    """The gradients of all ranks."""
    gradients = [p.grad.view(-1) for p in agent.parameters() if p.grad is not None]
    flat = torch.cat(gradients)
    dist.all_reduce(flat)
    at = 0
    for gradient in gradients:
        gradient.copy_(flat[at : at + len(gradient)] / dist.get_world_size())
        at += len(gradient)


def main(seconds: float) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    seed = 1 + dist.get_rank()
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS)
    agent = Agent()
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-4)
    observed = torch.Tensor(envs.reset(seed=seed)[0])
    going = torch.ones(1)
    end = time.monotonic() + seconds
    while going.item():
        rows = []
        for _ in range(STEPS):
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(observed)
            after, reward, *_ = envs.step(action.numpy())
            rows.append((observed, action, logprob, value, torch.Tensor(reward)))
            observed = torch.Tensor(after)
        obs, actions, logprobs, values, rewards = map(
            torch.cat, zip(*rows, strict=True)
        )
        advantages = rewards - values
        for _ in range(EPOCHS):
            for picked in np.array_split(np.random.permutation(len(obs)), MINIBATCHES):
                _, new, entropy, value = agent.get_action_and_value(
                    obs[picked], actions[picked]
                )
                ratio = (new - logprobs[picked]).exp()
                gain = torch.min(
                    ratio * advantages[picked],
                    ratio.clamp(1 - CLIP, 1 + CLIP) * advantages[picked],
                )
                error = (value - rewards[picked]).pow(2)
                loss = (0.5 * error - gain - 0.01 * entropy).mean()
                optimizer.zero_grad()
                loss.backward()
                average(agent)
                optimizer.step()
        # The first rank says when it is over, so that nobody waits for one that has left.
        going = torch.tensor([float(time.monotonic() < end)])
        dist.broadcast(going, 0)
    envs.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(float(sys.argv[1]))
