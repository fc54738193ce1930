"""Throughput points alone: the published curves, the capacity of a CPU, and honest refusals."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.curves import errors

from cutaway.errors import CutawayError
from cutaway.machines.machine import Machine
from cutaway_balance.curve import fit
from cutaway_balance.grid import Row
from cutaway_balance.points import advise, predict
from cutaway_balance.sources import Source

pytestmark = pytest.mark.core


@pytest.mark.parametrize(("known", "limit"), [(2, 0.15), (3, 0.10)])
def test_published_curves_are_extrapolated_from_their_first_points(
    known: int, limit: float
) -> None:
    ours, held = errors(known)
    assert len(ours) >= 39
    assert np.mean(ours) <= limit < np.mean(held)


def test_a_hyperbola_is_recovered_exactly() -> None:
    n = [1, 3, 10, 40]
    fitted = fit(n, [v / (0.01 + 0.0005 * v) for v in n])
    assert fitted(100) == pytest.approx(100 / (0.01 + 0.05))
    assert fitted.asymptote == pytest.approx(2000)
    assert fitted.one_sided is None


def test_points_on_one_side_of_the_knee_are_said_to_be() -> None:
    assert "before the knee" in str(fit([1, 2], [100, 199]).one_sided)
    assert "beyond the knee" in str(fit([50, 100], [1000, 1001]).one_sided)


def test_the_curve_never_exceeds_the_cpu() -> None:
    machine = Machine("four", 4, 8, smt_yield=1.25, turbo=0.9)
    fitted = fit([1, 2], [100, 200], machine)
    assert fitted(1000) <= 100 * machine.capacity(8) + 1e-9


def test_the_interval_grows_with_the_distance() -> None:
    fitted = fit([1, 2, 4], [100, 190, 330])
    near, far = fitted.interval(8), fitted.interval(256)
    assert far[1] / far[0] > near[1] / near[0] > 1


@pytest.mark.parametrize(
    "points",
    [
        ([4], [10.0]),
        ([4, 4], [10.0, 11.0]),
        ([1, 2], [0.0, 5.0]),
        ([1, 2], [float("nan"), 5.0]),
    ],
)
def test_too_little_is_refused_in_one_sentence(
    points: tuple[list[float], list[float]],
) -> None:
    with pytest.raises(CutawayError, match="measure more points"):
        fit(*points)


def measured(rates: dict[int, float], only: tuple[int, ...] = ()) -> Source:
    """Throughput points of a program that nobody recorded."""
    rows = [
        Row(actors, None, None, rate, rate, rate, 3, 0.0, 0.0, None, None, None, "")
        for actors, rate in rates.items()
    ]
    return Source(rows, Machine("two", 2, 2), only=only)


def test_a_program_that_saturates_is_told_the_number_that_was_enough() -> None:
    values, lines = advise(measured(SATURATED))
    assert values["actors"] == 2 and values["steps_per_s"] == 890.0
    assert "915" in lines[0] and "held-out" in lines[1]


SATURATED = {1: 480.0, 2: 890.0, 4: 915.0, 8: 910.0}


@pytest.mark.parametrize("actors", [16, 64, 293])
def test_a_program_that_saturates_is_predicted_to_stay_there(actors: int) -> None:
    values, _ = predict(measured(SATURATED), (actors,))
    (point,) = values["points"]
    assert point["steps_per_s"] == 910.0
    assert point["low"] <= 910.0 <= point["high"] <= 1000


@pytest.mark.parametrize("rates", [{1: 480.0, 2: 890.0}, {1: 10.2, 2: 20.4, 8: 81.6}])
def test_points_before_the_knee_give_no_number_beyond_them(
    rates: dict[int, float],
) -> None:
    values, lines = predict(measured(rates), (293,))
    (point,) = values["points"]
    assert point["steps_per_s"] is None
    assert point["low"] == max(rates.values()) < point["high"]
    assert "unknown" in lines[1] and any("measure it" in line for line in lines)
    (inside,) = predict(measured(rates), (2,))[0]["points"]
    assert inside["steps_per_s"] == pytest.approx(rates[2], rel=0.05)


def test_points_that_still_grow_cannot_tell() -> None:
    values, lines = advise(measured({1: 100.0, 2: 199.0, 4: 396.0}))
    assert values["actors"] is None and "cannot tell" in lines[0]


def test_only_the_points_asked_for_make_the_curve_and_the_others_test_it() -> None:
    rates = {1: 100.0, 2: 180.0, 4: 300.0, 8: 450.0, 16: 460.0}
    source = measured(rates, only=(1, 2, 4))
    assert list(source.points()) == [1, 2, 4]
    errors = source.curve_errors()
    assert list(errors) == [8, 16] and abs(errors[8]) < 0.02 and errors[16] > 0.2
    values, lines = predict(source, (8,))
    assert values["held_out"] == errors and any("held-out" in line for line in lines)
    assert any("do not trust it beyond" in line for line in lines)
