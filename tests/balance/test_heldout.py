"""The benchmark of held-out numbers of actors, on a program that is the model itself: its error must be none."""

from __future__ import annotations

import dataclasses
import json

import pytest
from benchmarks import heldout

from cutaway.machines.machine import Machine
from cutaway_balance.demands import Demands, Line, Observed, Server, Time
from cutaway_balance.model import predict

pytestmark = pytest.mark.core

TWO = Machine("", 2, 2, smt_yield=1.0)
TRUE = Demands(
    Time(1e-3),
    Time(5e-5),
    host=Line(1e-4, 1e-5),
    reply=Line(2e-5, 5e-6),
    device=Line(3e-4, 2e-5),
    batch="seed",
)


def observed(actors: int, rate: float) -> Observed:
    n = TRUE.batch_for(actors)
    server = Server(TRUE.host(n), TRUE.reply(n), 0.0, TRUE.device(n))
    return Observed(
        actors,
        1,
        n,
        TRUE.env_step,
        TRUE.actor_overhead,
        server,
        0.0,
        Time(),
        Time(),
        0.0,
        rate,
        2.0,
        0.0,
    )


def series(speed: float = 1.0) -> heldout.Series:
    """Three rounds; `speed` is how much faster the program is than its demands say."""
    runs = [
        heldout.Run(
            n,
            r,
            speed * (rate := predict(TRUE, TWO, n, draws=0).steps_per_s),
            0.0,
            observed(n, rate),
        )
        for r in range(3)
        for n in (*heldout.MEASURED_AT, *heldout.HELD_OUT)
    ]
    return heldout.Series(
        "synthetic", "2026-01-01 00:00", "a CPU", TWO, {}, tuple(runs)
    )


def test_a_program_that_is_the_model_is_predicted_without_error() -> None:
    errors = series().errors()
    assert {n: len(found) for n, found in errors.items()} == dict.fromkeys(
        heldout.HELD_OUT, 3
    )
    assert all(abs(e) < 0.01 for found in errors.values() for e in found)


def test_what_the_model_misses_is_its_error() -> None:
    assert all(
        e == pytest.approx(-0.2, abs=0.01)
        for found in series(1.25).errors().values()
        for e in found
    )


def test_a_stored_series_is_the_same_again_and_its_spread_is_stated() -> None:
    one, other = series(), series(1.25)
    assert heldout._series(json.loads(json.dumps(dataclasses.asdict(one)))) == one
    assert (
        "synthetic: mean error 0.0% to 20.0%, median 10.0% over 2 series"
        in heldout.table([one, other])
    )
    assert "| synthetic | 16 | 1000 | 50 | 8.0 | 180 |" in heldout.demands([one])
