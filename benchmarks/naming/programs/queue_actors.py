"""Actors in processes of their own put rollouts into a queue; the learner waits for them, which is no operation."""

import gymnasium as gym
import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import multiprocessing, nn
from torch.distributions import Categorical

FRAMEWORK = "IMPALA shape, multiprocessing queue"
ACTORS, STEPS, UPDATES = 2, 512, 40


def network():
    body = nn.Sequential(nn.Linear(4, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh())
    return nn.Sequential(body, nn.Linear(512, 2))


def act(shared, queue, over, number):
    torch.manual_seed(number)
    torch.set_num_threads(1)
    env = gym.make("CartPole-v1")
    with operation("simulation"):
        seen, _ = env.reset(seed=number)
    while not over.is_set():
        kept = []
        for _ in range(STEPS):
            with operation("inference"):
                with torch.no_grad():
                    policy = Categorical(logits=shared(torch.from_numpy(seen)))
                    action = int(policy.sample())
            with operation("simulation"):
                after, reward, ended, cut, _ = env.step(action)
            with operation("replay"):
                kept.append((seen, action, reward))
            seen = after
            if ended or cut:
                with operation("simulation"):
                    seen, _ = env.reset()
        with operation("replay"):
            rollout = [np.stack(part) for part in zip(*kept, strict=True)]
        queue.put(rollout)


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = network()
    model.share_memory()
    queue, over = multiprocessing.Queue(8), multiprocessing.Event()
    actors = [
        multiprocessing.Process(
            target=act, args=(model, queue, over, number), daemon=True
        )
        for number in range(ACTORS)
    ]
    for actor in actors:
        actor.start()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(UPDATES):
        iteration()
        kept = queue.get()
        with operation("backpropagation"):
            seen, taken, rewards = map(torch.from_numpy, kept)
            returns = rewards.flip(0).cumsum(0).flip(0)
            advantages = (returns - returns.mean()) / returns.std()
            for _ in range(3):
                log = Categorical(logits=model(seen)).log_prob(taken)
                loss = -(log * advantages).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    over.set()
    for actor in actors:
        actor.kill()
