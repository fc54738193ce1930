"""Offline learning, as CORL writes it: a data set in a buffer that is only drawn from, no environment."""

import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn

FRAMEWORK = "CORL style"


class ReplayBuffer:
    def __init__(self, size):
        self.parts = [torch.randn(size, width) for width in (17, 6, 1, 17)]
        self.size = size

    def sample(self, batch_size):
        rows = np.random.randint(0, self.size, size=batch_size)
        return [part[rows] for part in self.parts]


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, outputs))


np.random.seed(1)
torch.manual_seed(1)
torch.set_num_threads(1)
buffer = ReplayBuffer(200_000)
actor, critic, target = network(17, 6), network(23, 1), network(23, 1)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=3e-4)
for number in range(1_500):
    iteration()
    with operation("replay"):
        seen, taken, rewards, after = buffer.sample(1024)
    with operation("backpropagation"):
        with torch.no_grad():
            following = torch.cat([after, actor(after)], -1)
            wanted = rewards + 0.99 * target(following)
        loss = (critic(torch.cat([seen, taken], -1)) - wanted).square().mean()
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        if number % 2:
            continue
        chosen = actor(seen)
        value = critic(torch.cat([seen, chosen], -1)).mean()
        loss = (chosen - taken).square().mean() - value
        actor_optimizer.zero_grad()
        loss.backward()
        actor_optimizer.step()
        for own, other in zip(critic.parameters(), target.parameters(), strict=True):
            other.data.lerp_(own.data, 0.005)
