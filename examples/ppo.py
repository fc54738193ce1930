"""PPO on CartPole in one file of plain PyTorch, in the manner of CleanRL. Nothing in here knows about Cutaway:

cutaway run examples/ppo.py
"""

import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=8)
parser.add_argument("--steps", type=int, default=128)
parser.add_argument("--envs", type=int, default=4)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--minibatches", type=int, default=4)
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(1)
np.random.seed(1)


class Agent(nn.Module):
    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.critic = nn.Sequential(
            nn.Linear(observations, 64), nn.Tanh(), nn.Linear(64, 1)
        )
        self.actor = nn.Sequential(
            nn.Linear(observations, 64), nn.Tanh(), nn.Linear(64, actions)
        )

    def forward(self, x, action=None):
        distribution = Categorical(logits=self.actor(x))
        action = distribution.sample() if action is None else action
        return (
            action,
            distribution.log_prob(action),
            distribution.entropy(),
            self.critic(x).squeeze(-1),
        )


envs = gym.vector.SyncVectorEnv(
    [lambda: gym.make("CartPole-v1") for _ in range(args.envs)]
)
agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.n)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)

observations = torch.zeros(
    (args.steps, args.envs, *envs.single_observation_space.shape)
)
actions = torch.zeros((args.steps, args.envs))
logprobs, rewards, dones, values = (
    torch.zeros((args.steps, args.envs)) for _ in range(4)
)
observation = torch.Tensor(envs.reset(seed=1)[0])
done = torch.zeros(args.envs)

for _iteration in range(args.iterations):
    # rollout
    for t in range(args.steps):
        observations[t], dones[t] = observation, done
        with torch.no_grad():
            actions[t], logprobs[t], _, values[t] = agent(observation)
        observation, reward, terminated, truncated, _ = envs.step(
            actions[t].long().numpy()
        )
        rewards[t] = torch.tensor(reward)
        observation, done = (
            torch.Tensor(observation),
            torch.Tensor(terminated | truncated),
        )

    # advantages
    with torch.no_grad():
        following = agent(observation)[3]
    advantages = torch.zeros_like(rewards)
    last = torch.zeros(args.envs)
    for t in reversed(range(args.steps)):
        alive = 1.0 - (done if t == args.steps - 1 else dones[t + 1])
        after = following if t == args.steps - 1 else values[t + 1]
        delta = rewards[t] + 0.99 * after * alive - values[t]
        last = delta + 0.99 * 0.95 * alive * last
        advantages[t] = last
    returns = advantages + values

    # update
    batch = args.steps * args.envs
    flat = [
        x.reshape(batch, *x.shape[2:])
        for x in (observations, actions, logprobs, advantages, returns)
    ]
    for _epoch in range(args.epochs):
        for chosen in torch.randperm(batch).split(batch // args.minibatches):
            x, action, before, advantage, target = (v[chosen] for v in flat)
            _, now, entropy, value = agent(x, action)
            ratio = (now - before).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            policy_loss = -torch.min(
                advantage * ratio, advantage * ratio.clamp(0.8, 1.2)
            ).mean()
            loss = (
                policy_loss
                + 0.5 * (value - target).square().mean()
                - 0.01 * entropy.mean()
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()

print(
    f"{args.iterations} iterations, {args.iterations * batch} steps, loss {loss.item():.4f}"
)
