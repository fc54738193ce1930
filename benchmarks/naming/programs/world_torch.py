"""A policy gradient in a world of torch tensors that inherits from nothing: 512 points pushed around at once."""

import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn

FRAMEWORK = "own world, torch tensors"


class World:
    def __init__(self):
        self.map, self.push = torch.randn(16, 16) * 0.1, torch.randn(4, 16)

    def reset(self):
        self.state, self.age = torch.zeros(512, 16), 0
        return self.state.clone()

    def step(self, actions):
        for _ in range(20):
            self.state = torch.tanh(self.state + self.state @ self.map)
        self.state = self.state + 0.1 * actions @ self.push
        self.age += 1
        over = torch.full((512,), self.age % 100 == 0)
        return self.state.clone(), -self.state.square().mean(-1), over, {}


torch.manual_seed(1)
torch.set_num_threads(1)
world = World()
policy = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
observation = world.reset()
seen, taken = torch.zeros(32, 512, 16), torch.zeros(32, 512, 4)
rewards = torch.zeros(32, 512)
for _ in range(120):
    iteration()
    for at in range(32):
        with operation("inference"), torch.no_grad():
            mean = policy(observation)
            action = mean + 0.3 * torch.randn_like(mean)
        with operation("simulation"):
            following, reward, over, _ = world.step(action)
        with operation("replay"):
            seen[at], taken[at], rewards[at] = observation, action, reward
            observation = following
    with operation("backpropagation"):
        advantages = rewards.flip(0).cumsum(0).flip(0)
        advantages = (advantages - advantages.mean()) / advantages.std()
        for _ in range(4):
            distance = (policy(seen) - taken).square().sum(-1)
            loss = (distance * advantages).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
