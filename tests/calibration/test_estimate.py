"""A simulated program with known true cost and known hook cost, in fake time: the correction must find it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.analysis.breakdown import correct
from cutaway.analysis.sweep import sweep
from cutaway.calibration.costs import Cost
from cutaway.calibration.estimate import Units, calibrate, units
from cutaway.calibration.prior import Kind, Prior
from cutaway.trace.reader import read_run
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind as Event
from effort import effort

pytestmark = pytest.mark.core

HOT, COLD, INSIDE = 20.0, 80.0, 10.0
PRIOR = Prior(
    {
        "call": Kind(Cost(HOT, HOT, HOT), Cost(COLD, COLD, COLD), INSIDE),
        "operation": Kind(Cost(HOT, HOT, HOT), Cost(COLD, COLD, COLD), INSIDE),
    }
)
MIDDLE = 40.0  # what the prior expects of an event


def program(
    units: int,
    share: float,
    cost: float,
    noise: float = 0.0,
    drift: float = 0.0,
    seed: int = 0,
) -> Units:
    """Units of 1 ms true CPU a step; each step makes 50 calls and 4 operations of `cost` ns when recorded."""
    random = np.random.default_rng(seed)
    off = random.random(units) < share
    steps = random.integers(1, 4, units).astype(float)
    true = (
        1e6
        * steps
        * (1 + drift * np.arange(units) / units)
        * random.lognormal(0, noise, units)
    )
    calls, operations = np.where(off, 0, 50 * steps), np.where(off, 0, 4 * steps)
    return Units(
        true + cost * (calls + operations),
        steps,
        calls,
        operations,
        off,
        np.zeros(units),
    )


@pytest.mark.parametrize("cost", [0.0, 15.0, 40.0, 120.0, 2040.0])
def test_without_noise_the_cost_is_found_exactly(cost: float) -> None:
    found = calibrate([program(4000, 0.05, cost)], PRIOR)
    assert found.measured is not None
    assert found.measured.value * MIDDLE == pytest.approx(cost, abs=1e-6)
    inside, outside = found.costs.inside["call"], found.costs.outside["call"]
    assert inside.ns + outside.ns == pytest.approx(cost, rel=0.02, abs=0.5)
    assert inside.ns == pytest.approx(outside.ns)  # half of the hot cost lies inside


def test_corrected_cells_add_up_to_the_true_time() -> None:
    units = program(4000, 0.05, 100.0)
    costs = calibrate([units], PRIOR).costs
    on = ~units.off
    true = 1e6 * float(np.sum(units.steps[on]))
    n = int(np.sum(units.calls[on])), int(np.sum(units.operations[on]))
    raw = int(np.sum(units.cpu_ns[on]))
    cells = {
        "ns": np.array([raw // 2, raw - raw // 2]),
        **{
            f"{kind}s{end}": np.array([0, count])
            for kind, count in zip(("call", "operation"), n, strict=True)
            for end in ("", "_made")
        },
        "api_calls": np.zeros(2),
        "api_calls_made": np.zeros(2),
    }
    corrected = correct(cells, costs)
    assert corrected.ns.sum() == pytest.approx(true, rel=2e-4)
    assert np.all(corrected.low <= corrected.ns)
    assert np.all(corrected.ns <= corrected.high)


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.05])
def test_the_true_cost_lies_in_the_interval_nine_times_of_ten(noise: float) -> None:
    hits, trials = 0, effort(100, 20)
    for seed in range(trials):
        cost = calibrate(
            [program(3000, 0.05, 60.0, noise=noise, seed=seed)], PRIOR
        ).costs
        low, high = (
            sum(getattr(side["call"], end) for side in (cost.inside, cost.outside))
            for end in ("low", "high")
        )
        hits += low <= 60.0 <= high
    assert hits >= 0.9 * trials


def test_drift_and_warming_up_do_not_count_as_cost() -> None:
    found = calibrate([program(4000, 0.05, 40.0, drift=-0.5)], PRIOR)
    assert found.measured is not None
    assert found.measured.value == pytest.approx(1.0, rel=0.1)


def test_training_between_the_steps_is_compared_with_training() -> None:
    """Units of one to three steps; every seventh holds 20 ms of training with many events more."""
    units = program(4000, 0.1, 60.0)
    training = np.arange(4000) % 7 == 0
    events = np.where(training & ~units.off, 500.0, 0.0)
    cpu = units.cpu_ns + training * 20e6 + 60.0 * events
    whole = Units(
        cpu,
        units.steps,
        units.calls + events,
        units.operations,
        units.off,
        training.astype(float),
    )
    found = calibrate([whole], PRIOR)
    assert found.measured is not None
    assert found.measured.value * MIDDLE == pytest.approx(60.0, abs=1e-6)


def test_outliers_do_not_move_the_estimate() -> None:
    units = program(4000, 0.05, 40.0)
    cpu = units.cpu_ns.copy()
    cpu[np.random.default_rng(1).choice(4000, 200, replace=False)] += (
        1e8  # preempted, garbage collected
    )
    found = calibrate(
        [
            Units(
                cpu,
                *(
                    getattr(units, f)
                    for f in ("steps", "calls", "operations", "off", "iterations")
                ),
            )
        ],
        PRIOR,
    )
    assert found.measured is not None
    assert found.measured.value == pytest.approx(1.0, rel=0.05)


def test_a_short_run_leans_on_the_prior_and_says_how_sure_it_is() -> None:
    short = calibrate([program(40, 0.05, 80.0, noise=0.2, seed=5)], PRIOR)
    none = calibrate([], PRIOR)
    long = calibrate([program(60000, 0.05, 80.0, noise=0.005)], PRIOR)
    assert none.measured is None
    assert none.factor.value == 1.0
    assert long.factor.error < 0.2 * none.factor.error
    assert abs(long.factor.value - 2) < abs(none.factor.value - 2)
    assert short.factor.error >= long.factor.error


def test_processes_of_a_run_are_pooled() -> None:
    both = calibrate(
        [program(3000, 0.05, 60.0, seed=1), program(3000, 0.05, 60.0, seed=2)], PRIOR
    )
    assert both.measured is not None
    assert both.measured.units > 200
    assert both.measured.value == pytest.approx(1.5, rel=1e-6)


def cpu(ns: int) -> tuple[int, int, int]:
    return int(Event.CPU_TIME), ns >> 32, ns & 0xFFFFFFFF


def recorded(path: Path, marks: list[tuple[int, int, int]]) -> list[Units]:
    """The units of a run whose only thread holds these (kind, id, value)."""
    with RunWriter(path) as run:
        thread = run.process(pid=1).thread(tid=1)
        kind, id, value = zip(*marks, strict=True)
        thread.write(10 * np.arange(1, len(marks) + 1), value, kind, id)
    return units(sweep(read_run(path)).units)


def test_units_are_read_from_records_as_the_recorder_writes_them(
    tmp_path: Path,
) -> None:
    call, step, resume = (
        (int(Event.CALL), 0, 7),
        (int(Event.STEP), 0, 2),
        (int(Event.RESUME), 1, 3),
    )
    pause_to_calibrate, pause_asked = (int(Event.PAUSE), 1, 0), (int(Event.PAUSE), 3, 0)
    operation = (int(Event.OP_ENTER), 5, 0)
    base = 5 << 32
    marks = [
        cpu(base), call, cpu(base + 50), (int(Event.ITERATION), 0, 1), call, operation, step, cpu(base + 100),
        pause_to_calibrate, resume, cpu(base + 130), cpu(base + 190),
        cpu(base + 200), call, step, cpu(base + 250), call, step, cpu(base + 350),
        pause_asked, resume, cpu(base + 400), step, cpu(base + 500),
    ]  # fmt: skip
    (found,) = recorded(tmp_path / "r.cutaway", marks)
    columns = (
        found.cpu_ns,
        found.steps,
        found.calls,
        found.operations,
        found.off,
        found.iterations,
    )
    assert list(zip(*columns, strict=True)) == [
        (100, 2, 2, 1, False, 1),
        (60, 3, 0, 0, True, 1),
        (100, 2, 1, 0, False, 0),
    ]


def test_no_marks_are_no_units(tmp_path: Path) -> None:
    assert recorded(tmp_path / "r.cutaway", [(int(Event.CALL), 1, 3)] * 3) == []
