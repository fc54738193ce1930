"""Prioritised replay of sequences: first in, first out, sampled through a sum tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .config import ReplayConfig
from .shared import Array
from .unrolls import Layout, Unrolls


class SumTree:
    """A complete binary tree of sums over `capacity` leaves; every call works on whole arrays.

    >>> tree = SumTree(3)
    >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> tree.total, tree.find(np.array([0.5, 1.5])).tolist()
    (4.0, [0, 2])
    """

    def __init__(self, capacity: int) -> None:
        self._depth = max(1, (capacity - 1).bit_length())
        self._first = 1 << self._depth
        self._last = self._first + capacity - 1
        self._sums = np.zeros(2 * self._first)

    @property
    def total(self) -> float:
        return float(self._sums[1])

    def get(self, leaves: Array) -> Array:
        values: Array = self._sums[self._first + leaves]
        return values

    def set(self, leaves: Array, values: Array) -> None:
        """Sets leaves and recomputes the sums above them; of equal leaves the last one wins."""
        nodes = self._first + leaves
        self._sums[nodes] = values
        for _ in range(self._depth):
            nodes = np.unique(nodes >> 1)
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, values: Array) -> Array:
        """For each value in [0, total) the leaf in whose stretch of the cumulative sum it lies."""
        nodes, left_over = (
            np.ones(len(values), dtype=np.int64),
            np.array(values, dtype=np.float64),
        )
        for _ in range(self._depth):
            left = 2 * nodes
            sums = self._sums[left]
            # Rounding may push a value past the end; a subtree without weight is never entered.
            right = (left_over >= sums) & (self._sums[left + 1] > 0)
            left_over -= np.where(right, sums, 0.0)
            nodes = left + right
        return np.minimum(nodes, self._last) - self._first


@dataclass(frozen=True)
class Sample:
    """A training batch: the unrolls, where they lie, and the weights that undo the preference."""

    unrolls: Unrolls
    rows: Array
    births: Array
    weights: Array


class Replay:
    """The buffer. Rows are overwritten oldest first; a late priority for an overwritten row is dropped."""

    def __init__(self, layout: Layout, config: ReplayConfig, seed: int) -> None:
        self._config = config
        self._data = layout.zeros(config.capacity)
        self._tree = SumTree(config.capacity)
        self._born = np.full(config.capacity, -1, dtype=np.int64)
        self._random = np.random.default_rng(seed)
        self.inserted = 0

    def __len__(self) -> int:
        return min(self.inserted, self._config.capacity)

    def insert(self, unrolls: Unrolls, priorities: Array) -> None:
        """Adds a batch of unrolls with their initial priorities."""
        births = np.arange(self.inserted, self.inserted + len(priorities))
        rows = births % self._config.capacity
        for name, array in self._data.items():
            array[rows] = unrolls[name]
        self._born[rows] = births
        self._tree.set(rows, self._weight(priorities))
        self.inserted += len(priorities)

    def sample(self, count: int) -> Sample:
        """`count` unrolls with probability ∝ priority^exponent; weights (N·P)^−β, the largest being 1."""
        rows = self._tree.find(self._random.random(count) * self._tree.total)
        probability = self._tree.get(rows) / self._tree.total
        weights = (len(self) * probability) ** -self._config.importance_exponent
        unrolls = {name: array[rows] for name, array in self._data.items()}
        return Sample(
            unrolls,
            rows,
            self._born[rows],
            (weights / weights.max()).astype(np.float32),
        )

    def update(self, sample: Sample, priorities: Array) -> None:
        """Gives a trained batch its new priorities."""
        still_there = self._born[sample.rows] == sample.births
        self._tree.set(sample.rows[still_there], self._weight(priorities)[still_there])

    def save(self, path: Path) -> None:
        """Writes what the buffer holds beside the old file and moves it into place."""
        rows, fresh = slice(0, len(self)), path.with_name(path.name + ".new")
        leaves = self._tree.get(np.arange(len(self)))
        with fresh.open("wb") as file:
            parts: dict[str, Any] = {
                f"data_{name}": array[rows] for name, array in self._data.items()
            }
            np.savez(
                file,
                inserted=self.inserted,
                weights=leaves,
                born=self._born[rows],
                **parts,
            )
        fresh.replace(path)

    def load(self, path: Path) -> bool:
        """Takes over a saved buffer; False when it is of another size or of other shapes."""
        with np.load(path) as saved:
            count, inserted = len(saved["weights"]), int(saved["inserted"])
            same = all(
                saved[f"data_{n}"].shape[1:] == a.shape[1:]
                for n, a in self._data.items()
            )
            if not same or count != min(inserted, self._config.capacity):
                return False
            for name, array in self._data.items():
                array[:count] = saved[f"data_{name}"]
            self._born[:count], self.inserted = saved["born"], inserted
            self._tree.set(np.arange(count), saved["weights"])
        return True

    def _weight(self, priorities: Array) -> Array:
        weight: Array = (
            np.maximum(priorities.astype(np.float64), 1e-6)
            ** self._config.priority_exponent
        )
        return weight


def mix_priorities(td_errors: Array, eta: float) -> Array:
    """One priority for a sequence: eta·max + (1 − eta)·mean of its absolute TD errors, time being axis 0."""
    absolute = np.abs(td_errors)
    mixed: Array = eta * absolute.max(axis=0) + (1.0 - eta) * absolute.mean(axis=0)
    return mixed
