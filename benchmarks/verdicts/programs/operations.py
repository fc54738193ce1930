"""Causes inside one process: an operation beside the usual ones takes most of the time."""

from __future__ import annotations

import pickle

import cutaway
from benchmarks.verdicts.declare import Body, compute, loop, planted, simulate, within


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

    value = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)
    )

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

    model = torch.nn.Sequential(
        torch.nn.Linear(96, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)
    )

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
                for _ in range(20):
                    pickle.dumps(
                        {
                            name: tensor.numpy().copy()
                            for name, tensor in weights.items()
                        }
                    )
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

    model = torch.nn.Sequential(
        torch.nn.Linear(128, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1)
    )
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
    "replay-bound",
    never="python-glue backpropagation-bound",
    says=("whole batches at once",),
    flag="--half-the-batches",
)
@loop
def replay_bound(applied: bool) -> Body:
    """Batches gathered from a large memory; after: half as many."""
    import torch

    memory = torch.ones(1000, 8192)
    rows = torch.randint(0, 1000, (128,))

    def body() -> None:
        with cutaway.operation("replay"):
            for _ in range(6 if applied else 12):
                memory[rows].sum()
        within("backpropagation", compute, 8)

    return body
