"""Workers that simulate and one learner, each a process of its own:

cutaway run examples/processes.py
"""

import argparse
import multiprocessing as mp

import gymnasium as gym
import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument(
    "--method", choices=("fork", "spawn", "forkserver"), default="spawn"
)
args = parser.parse_args()


def work(pipe, seed: int, steps: int) -> None:
    """Steps an environment at random whenever it is asked to, and sends what it saw."""
    env = gym.make("CartPole-v1")
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    while pipe.recv():
        seen = []
        for _ in range(steps):
            seen.append(observation)
            observation, _, terminated, truncated, _ = env.step(
                env.action_space.sample()
            )
            if terminated or truncated:
                observation, _ = env.reset()
        pipe.send(np.array(seen, dtype=np.float32))


def main() -> None:
    torch.set_num_threads(1)
    context = mp.get_context(args.method)
    pipes, workers = [], []
    for number in range(args.workers):
        mine, theirs = context.Pipe()
        worker = context.Process(
            target=work, args=(theirs, number, args.steps), name=f"worker-{number}"
        )
        worker.start()
        pipes.append(mine)
        workers.append(worker)
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(args.rounds):
        for pipe in pipes:
            pipe.send(True)
        seen = torch.from_numpy(np.concatenate([pipe.recv() for pipe in pipes]))
        loss = (model(seen) - seen).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send(False)
        worker.join()
    print(f"{args.rounds * args.workers * args.steps} steps, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
