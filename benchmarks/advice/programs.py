"""Programs that each deserve one verdict, as they are and with the advice applied.

`python -m benchmarks.advice.programs NAME before|after SECONDS` runs one and prints its iterations a second, and a second of CPU time of
the main process. Work is real: zlib stands for a native simulator, torch for the backend, NumPy for native libraries.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
import time
import zlib
from collections.abc import Callable
from multiprocessing.connection import Connection

import cutaway

Body = Callable[[], None]
Program = Callable[[bool], "tuple[Body, float]"]  # after → one iteration, and units it stands for
DATA = bytes(i * i % 251 for i in range(240_000))
PROGRAMS: dict[str, Program] = {}
mp = multiprocessing.get_context("fork")


def program(verdict: str) -> Callable[[Program], Program]:
    def add(make: Program) -> Program:
        PROGRAMS[verdict] = make
        return make

    return add


def simulate(amount: int) -> None:
    """About half a millisecond of a native simulator for each unit."""
    for _ in range(amount):
        zlib.compress(DATA, 6)


def compute(amount: int) -> None:
    """About a third of a millisecond of the backend for each unit."""
    import torch

    a = torch.ones(128, 128)
    for _ in range(amount):
        for _ in range(4):
            torch.tanh(a @ a)


def within(operation: str, work: Callable[[int], None], amount: int) -> None:
    with cutaway.operation(operation):
        work(amount)


@program("python-glue")
def python_glue(after: bool) -> tuple[Body, float]:
    def body() -> None:
        with cutaway.operation("simulation"):
            sum(i * i for i in range(30_000 if after else 60_000))
        within("backpropagation", compute, 2)

    return body, 1


@program("native-bound")
def native_bound(after: bool) -> tuple[Body, float]:
    import numpy as np

    a = np.ones((400, 400), np.float32 if after else np.float64)

    def body() -> None:
        with cutaway.operation("replay"):
            a @ a
        within("backpropagation", compute, 4)

    return body, 1


@program("simulation-bound")
def simulation_bound(after: bool) -> tuple[Body, float]:
    """Two environments in this process; after: one of them in another process."""
    pipe = _workers([8])[0] if after else None

    def body() -> None:
        with cutaway.operation("simulation"):
            if pipe:
                pipe.send(1)
            simulate(8 if after else 16)
            cutaway.step(2)
            if pipe:
                pipe.recv()
        within("backpropagation", compute, 8)

    return body, 1


@program("inference-bound")
def inference_bound(after: bool) -> tuple[Body, float]:
    """Acting for each of 16 environments; after: for two at a time."""
    import torch

    policy = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256))

    def body() -> None:
        with torch.no_grad():
            for _ in range(16 if after else 32):
                with cutaway.operation("inference"):
                    for _ in range(4):
                        policy(torch.ones(2 if after else 1, 64))
        within("simulation", simulate, 2)

    return body, 1


@program("backpropagation-bound")
def backpropagation_bound(after: bool) -> tuple[Body, float]:
    """The same samples in minibatches twice as large."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())

    def body() -> None:
        for _ in range(8 if after else 16):
            with cutaway.operation("backpropagation"):
                optimizer.zero_grad()
                model(torch.ones(64 if after else 32, 32)).pow(2).mean().backward()
                optimizer.step()
        within("simulation", simulate, 3)

    return body, 1


@program("checkpoint-bound")
def checkpoint_bound(after: bool) -> tuple[Body, float]:
    made = [0]

    def body() -> None:
        made[0] += 1
        if not after or made[0] % 2 == 0:
            within("checkpoint", simulate, 8)
        within("backpropagation", compute, 8)

    return body, 1


@program("evaluation-bound")
def evaluation_bound(after: bool) -> tuple[Body, float]:
    made = [0]

    def body() -> None:
        made[0] += 1
        if not after or made[0] % 2 == 0:
            within("evaluation", simulate, 12)
        within("backpropagation", compute, 8)

    return body, 1


@program("search-bound")
def search_bound(after: bool) -> tuple[Body, float]:
    """A tree search that evaluates 32 leaves one by one; after: two at a time."""
    import torch

    value = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))

    def body() -> None:
        with cutaway.operation("search"), torch.no_grad():
            for _ in range(64 if after else 128):
                value(torch.ones(2 if after else 1, 64))
        within("backpropagation", compute, 4)

    return body, 1


