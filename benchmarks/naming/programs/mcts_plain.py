"""Monte Carlo tree search in plain Python over a game in plain Python: no network, no array."""

import math
import random

from benchmarks.naming.truth import iteration, operation

FRAMEWORK = "MCTS, plain Python"


class Walk:
    """Reach 12 on a line, one to the left or two to the right."""

    def reset(self):
        self.at, self.age = 0, 0
        return self.at

    def step(self, action):
        self.at += 2 if action else -1
        self.age += 1
        for _ in range(3_000):
            self.at = (self.at * 7 + 3 * self.at) // 10
        over = self.at >= 12 or self.age > 60
        return self.at, float(self.at >= 12), over, {}


def search(root):
    visits, wins = [1, 1], [0.5, 0.5]
    for _ in range(60):
        total = math.log(sum(visits))
        scores = [
            w / n + math.sqrt(2 * total / n) for w, n in zip(wins, visits, strict=True)
        ]
        action = scores.index(max(scores))
        at = root
        for _ in range(10):
            at += 2 if random.random() < 0.5 else -1
        visits[action] += 1
        wins[action] += at >= 12
    return visits.index(max(visits))


random.seed(1)
game = Walk()
for _ in range(150):
    iteration()
    with operation("simulation"):
        at = game.reset()
    over = False
    while not over:
        with operation("inference"):
            action = search(at)
        with operation("simulation"):
            at, _, over, _ = game.step(action)
