"""Throughput points alone: the published curves, the capacity of a CPU, and honest refusals."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.curves import errors

from cutaway.balance import model
from cutaway.balance.machine import Machine
from cutaway.errors import CutawayError

pytestmark = pytest.mark.core


@pytest.mark.parametrize(("known", "limit"), [(2, 0.15), (3, 0.10)])
def test_published_curves_are_extrapolated_from_their_first_points(known: int, limit: float) -> None:
    ours, held = errors(known)
    assert len(ours) >= 39
    assert np.mean(ours) <= limit < np.mean(held)


def test_a_hyperbola_is_recovered_exactly() -> None:
    n = [1, 3, 10, 40]
    fitted = model.fit(n, [v / (0.01 + 0.0005 * v) for v in n])
    assert fitted(100) == pytest.approx(100 / (0.01 + 0.05))
    assert fitted.asymptote == pytest.approx(2000)
    assert fitted.one_sided is None


def test_points_on_one_side_of_the_knee_are_said_to_be() -> None:
    assert "before the knee" in str(model.fit([1, 2], [100, 199]).one_sided)
    assert "beyond the knee" in str(model.fit([50, 100], [1000, 1001]).one_sided)


def test_the_curve_never_exceeds_the_cpu() -> None:
    machine = Machine("four", 4, 8, smt_yield=1.25, turbo=0.9)
    fitted = model.fit([1, 2], [100, 200], machine)
    assert fitted(1000) <= 100 * machine.capacity(8) + 1e-9


def test_the_interval_grows_with_the_distance() -> None:
    fitted = model.fit([1, 2, 4], [100, 190, 330])
    near, far = fitted.interval(8), fitted.interval(256)
    assert far[1] / far[0] > near[1] / near[0] > 1


@pytest.mark.parametrize(
    "points", [([4], [10.0]), ([4, 4], [10.0, 11.0]), ([1, 2], [0.0, 5.0]), ([1, 2], [float("nan"), 5.0])]
)
def test_too_little_is_refused_in_one_sentence(points: tuple[list[float], list[float]]) -> None:
    with pytest.raises(CutawayError, match="measure more points"):
        model.fit(*points)
