"""Two agents that take turns, in a world shaped like PettingZoo's: it keeps rewards and ends, and iterates over its agents."""

import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn
from torch.distributions import Categorical

FRAMEWORK = "PettingZoo's AEC shape"
SIDE, EPISODES = 8, 260


class Territory:
    """Each agent in turn takes a field; a field is worth what its neighbours are."""

    def reset(self, seed=None):
        self.agents = ["first", "second"]
        self.board, self.turn = np.zeros((SIDE, SIDE), np.float32), 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def last(self):
        agent = self.agent_selection
        sign = 1.0 if agent == "first" else -1.0
        over = self.terminations[agent]
        return self.board.ravel() * sign, self.rewards[agent], over, False, {}

    def step(self, action):
        sign = 1.0 if self.agent_selection == "first" else -1.0
        row, column = divmod(action, SIDE)
        self.board[row, column] = sign
        worth = 0.0
        for i in range(SIDE):
            for j in range(SIDE):
                around = self.board[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
                worth += float(self.board[i, j] * around.sum())
        self.rewards = {"first": worth / 100, "second": -worth / 100}
        self.turn += 1
        over = self.turn == 2 * SIDE
        self.terminations = dict.fromkeys(self.agents, over)
        self.agent_selection = self.agents[self.turn % 2]

    def agent_iter(self):
        while not self.terminations[self.agent_selection]:
            yield self.agent_selection


torch.manual_seed(1)
torch.set_num_threads(1)
env = Territory()
policy = nn.Sequential(
    nn.Linear(SIDE * SIDE, 128), nn.Tanh(), nn.Linear(128, SIDE * SIDE)
)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for _ in range(EPISODES):
    iteration()
    with operation("simulation"):
        env.reset()
    kept = {"first": [], "second": []}
    for agent in env.agent_iter():
        with operation("inference"):
            observation, *_ = env.last()
            seen = torch.from_numpy(observation)
            with torch.no_grad():
                action = int(Categorical(logits=policy(seen)).sample())
        with operation("simulation"):
            env.step(action)
        with operation("replay"):
            kept[agent].append((seen, action))
    with operation("backpropagation"):
        loss = 0.0
        for agent, steps in kept.items():
            seen = torch.stack([one for one, _ in steps])
            taken = torch.tensor([action for _, action in steps])
            log = Categorical(logits=policy(seen)).log_prob(taken)
            loss = loss - (log * env.rewards[agent]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
