"""DQN with a ring buffer of its own, in NumPy, beside the agent."""

import gymnasium as gym
import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn

FRAMEWORK = "own ring buffer"
SIZE, BATCH = 20_000, 512


class Ring:
    def __init__(self):
        self.seen = np.zeros((SIZE, 4), np.float32)
        self.after = np.zeros((SIZE, 4), np.float32)
        self.taken, self.over = np.zeros(SIZE, np.int64), np.zeros(SIZE, np.float32)
        self.rewards, self.count = np.zeros(SIZE, np.float32), 0

    def push(self, seen, taken, reward, after, over):
        at = self.count % SIZE
        self.seen[at], self.after[at] = seen, after
        self.taken[at], self.rewards[at], self.over[at] = taken, reward, over
        self.count += 1

    def draw(self):
        return np.random.randint(0, min(self.count, SIZE), BATCH)

    def sample(self, count):
        rows = self.draw()
        parts = (self.seen, self.taken, self.rewards, self.after, self.over)
        return tuple(torch.from_numpy(part[rows]) for part in parts)


np.random.seed(1)
torch.manual_seed(1)
torch.set_num_threads(1)
env = gym.make("CartPole-v1")
network = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
ring = Ring()
observation, _ = env.reset(seed=1)
for number in range(12_000):
    with operation("inference"):
        with torch.no_grad():
            values = network(torch.from_numpy(observation))
        action = int(values.argmax()) if np.random.rand() > 0.1 else number % 2
    with operation("simulation"):
        following, reward, ended, cut, _ = env.step(action)
    with operation("replay"):
        ring.push(observation, action, reward, following, ended)
    observation = following
    if ended or cut:
        with operation("simulation"):
            observation, _ = env.reset()
    if number % 4 or number < BATCH:
        continue
    iteration()
    with operation("replay"):
        seen, taken, rewards, after, over = ring.sample(BATCH)
    with operation("backpropagation"):
        with torch.no_grad():
            target = rewards + 0.99 * (1 - over) * network(after).amax(-1)
        chosen = network(seen).gather(1, taken[:, None]).squeeze(1)
        loss = (chosen - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
