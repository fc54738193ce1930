"""Plain loops: actors and a learner over a queue, a batch drawn in a thread, workers and a server."""

from __future__ import annotations

import queue
import threading
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import torch

import cutaway
from benchmarks.whatif.programs.common import Pace, mp, one_thread, simulate


class Network:
    """A value network with its optimizer."""

    def __init__(self, width: int = 128) -> None:
        self.net = torch.nn.Sequential(
            torch.nn.Linear(20, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
        )  # fmt: skip
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, batch: np.ndarray) -> None:
        loss = self.net(torch.as_tensor(batch)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def actor_learner(
    seconds: float,
    actors: int = 1,
    units: int = 10,
    updates: int = 4,
    width: int = 128,
    batch: int = 256,
) -> tuple[float, float]:
    """Actors put unrolls of 8 steps into a bounded queue; the learner makes some updates with each."""
    one_thread()
    made = mp.Queue(4)
    for number in range(actors):
        mp.Process(
            target=_act, args=(made, units), name=f"actor-{number}", daemon=True
        ).start()
    network = Network(width)
    pace, goes_on = Pace(seconds), True
    while goes_on:
        unroll = made.get()
        with cutaway.operation("backpropagation"):
            for _ in range(updates):
                network.update(np.repeat(unroll, batch // 8, axis=0))
        cutaway.iteration()
        goes_on = pace.tick(8)
    return pace.rates


def _act(made: Any, units: int) -> None:
    random = np.random.default_rng()
    while True:
        with cutaway.operation("simulation"):
            for _ in range(8):
                simulate(units)
        made.put(random.random((8, 20), np.float32))


def replay(
    seconds: float, prefetch: int = 0, draws: int = 8, updates: int = 4, units: int = 0
) -> tuple[float, float]:
    """A learner that draws from a large memory, itself or in a thread that is one batch ahead."""
    one_thread()
    memory = np.random.default_rng(1).random((200_000, 20), np.float32)
    network = Network()
    ready: queue.Queue[np.ndarray] = queue.Queue(1)

    def draw() -> np.ndarray:
        with cutaway.operation("replay"):
            for _ in range(draws):
                picked = np.random.default_rng().permutation(len(memory))[:256]
            found: np.ndarray = memory[picked]
        return found

    def prefetches() -> None:
        while True:
            ready.put(draw())

    if prefetch:
        threading.Thread(target=prefetches, daemon=True).start()
    pace, goes_on = Pace(seconds), True
    while goes_on:
        batch = ready.get() if prefetch else draw()
        with cutaway.operation("backpropagation"):
            for _ in range(updates):
                network.update(batch)
        cutaway.iteration()
        goes_on = pace.tick(1)
    return pace.rates


def lockstep(
    seconds: float, workers: int = 4, units: int = 8, slow: int = 1, updates: int = 2
) -> tuple[float, float]:
    """Workers that all step for a message, one of which may be slow; then an update."""
    one_thread()
    pipes = []
    for number in range(workers):
        ours, theirs = mp.Pipe()
        cost = units * slow if number == workers - 1 else units
        mp.Process(
            target=_work, args=(theirs, cost), name=f"env-{number}", daemon=True
        ).start()
        pipes.append(ours)
    network = Network()
    pace, goes_on = Pace(seconds), True
    while goes_on:
        for pipe in pipes:
            pipe.send(1)
        found = [pipe.recv() for pipe in pipes]
        with cutaway.operation("backpropagation"):
            for _ in range(updates):
                network.update(np.concatenate(found))
        cutaway.iteration()
        goes_on = pace.tick(workers)
    return pace.rates


def _work(pipe: Connection, units: int) -> None:
    random = np.random.default_rng()
    while pipe.recv():
        with cutaway.operation("simulation"):
            simulate(units)
        pipe.send(random.random((32, 20), np.float32))


def served(seconds: float, actors: int = 1, units: int = 4) -> tuple[float, float]:
    """The main process answers actors, as many at once as there are, and updates after every 16 batches."""
    one_thread()
    pipes: list[Any] = []
    for number in range(actors):
        ours, theirs = mp.Pipe()
        mp.Process(
            target=_ask, args=(theirs, units), name=f"actor-{number}", daemon=True
        ).start()
        pipes.append(ours)
    network = Network()
    pace, goes_on = Pace(seconds), True
    while goes_on:
        kept = []
        for _ in range(16):
            ready: list[Any] = wait(pipes)
            seen = np.stack([pipe.recv() for pipe in ready])
            with cutaway.operation("inference"), torch.no_grad():
                network.net(torch.as_tensor(seen))
            for pipe in ready:
                pipe.send(1)
            kept.append(seen)
        with cutaway.operation("backpropagation"):
            network.update(np.concatenate(kept))
        cutaway.iteration()
        goes_on = pace.tick(sum(map(len, kept)))
    return pace.rates


def _ask(pipe: Connection, units: int) -> None:
    random = np.random.default_rng()
    while True:
        pipe.send(random.random(20, np.float32))
        pipe.recv()
        with cutaway.operation("simulation"):
            simulate(units)
