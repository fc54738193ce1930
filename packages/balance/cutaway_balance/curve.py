"""The curve through throughput points: without a trace it is all there is.

A hyperbola: one environment step takes A seconds of a worker and B seconds of something shared, X = K / (A + B K), where
K = capacity(N) is what N workers get from the CPU (cores, SMT, turbo). The capacity is the bound that makes the curve bend where the
cores end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutaway.errors import CutawayError
from cutaway.machines.machine import Machine


@dataclass(frozen=True)
class Curve:
    """Throughput by number of workers, fitted. `one_sided` warns that no point lies beyond the knee (or none before it)."""

    a: float
    b: float
    first: tuple[float, float]
    spread: float
    machine: Machine | None
    one_sided: str | None
    cap: float = float("inf")

    def __call__(self, workers: float) -> float:
        k = _capacity(self.machine, workers)
        linear = self.first[1] * k / _capacity(self.machine, self.first[0])
        return min(k / (self.a + self.b * k), linear, self.cap)

    def interval(self, workers: float) -> tuple[float, float]:
        """95 % interval: the scatter of the points, widened with the distance of the extrapolation."""
        reach = abs(np.log(workers / self.first[0]))
        half = float(np.expm1(1.96 * (self.spread + 0.05 * reach)))
        return self(workers) / (1 + half), self(workers) * (1 + half)

    @property
    def asymptote(self) -> float:
        """Throughput with any number of workers."""
        if self.machine is None:
            return min(self.cap, 1 / self.b if self.b > 0 else float("inf"))
        return self(10**9)


def fit(
    workers: Sequence[float],
    throughput: Sequence[float],
    machine: Machine | None = None,
    cap: float = float("inf"),
) -> Curve:
    """The curve through at least two points.

    `machine` is the CPU the workers run on: give it only when a worker is a process or thread, not when it is one of many
    environments inside one. `cap` is a throughput that some resource does not allow to pass, where one is known.

    >>> curve = fit([1, 2, 4], [100.0, 180.0, 300.0])
    >>> round(curve(8))
    450
    """
    n = np.asarray(workers, float)
    x = np.asarray(throughput, float)
    n, x = n[np.argsort(n)], x[np.argsort(n)]
    if len(np.unique(n)) < 2 or not (
        np.all(n > 0) and np.all(x > 0) and np.all(np.isfinite(x))
    ):
        needs = "positive throughput at two different numbers of workers"
        raise CutawayError(f"A curve needs {needs}; measure more points.")
    k = np.array([_capacity(machine, float(v)) for v in n])
    y = k / x
    # A, B ≥ 0 of K / X = A + B K, every point with the same relative weight.
    a, b = map(
        float,
        np.linalg.lstsq(np.stack([1 / y, k / y], axis=1), np.ones(len(y)), rcond=None)[
            0
        ],
    )
    if b < 0:
        a = float(np.exp(np.mean(np.log(y))))
        b = 0.0
    elif a < 0:
        a = 0.0
        b = float(np.exp(np.mean(np.log(1 / x))))
    if len(x) > 2:
        scatter = float(np.std(np.log(x * (a + b * k) / k)))
    else:
        scatter = 0.05
    one_sided = None
    if b * k[-1] < 0.25 * a:
        one_sided = "all points lie before the knee: the ceiling is a guess"
    elif a < 0.25 * b * k[0]:
        one_sided = (
            "all points lie beyond the knee: the slope at few workers is a guess"
        )
    return Curve(a, b, (float(n[0]), float(x[0])), scatter, machine, one_sided, cap)


def _capacity(machine: Machine | None, workers: float) -> float:
    if machine is None:
        return workers
    return machine.capacity(workers)
