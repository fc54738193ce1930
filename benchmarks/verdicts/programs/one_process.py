"""Causes inside one process: a layer, or one of the operations that every trainer has, takes most of the time; or nothing does."""

from __future__ import annotations

import cutaway
from benchmarks.verdicts.declare import (
    WALL,
    Body,
    compute,
    environments,
    loop,
    planted,
    simulate,
    within,
)


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
            for _ in range(4):
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

    policy = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256)
    )

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

    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
    )
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