@program("reward-bound")
def reward_bound(after: bool) -> tuple[Body, float]:
    """A reward model that scores 96 answers one by one; after: two at a time."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(96, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))

    def body() -> None:
        with cutaway.operation("reward"), torch.no_grad():
            for _ in range(48 if after else 96):
                model(torch.ones(2 if after else 1, 96)).squeeze(-1)
        within("generation", compute, 3)

    return body, 1


@program("sync-bound")
def sync_bound(after: bool) -> tuple[Body, float]:
    """Weights packed for the actors after every update; after: after every second one."""
    import torch

    weights = {f"layer {i}": torch.ones(200, 200) for i in range(12)}
    made = [0]

    def body() -> None:
        made[0] += 1
        if not after or made[0] % 2 == 0:
            with cutaway.operation("sync"):
                for _ in range(6):
                    pickle.dumps({name: tensor.numpy().copy() for name, tensor in weights.items()})
        within("backpropagation", compute, 4)

    return body, 1


@program("operation-bound")
def operation_bound(after: bool) -> tuple[Body, float]:
    def body() -> None:
        within("tree search of my own", simulate, 8 if after else 16)
        within("backpropagation", compute, 8)

    return body, 1


@program("waiting")
def waiting(after: bool) -> tuple[Body, float]:
    """A replay server that takes 12 ms for a batch; after: asked for the next one before this one is used."""
    ours, theirs = mp.Pipe()
    mp.Process(target=_server, args=(theirs, 0.012), daemon=True).start()
    if after:
        ours.send(1)

    def body() -> None:
        with cutaway.operation("replay"):
            ours.send(1)
            ours.recv()
        within("backpropagation", compute, 16)

    return body, 1


@program("simulation-bound-workers")
def more_workers(after: bool) -> tuple[Body, float]:
    """A worker with two environments while a core is idle; after: two workers with one each."""
    pipes = _workers([16, 16] if after else [32])

    def body() -> None:
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
        within("backpropagation", compute, 8)

    return body, 1


@program("straggler")
def straggler(after: bool) -> tuple[Body, float]:
    """Four workers of which one has eight times the work; after: the same work, evenly."""
    pipes = _workers([5, 5, 6, 6] if after else [2, 2, 2, 16])

    def body() -> None:
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
        within("backpropagation", compute, 4)

    return body, 1


@program("inference-bound-server")
def inference_server(after: bool) -> tuple[Body, float]:
    """An inference process asked 8 times; after: 4 times with batches twice as large."""
    ours, theirs = mp.Pipe()
    mp.Process(target=_policy, args=(theirs, 2 if after else 1), name="inference", daemon=True).start()

    def body() -> None:
        with cutaway.operation("inference"):
            for _ in range(4 if after else 8):
                ours.send(1)
                ours.recv()
        within("simulation", simulate, 3)

    return body, 1


@program("cpu-oversubscription")
def oversubscribed(after: bool) -> tuple[Body, float]:
    """Four workers that each run a small network, with as many threads as there are cores; after: one thread in each process,
    which the end of this file sets."""
    pipes = []
    for number in range(4):
        ours, theirs = mp.Pipe()
        mp.Process(target=_actor, args=(theirs,), name=f"actor-{number}", daemon=True).start()
        pipes.append(ours)

    def body() -> None:
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
        within("backpropagation", compute, 4)

    return body, 1


def _workers(amounts: list[int]) -> list[Connection]:
    pipes = []
    for number, amount in enumerate(amounts):
        ours, theirs = mp.Pipe()
        mp.Process(target=_environment, args=(theirs, amount), name=f"env-{number}", daemon=True).start()
        pipes.append(ours)
    return pipes


def _environment(pipe: Connection, amount: int) -> None:
    while pipe.recv():
        within("simulation", simulate, amount)
        pipe.send(1)


def _actor(pipe: Connection) -> None:
    import torch

    policy = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256))
    with torch.no_grad():
        while pipe.recv():
            with cutaway.operation("inference"):
                for _ in range(10):
                    policy(torch.ones(64, 256))
            within("simulation", simulate, 1)
            pipe.send(1)


def _policy(pipe: Connection, batch: int) -> None:
    import torch

    policy = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512))
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


def run(name: str, after: bool, seconds: float) -> dict[str, float]:
    """Iterations a second, and a second of CPU time, after a few to warm up."""
    cutaway.layer("zlib", "simulator")
    body, units = PROGRAMS[name](after)
    for _ in range(5):
        cutaway.iteration()
        body()
    made, start, spent = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        cutaway.iteration()
        body()
        made += 1
    work = made * units
    return {"rate": work / (time.perf_counter() - start), "cpu_rate": work / (time.process_time() - spent)}


if __name__ == "__main__":
    if sys.argv[1:3] != ["cpu-oversubscription", "before"]:
        try:
            import torch

            torch.set_num_threads(1)
        except ImportError:
            pass
    print(json.dumps(run(sys.argv[1], sys.argv[2] == "after", float(sys.argv[3]))))
