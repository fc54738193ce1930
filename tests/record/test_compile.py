"""torch.compile: compiling has its name, compiling again is a note, and environments can still be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from named import operations
from recorded import notes, record, script

COMPILED = """
    import torch
    network = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.Adam(network.parameters())

    class World:
        def reset(self):
            self.x = torch.zeros(8, 4)
            return self.x
        def step(self, action):
            self.x = self.x * 0.99 + action.float()[:, None] * 0.1
            return self.x, self.x.sum(1), self.x.abs().amax(1) > 10, {}

    policy = torch.compile(network, backend="aot_eager")

    @torch.compile(backend="aot_eager", dynamic=False)
    def scaled(x): return x * 2 + 1

    @torch.compile(backend="aot_eager", fullgraph=True)
    def moved(world, action): return world.step(action)[0]

    world = World()
    x = world.reset()
    for iteration in range(10):
        for _ in range(5):
            with torch.no_grad(): action = policy(x).argmax(1)
            x = world.step(action)[0]
        loss = policy(torch.ones(64, 4)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        scaled(torch.ones(4 + (iteration > 6)))
    assert moved(world, torch.zeros(8)).shape == (8, 4)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    script(folder, COMPILED)
    (seen,) = record(folder, "train.py")
    assert seen.iterations == 10
    assert seen.steps == 8 * (10 * 5 - 1)
    return folder


def test_compiling_has_its_name(folder: Path) -> None:
    named = operations(folder / "run.cutaway")
    assert (
        named["compile"] >= 4
    )  # the policy without and with gradients, the function twice
    assert named["simulation"] >= 10 * 5 - 1


def test_compiling_again_is_a_note_with_the_line_and_the_reason(folder: Path) -> None:
    (note,) = [
        note for note in notes(folder / "run.cutaway") if "compiled scaled" in note
    ]
    assert "train.py:" in note and "size mismatch" in note


FUNCTIONS = """
    import torch
    network = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    spread = torch.randn(256, 256)

    @torch.compile(backend="aot_eager")
    def act(x): return network(x).argmax(1)

    @torch.compile(backend="aot_eager")
    def physics(x): return torch.tanh(x @ spread)

    def loss_of(weights, x): return torch.func.functional_call(network, weights, (x,)).square().mean()

    @torch.compile(backend="aot_eager")
    def learn(weights, x):
        gradients = torch.func.grad(loss_of)(weights, x)
        return {name: weights[name] - 0.01 * gradients[name] for name in weights}

    weights = {name: one.detach().clone() for name, one in network.named_parameters()}
    moved = torch.randn(256, 256)
    for iteration in range(12):
        for _ in range(20):
            with torch.no_grad(): act(torch.ones(8, 4))
            moved = physics(moved)
        weights = learn(weights, torch.ones(64, 4))
"""


def test_compiled_functions_are_what_their_graphs_hold(tmp_path: Path) -> None:
    script(tmp_path, FUNCTIONS)
    record(tmp_path, "train.py")
    named = operations(tmp_path / "run.cutaway")
    assert named["inference"] == 12 * 20  # not physics, which multiplies matrices, too
    assert named["backpropagation"] >= 12  # compiling parts the first ones
