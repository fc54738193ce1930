"""DQN in a world of dm_env: time steps with a type, a reward and a discount; batches are drawn from a list of transitions."""

import random

import dm_env
import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from dm_env import specs
from torch import nn

FRAMEWORK = "dm_env"
SIDE, BATCH = 8, 128


class Catch(dm_env.Environment):
    """A ball falls down; the paddle below it is moved to catch it."""

    def reset(self):
        self.row, self.column, self.paddle = 0, random.randrange(SIDE), SIDE // 2
        return dm_env.restart(self.seen())

    def step(self, action):
        self.row += 1
        self.paddle = min(max(self.paddle + action - 1, 0), SIDE - 1)
        if self.row == SIDE - 1:
            return dm_env.termination(float(self.paddle == self.column), self.seen())
        return dm_env.transition(0.0, self.seen())

    def seen(self):
        board = np.zeros((32, SIDE, SIDE), np.float32)
        for one in range(32):
            board[one, self.row, self.column] = 1
            board[one, SIDE - 1, self.paddle] = 1
        return board.mean(0).ravel()

    def observation_spec(self):
        return specs.Array((SIDE * SIDE,), np.float32)

    def action_spec(self):
        return specs.DiscreteArray(3)


class Memory:
    def __init__(self) -> None:
        self.kept = []

    def add(self, *transition):
        self.kept.append(transition)

    def sample(self, count):
        chosen = random.sample(self.kept, count)
        return [torch.as_tensor(np.stack(part)) for part in zip(*chosen, strict=True)]


random.seed(1)
torch.manual_seed(1)
torch.set_num_threads(1)
env, memory = Catch(), Memory()
network = nn.Sequential(nn.Linear(SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, 3))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
with operation("simulation"):
    now = env.reset()
for number in range(8_000):
    with operation("inference"):
        with torch.no_grad():
            values = network(torch.from_numpy(now.observation))
        action = int(values.argmax()) if random.random() > 0.1 else random.randrange(3)
    with operation("simulation"):
        following = env.step(action)
    with operation("replay"):
        memory.add(
            now.observation,
            action,
            np.float32(following.reward),
            following.observation,
            np.float32(following.discount),
        )
    now = following
    if now.last():
        with operation("simulation"):
            now = env.reset()
    if number < BATCH or number % 4:
        continue
    iteration()
    with operation("replay"):
        seen, taken, rewards, after, goes_on = memory.sample(BATCH)
    with operation("backpropagation"):
        with torch.no_grad():
            target = rewards + 0.99 * goes_on * network(after).amax(-1)
        chosen = network(seen).gather(1, taken[:, None]).squeeze(1)
        loss = (chosen - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
