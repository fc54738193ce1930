"""TD3 or DDPG in one file of plain PyTorch, in the manner of CleanRL: `python -m studies.survey.programs.single_file --algorithm td3`."""

from __future__ import annotations

import argparse
import copy
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn
from torch.nn import functional

torch.set_num_threads(1)


def network(inputs: int, outputs: int, *last: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 400),
        nn.ReLU(),
        nn.Linear(400, 300),
        nn.ReLU(),
        nn.Linear(300, outputs),
        *last,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("td3", "ddpg"), default="td3")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--learning-starts", type=int, default=100)
    args = parser.parse_args()
    twins, delay, smoothing = (2, 2, 0.2) if args.algorithm == "td3" else (1, 1, 0.0)

    # environment
    env: Any = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("Walker2d-v5"))
    observations, actions = env.observation_space.shape[0], env.action_space.shape[0]

    # networks
    actor = network(observations, actions, nn.Tanh())
    critics = nn.ModuleList(network(observations + actions, 1) for _ in range(twins))
    target_actor, target_critics = copy.deepcopy(actor), copy.deepcopy(critics)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.Adam(critics.parameters(), lr=1e-3)
    buffer = ReplayBuffer(
        100_000,
        env.observation_space,
        env.action_space,
        "cpu",
        handle_timeout_termination=False,
    )

    # training
    observation, _ = env.reset(seed=1)
    for step in range(args.steps):
        if step < args.learning_starts:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = actor(
                    torch.as_tensor(observation, dtype=torch.float32)
                ).numpy()
                action = (
                    (action + np.random.normal(0, 0.1, actions))
                    .clip(-1, 1)
                    .astype(np.float32)
                )
        following, reward, ended, cut, info = env.step(action)
        buffer.add(
            observation, following, action, np.array(reward), np.array(ended), [info]
        )
        observation = env.reset()[0] if ended or cut else following
        if step < args.learning_starts:
            continue

        data = buffer.sample(100)
        now, after = data.observations.float(), data.next_observations.float()
        with torch.no_grad():
            noise = (torch.randn_like(data.actions) * smoothing).clamp(-0.5, 0.5)
            chosen = (target_actor(after) + noise).clamp(-1, 1)
            value = torch.cat(
                [critic(torch.cat([after, chosen], 1)) for critic in target_critics], 1
            )
            target = (
                data.rewards
                + 0.99 * (1 - data.dones) * value.min(1, keepdim=True).values
            )
        pairs = torch.cat([now, data.actions], 1)
        loss = sum(
            (functional.mse_loss(critic(pairs), target) for critic in critics),
            torch.zeros(()),
        )
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        if step % delay == 0:
            actor_loss = -critics[0](torch.cat([now, actor(now)], 1)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            for old, new in ((target_actor, actor), (target_critics, critics)):
                for kept, fresh in zip(old.parameters(), new.parameters(), strict=True):
                    kept.data.copy_(0.005 * fresh.data + 0.995 * kept.data)


if __name__ == "__main__":
    main()
