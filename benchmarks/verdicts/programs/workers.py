"""Causes in other processes: workers and servers that the main process waits for."""

from __future__ import annotations

import ctypes
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import cutaway
from benchmarks.verdicts.declare import (
    WALL,
    Body,
    Pace,
    compute,
    environments,
    loop,
    mp,
    planted,
    simulate,
    timed,
    within,
)

LIBC = ctypes.CDLL(None)


@planted(
    "waiting",
    never="python-glue gil replay-bound workers-cost",
    says=("before you use this one",),
    flag="--ask-early",
    clock=WALL,
)
@loop
def waiting(applied: bool) -> Body:
    """A replay server that takes 12 ms for a batch; after: asked for the next one before this one is used."""
    ours, theirs = mp.Pipe()
    mp.Process(target=_server, args=(theirs, 0.012), daemon=True).start()
    if applied:
        ours.send(1)

    def body() -> None:
        with cutaway.operation("replay"):
            ours.send(1)
            ours.recv()
        within("backpropagation", compute, 16)

    return body


@planted(
    "learner-starved",
    never="python-glue gil waiting workers-cost backpropagation-bound simulation-bound",
    says=("the learner waits", "1 other process simulates"),
    silent_on=("before you use this one",),
    flag="--second-actor",
    clock=WALL,
)
@loop
def starved(applied: bool) -> Body:
    """A learner reads from a queue in native code that nobody knows, four times as fast as its actor writes; after: two actors."""
    queue = os.eventfd(0, os.EFD_SEMAPHORE)
    for number in range(2 if applied else 1):
        mp.Process(
            target=_act, args=(queue,), name=f"actor-{number}", daemon=True
        ).start()
    taken = ctypes.c_uint64()

    def body() -> None:
        LIBC.read(queue, ctypes.byref(taken), 8)
        within("backpropagation", compute, 6)

    return body


def _act(queue: int) -> None:
    one = ctypes.c_uint64(1)
    while True:
        within("simulation", simulate, 16)
        LIBC.write(queue, ctypes.byref(one), 8)


@planted(
    "sleeping-simulator",
    gives="waiting",
    never="python-glue simulation-bound replay-bound workers-cost",
    says=("at the same time", "time.sleep"),
    silent_on=("before you use this one", "vectorise"),
    flag="--at-the-same-time",
    clock=WALL,
)
@loop
def sleeping(applied: bool) -> Body:
    """A simulator that answers after 4 ms, as a device or a game in real time does; after: four of them are stepped in threads."""
    pool = ThreadPoolExecutor(4)

    def step(_: int) -> None:
        time.sleep(0.004)

    def body() -> None:
        with cutaway.operation("simulation"):
            if applied:
                list(pool.map(step, range(4)))
            else:
                for number in range(4):
                    step(number)
        within("backpropagation", compute, 16)

    return body


@planted(
    "evolution-in-a-pool",
    gives="python-glue simulation-bound-workers waiting",
    never="workers-cost straggler backpropagation-bound replay-bound",
    silent_on=("main process (",),
)
def evolution(applied: bool, seconds: float) -> Pace:
    """Evolution strategies: a pool plays episodes in Python, the main process waits for it and adds up. No worker works for another."""
    theta, scores = [0.0] * 8, [0.0]
    with mp.Pool(2) as pool:

        def play() -> int:
            made, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                tried = [[x + random.gauss(0, 0.1) for x in theta] for _ in range(20)]
                scores[:] = pool.map(_episode, tried)
                theta[:] = tried[scores.index(max(scores))]
                made += 1
            return made

        return timed(play)


class _Cart:
    """A world of its own: reset and step, as gymnasium has them."""

    def reset(self) -> list[float]:
        self.state = [random.uniform(-0.05, 0.05) for _ in range(8)]
        self.steps = 0
        return self.state

    def step(self, action: int) -> tuple[list[float], float, bool, dict[str, int]]:
        push = 0.1 if action else -0.1
        self.state = [0.9 * x + push * random.random() for x in self.state]
        self.steps += 1
        return self.state, 1.0 - abs(self.state[0]), self.steps >= 200, {}


