"""Three agents at once in a world shaped like PettingZoo's parallel API: dictionaries of observations, rewards and ends; actor and
critic are updated apart."""

import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn
from torch.distributions import Normal

FRAMEWORK = "PettingZoo's parallel shape"
AGENTS, STEPS, EPISODES, EPOCHS = ("red", "green", "blue"), 40, 70, 6


class Herd:
    """Points that keep apart from each other and follow a goal, in 30 small steps of physics."""

    def reset(self):
        self.places = np.random.randn(len(AGENTS), 2).astype(np.float32)
        self.goal, self.age = np.random.randn(2).astype(np.float32), 0
        return self.seen()

    def seen(self):
        away = self.goal - self.places
        around = (self.places[None] - self.places[:, None]).reshape(len(AGENTS), -1)
        rows = np.concatenate([away, around], 1)
        return dict(zip(AGENTS, rows, strict=True))

    def step(self, actions):
        pushes = np.stack([actions[agent] for agent in AGENTS])
        for _ in range(30):
            apart = self.places[:, None] - self.places[None]
            near = np.exp(-np.square(apart).sum(-1, keepdims=True))
            self.places = self.places + 0.01 * (pushes + (near * apart).sum(1))
        self.age += 1
        distances = np.linalg.norm(self.goal - self.places, axis=1)
        rewards = {a: -float(d) for a, d in zip(AGENTS, distances, strict=True)}
        over = dict.fromkeys(AGENTS, self.age == STEPS)
        return self.seen(), rewards, over, dict.fromkeys(AGENTS, False), {}


np.random.seed(1)
torch.manual_seed(1)
torch.set_num_threads(1)
world = Herd()
actor = nn.Sequential(nn.Linear(8, 128), nn.Tanh(), nn.Linear(128, 2))
critic = nn.Sequential(nn.Linear(8, 128), nn.Tanh(), nn.Linear(128, 1))
acting = torch.optim.Adam(actor.parameters(), lr=1e-3)
judging = torch.optim.Adam(critic.parameters(), lr=1e-3)
seen, taken = torch.zeros(STEPS, 3, 8), torch.zeros(STEPS, 3, 2)
rewards = torch.zeros(STEPS, 3)
for _ in range(EPISODES):
    iteration()
    with operation("simulation"):
        observed = world.reset()
    for at in range(STEPS):
        with operation("inference"):
            rows = torch.from_numpy(np.stack([observed[a] for a in AGENTS]))
            with torch.no_grad():
                chosen = Normal(actor(rows), 0.3).sample()
            actions = dict(zip(AGENTS, chosen.numpy(), strict=True))
        with operation("simulation"):
            observed, earned, over, cut, _ = world.step(actions)
        with operation("replay"):
            seen[at], taken[at] = rows, chosen
            rewards[at] = torch.tensor([earned[a] for a in AGENTS])
    with operation("backpropagation"):
        returns = rewards.flip(0).cumsum(0).flip(0) / STEPS
        for _ in range(EPOCHS):
            error = (critic(seen).squeeze(-1) - returns).square().mean()
            judging.zero_grad()
            error.backward()
            judging.step()
        with torch.no_grad():
            advantages = returns - critic(seen).squeeze(-1)
        log = Normal(actor(seen), 0.3).log_prob(taken).sum(-1)
        loss = -(log * advantages).mean()
        acting.zero_grad()
        loss.backward()
        acting.step()
