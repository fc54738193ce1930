"""A small residual network with a policy and a value; what evaluates positions, and what trains it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import cutaway

from .game import PLANES, Board, Floats

torch.set_num_threads(1)


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one, self.other = (
            nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.other(functional.relu(self.one(x))))


class Network(nn.Module):
    """Convolutions of 3×3; `blocks` residual blocks of `channels`."""

    def __init__(self, board: Board, channels: int, blocks: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(PLANES, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(blocks)))
        inputs = channels * board.size**2
        self.policy, self.value = nn.Linear(inputs, board.moves), nn.Linear(inputs, 1)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of all moves, and the value for who is to move."""
        x = self.trunk(planes)
        return self.policy(x), torch.tanh(self.value(x))[:, 0]

    def trunk(self, planes: Tensor) -> Tensor:
        """What policy and value are made from."""
        features: Tensor = self.blocks(functional.relu(self.first(planes)))
        return features.flatten(1)


class Evaluator:
    """A network that answers NumPy with NumPy: move probabilities and values."""

    def __init__(self, network: Network, device: str = "cpu") -> None:
        self.network, self.device = network.to(device).eval(), device

    def __call__(self, planes: Floats) -> tuple[Floats, Floats]:
        with cutaway.operation("inference"), torch.no_grad():
            logits, values = self.network(torch.from_numpy(planes).to(self.device))
            policies = torch.softmax(logits, 1)
        return policies.cpu().numpy(), values.cpu().numpy()

    def load(self, path: Path) -> None:
        self.network.load_state_dict(torch.load(path, map_location=self.device))


def evaluator(network: Network, device: str) -> Evaluator:
    """The evaluator for a device: `cpu`, `cuda`, or `opencl`."""
    if device != "opencl":
        return Evaluator(network, device)
    from .opencl import OpenCLEvaluator

    return OpenCLEvaluator(network)


class Examples:
    """Positions of the last games: planes, the search's policy, who won."""

    def __init__(self, board: Board, capacity: int, seed: int) -> None:
        self._board, self._capacity = board, capacity
        self._rng = np.random.default_rng(seed)
        self._kept: list[Floats] = []

    def add(self, *columns: Floats) -> None:
        grown = (
            [np.concatenate(pair) for pair in zip(self._kept, columns, strict=True)]
            if self._kept
            else columns
        )
        self._kept = [column[-self._capacity :] for column in grown]

    def __len__(self) -> int:
        return len(self._kept[0]) if self._kept else 0

    def sample(self, batch: int) -> Sequence[Tensor]:
        with cutaway.operation("replay"):
            rows = self._rng.integers(len(self), size=batch)
            planes, policy, won = (column[rows] for column in self._kept)
            planes, policy = self._board.turned(
                planes, policy, int(self._rng.integers(8))
            )
        return [torch.from_numpy(column) for column in (planes, policy, won)]


def train(
    network: Network, examples: Examples, steps: int, batch: int, rate: float = 2e-3
) -> tuple[float, float]:
    """So many steps of Adam; the mean losses of policy and value."""
    device = next(network.parameters()).device
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=1e-4)
    network.train()
    losses = []
    for _ in range(steps):
        planes, policy, won = (column.to(device) for column in examples.sample(batch))
        with cutaway.operation("backpropagation"):
            logits, values = network(planes)
            policy_loss = functional.cross_entropy(logits, policy)
            value_loss = functional.mse_loss(values, won)
            optimizer.zero_grad()
            (policy_loss + value_loss).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append((policy_loss.item(), value_loss.item()))
    mean = np.mean(losses, axis=0)
    return float(mean[0]), float(mean[1])
