"""Causes inside one process: an operation, or a layer, that takes most of the time."""

from __future__ import annotations

import pickle

import cutaway
from benchmarks.verdicts.declare import WALL, Body, compute, environments, loop, planted, simulate, within


@planted(
    "python-glue",
    never="operation-bound waiting gil balanced",
    says=("vectorise the loop", "one_process.py"),
    flag="--shorter-loop",
)
@loop
def python_glue(applied: bool) -> Body:
    def body() -> None:
        with cutaway.operation("simulation"):
            sum(i * i for i in range(30_000 if applied else 60_000))
        within("backpropagation", compute, 2)

    return body


@planted(
    "native-bound",
    never="python-glue replay-bound",
    says=("float32",),
    flag="--float32",
)
@loop
def native_bound(applied: bool) -> Body:
    import numpy as np

    a = np.ones((400, 400), np.float32 if applied else np.float64)

    def body() -> None:
        with cutaway.operation("replay"):
            a @ a
        within("backpropagation", compute, 4)

    return body


@planted(
    "simulation-bound",
    never="python-glue waiting simulation-bound-workers",
    flag="--second-process",
    clock=WALL,
)
@loop
def simulation_bound(applied: bool) -> Body:
    """Two environments in this process; after: one of them in another process."""
    pipe = environments([8])[0] if applied else None

    def body() -> None:
        with cutaway.operation("simulation"):
            if pipe:
                pipe.send(1)
            simulate(8 if applied else 16)
            cutaway.step(2)
            if pipe:
                pipe.recv()
        within("backpropagation", compute, 8)

    return body


@planted(
    "inference-bound",
    never="python-glue backpropagation-bound waiting",
    says=("for each policy call",),
    flag="--two-at-once",
)
@loop
def inference_bound(applied: bool) -> Body:
    """Acting for each of 16 environments; after: for two at a time."""
    import torch

    policy = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256))

    def body() -> None:
        with torch.no_grad():
            for _ in range(16 if applied else 32):
                with cutaway.operation("inference"):
                    for _ in range(4):
                        policy(torch.ones(2 if applied else 1, 64))
        within("simulation", simulate, 2)

    return body


@planted(
    "backpropagation-bound",
    never="inference-bound simulation-bound waiting",
    says=("larger minibatches",),
    flag="--larger-minibatches",
)
@loop
def backpropagation_bound(applied: bool) -> Body:
    """The same samples in minibatches twice as large."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())

    def body() -> None:
        for _ in range(8 if applied else 16):
            with cutaway.operation("backpropagation"):
                optimizer.zero_grad()
                model(torch.ones(64 if applied else 32, 32)).pow(2).mean().backward()
                optimizer.step()
        within("simulation", simulate, 3)

    return body


@planted(
    "checkpoint-bound",
    never="simulation-bound operation-bound",
    says=("save less often",),
    flag="--every-second",
)
@loop
def checkpoint_bound(applied: bool) -> Body:
    made = [0]

    def body() -> None:
        made[0] += 1
        if not applied or made[0] % 2 == 0:
            within("checkpoint", simulate, 8)
        within("backpropagation", compute, 8)

    return body


@planted(
    "evaluation-bound",
    never="simulation-bound operation-bound",
    says=("evaluate less often",),
    flag="--every-second",
)
@loop
def evaluation_bound(applied: bool) -> Body:
    made = [0]

    def body() -> None:
        made[0] += 1
        if not applied or made[0] % 2 == 0:
            within("evaluation", simulate, 12)
        within("backpropagation", compute, 8)

    return body


@planted(
    "search-bound",
    never="inference-bound operation-bound",
    says=("leaves in batches",),
    flag="--two-leaves",
)
@loop
def search_bound(applied: bool) -> Body:
    """A tree search that evaluates 32 leaves one by one; after: two at a time."""
    import torch

    value = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))

    def body() -> None:
        with cutaway.operation("search"), torch.no_grad():
            for _ in range(64 if applied else 128):
                value(torch.ones(2 if applied else 1, 64))
        within("backpropagation", compute, 4)

    return body


@planted(
    "reward-bound",
    never="inference-bound generation-bound",
    says=("rewards in batches",),
    flag="--two-at-once",
)
@loop
def reward_bound(applied: bool) -> Body:
    """A reward model that scores 96 answers one by one; after: two at a time."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(96, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))

    def body() -> None:
        with cutaway.operation("reward"), torch.no_grad():
            for _ in range(48 if applied else 96):
                model(torch.ones(2 if applied else 1, 96)).squeeze(-1)
        within("generation", compute, 3)

    return body


@planted(
    "sync-bound",
    never="backpropagation-bound",
    says=("less often",),
    flag="--every-second",
)
@loop
def sync_bound(applied: bool) -> Body:
    """Weights packed for the actors after every update; after: after every second one."""
    import torch

    weights = {f"layer {i}": torch.ones(200, 200) for i in range(12)}
    made = [0]

    def body() -> None:
        made[0] += 1
        if not applied or made[0] % 2 == 0:
            with cutaway.operation("sync"):
                for _ in range(6):
                    pickle.dumps({name: tensor.numpy().copy() for name, tensor in weights.items()})
        within("backpropagation", compute, 4)

    return body


@planted(
    "operation-bound",
    never="simulation-bound search-bound",
    says=("tree search of my own",),
    flag="--half-the-work",
)
@loop
def operation_bound(applied: bool) -> Body:
    def body() -> None:
        within("tree search of my own", simulate, 8 if applied else 16)
        within("backpropagation", compute, 8)

    return body


@planted(
    "own-operation-around-backward",
    gives="operation-bound",
    never="backpropagation-bound python-glue unnamed",
    says=("my update",),
    flag="--half-the-samples",
)
@loop
def own_update(applied: bool) -> Body:
    """An update in an operation of the user's own: that name wins over the one of `backward()`."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    samples = torch.ones(512, 128)

    def body() -> None:
        with cutaway.operation("my update"):
            for _ in range(2 if applied else 4):
                optimizer.zero_grad()
                model(samples).pow(2).mean().backward()
                optimizer.step()
        within("simulation", simulate, 4)

    return body


@planted(
    "replay-bound", never="python-glue backpropagation-bound", says=("arrays, not objects",), flag="--arrays"
)
@loop
def replay_bound(applied: bool) -> Body:
    """Batches packed again from objects; after: from objects half as large."""
    stored = [{"observation": bytes(24_000 if applied else 48_000)} for _ in range(64)]

    def body() -> None:
        with cutaway.operation("replay"):
            for _ in range(8):
                pickle.loads(pickle.dumps(stored))
        within("backpropagation", compute, 8)

    return body


@planted(
    "balanced",
    never="simulation-bound inference-bound backpropagation-bound python-glue operation-bound waiting unnamed",
)
@loop
def balanced(applied: bool) -> Body:
    """Three operations that each take a third."""

    def body() -> None:
        within("simulation", compute, 5)
        within("inference", compute, 5)
        within("backpropagation", compute, 5)

    return body