def _episode(theta: list[float]) -> float:
    cart = _Cart()
    seen, total, done = cart.reset(), 0.0, False
    while not done:
        chosen = sum(a * b for a, b in zip(theta, seen, strict=True)) > 0
        seen, reward, done, _ = cart.step(int(chosen))
        total += reward
    return total


@planted(
    "simulation-bound-workers",
    never="workers-cost straggler waiting",
    flag="--second-worker",
    clock=WALL,
)
@loop
def more_workers(applied: bool) -> Body:
    """A worker with two environments while a core is idle; after: two workers with one each."""
    pipes = environments([16, 16] if applied else [32])

    def body() -> None:
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
        within("backpropagation", compute, 8)

    return body


@planted(
    "straggler",
    never="workers-cost gil python-glue",
    says=("env-3",),
    flag="--even",
    clock=WALL,
)
@loop
def straggler(applied: bool) -> Body:
    """Four workers of which one has eight times the work; after: the same work, evenly."""
    pipes = environments([5, 5, 6, 6] if applied else [2, 2, 2, 16])

    def body() -> None:
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
        within("backpropagation", compute, 4)

    return body


@planted(
    "inference-bound-server",
    never="workers-cost straggler inference-bound",
    says=("larger batches",),
    flag="--larger-batches",
    clock=WALL,
)
@loop
def inference_server(applied: bool) -> Body:
    """An inference process asked 8 times; after: 4 times with batches twice as large."""
    ours, theirs = mp.Pipe()
    mp.Process(
        target=_policy,
        args=(theirs, 2 if applied else 1),
        name="inference",
        daemon=True,
    ).start()

    def body() -> None:
        with cutaway.operation("inference"):
            for _ in range(4 if applied else 8):
                ours.send(1)
                ours.recv()
        within("simulation", simulate, 3)

    return body


@planted(
    "cpu-oversubscription",
    never="workers-cost straggler python-glue",
    says=("OMP_NUM_THREADS",),
    flag="--one-thread",
    clock=WALL,
    threads=True,
)
@loop
def oversubscribed(applied: bool) -> Body:
    """Four workers that each run a small network, with as many threads as there are cores; after: one thread in each
    process, which the flag sets for all programs."""
    pipes = []
    for number in range(4):
        ours, theirs = mp.Pipe()
        mp.Process(
            target=_actor, args=(theirs,), name=f"actor-{number}", daemon=True
        ).start()
        pipes.append(ours)

    def body() -> None:
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
        within("backpropagation", compute, 4)

    return body


@planted(
    "equal-workers",
    gives="simulation-bound-workers cpu-oversubscription",
    never="straggler workers-cost python-glue",
)
@loop
def equal_workers(applied: bool) -> Body:
    """Four workers with the same work: none of them is a straggler, whoever is last."""
    pipes = environments([6, 6, 6, 6])

    def body() -> None:
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
        within("backpropagation", compute, 2)

    return body


def _actor(pipe: Connection) -> None:
    import torch

    policy = torch.nn.Sequential(
        torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256)
    )
    with torch.no_grad():
        while pipe.recv():
            with cutaway.operation("inference"):
                for _ in range(10):
                    policy(torch.ones(64, 256))
            within("simulation", simulate, 1)
            pipe.send(1)


def _policy(pipe: Connection, batch: int) -> None:
    import torch

    policy = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512)
    )
    with torch.no_grad():
        while pipe.recv():
            with cutaway.operation("inference"):
                for _ in range(16):
                    policy(torch.ones(batch, 64))
            pipe.send(1)


def _server(pipe: Connection, seconds: float) -> None:
    while pipe.recv():
        time.sleep(seconds)
        pipe.send(1)
