"""The whole chain on real recorded runs of our trainer: demands from the recording, then explain, predict and advise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cutaway_balance import demands, observe, sources
from cutaway_balance.trainer import Trainer

pytestmark = pytest.mark.core

BURN = 1000  # µs of CPU that a step of the synthetic environment burns
UPDATE = [
    "--unroll",
    "20",
    "--burn-in",
    "10",
    "--batch",
    "8",
    "--replay-minimum",
    "20",
]  # every 5 unrolls


def record(folder: Path, actors: int, burn: int, device: str) -> Path:
    run = folder / f"a{actors}-{burn}.cutaway"
    trainer = [
        "-m",
        "cutaway_workloads.r2d2",
        "--env",
        f"synthetic:{burn}",
        "--actors",
        str(actors),
    ]
    limits = ["--emulate-device", device, "--steps", "1600", "--seconds", "30"]
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-q",
        "-o",
        str(run),
        *trainer,
        *UPDATE,
        *limits,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="module")
def cpu_bound(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("cpu")
    return [record(folder, actors, BURN, "300,20,4000") for actors in (1, 6)]


@pytest.fixture(scope="module")
def device_bound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("device"), 4, 100, "3000,500,2000")


def trainer(paths: list[Path], only: tuple[int, ...] = ()) -> Trainer:
    known = sources.load(paths, only).predictor
    assert isinstance(known, Trainer)
    return known


def balance(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cutaway", "balance", *map(str, words)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def explained(runs: list[Path], actors: int, machine: Path) -> dict[str, Any]:
    found = json.loads(
        balance("explain", *runs, "--actors", actors, "--machine", machine, "--json")
    )
    point: dict[str, Any] = found["points"][0]
    return point


def test_demands_are_what_the_program_really_does(cpu_bound: list[Path]) -> None:
    d = trainer(cpu_bound).demands
    assert 1.0 <= d.env_step.mean / (BURN * 1e-6) < 1.25
    assert 0 <= d.actor_overhead.mean < 2e-4
    assert 0.95 < d.device(3) / 360e-6 < 3  # a sleep may end late, never early
    assert 0.95 < d.train_device.mean / 4e-3 < 2
    assert 2e-5 < d.server(1) < 2e-3
    assert (d.steps_per_train, d.unroll, d.queue, d.batch, d.timeout) == (
        100,
        20,
        100,
        "seed",
        None,
    )
    assert (d.envs_per_actor, d.measured_at, d.burns_time) == (1, (1, 6), True)


def test_the_batch_rule_and_the_replay_ratio_show_without_the_command(
    cpu_bound: list[Path],
) -> None:
    d = demands.combine(trainer(cpu_bound).seen, {})
    assert d.batch == "seed"
    assert d.batch_for(6) == 3
    assert 80 < d.steps_per_train < 140


def test_the_resource_we_made_scarce_is_the_one_that_binds(
    cpu_bound: list[Path], device_bound: Path, tmp_path: Path
) -> None:
    machine = tmp_path / "two.toml"
    machine.write_text("cores = 2\nthreads = 2\nsmt_yield = 1.0\n")
    point = explained(cpu_bound, 32, machine)
    assert point["binding"] == "cpu"
    assert (
        max(point["elasticities"], key=point["elasticities"].__getitem__)
        != "inference 10 % faster"
    )
    other = explained([device_bound], 4, machine)
    assert other["binding"] in ("server", "device")
    assert (
        max(other["elasticities"], key=other["elasticities"].__getitem__)
        == "inference 10 % faster"
    )
    for one in (point, other):
        assert all(0 < used <= 1 for used in one["utilisation"].values())
        assert one["steps_per_s"] <= 1.02 * min(one["bounds"].values())


def test_predictions_grow_with_actors_and_have_intervals(cpu_bound: list[Path]) -> None:
    found = json.loads(
        balance(
            "predict",
            *cpu_bound,
            "--actors",
            "1,4,16",
            "--machine",
            "desktop",
            "--json",
        )
    )
    rates = [p["steps_per_s"] for p in found["points"]]
    assert rates == sorted(rates)
    d = trainer(cpu_bound).demands
    alone = (
        d.env_step.mean
        + d.actor_overhead.mean
        + d.latency
        + d.host(1)
        + d.device(1)
        + d.reply(1)
    )
    # One actor waits for itself, and for training now and then.
    assert rates[0] == pytest.approx(1 / alone, rel=0.15)
    assert all(p["low"] < p["steps_per_s"] < p["high"] for p in found["points"])
    assert "error: unknown" in balance("predict", *cpu_bound)


def test_explain_and_advise_are_words_with_numbers_within_80_columns(
    cpu_bound: list[Path],
) -> None:
    explanation, advice = (
        balance("explain", *cpu_bound),
        balance("advise", *cpu_bound, "--machine", "dgx1"),
    )
    assert (
        "environment step" in explanation and "what would gain how much" in explanation
    )
    assert (
        advice.startswith("Run ")
        and "steps/J" in advice
        and "this workload needs" in advice
    )
    assert max(map(len, (explanation + advice).splitlines())) <= 80


def test_a_point_is_held_out_and_its_error_told(
    cpu_bound: list[Path], tmp_path: Path
) -> None:
    """A grid's folder made of runs at hand: the point whose demands were not measured is predicted."""
    source = sources.load(cpu_bound)
    assert source.held_out() == []
    folder = tmp_path / "grid"
    command = ["python", "-m", "cutaway_workloads.r2d2", "--actors", "{actors}"]
    (folder / "actors1-r0").mkdir(parents=True)
    (folder / "actors6-r0").mkdir()
    plan = {"command": command, "actors": [1, 6], "repeat": 1}
    (folder / "grid.json").write_text(json.dumps(plan))
    for run, actors in zip(cpu_bound, (1, 6), strict=True):
        (folder / f"actors{actors}-r0" / "run.cutaway").symlink_to(run)
        rate = observe.observe(run).steps_per_s
        point = {
            "setting": {"actors": actors}, "steps_per_s": rate, "low": rate, "high": rate, "steady_from_s": 0.0,
            "seconds": 5.0, "exit": 0, "foreign_cores": 0.0, "contaminated": False, "enough": True, "cpu_cores": 1.0,
        }  # fmt: skip
        (folder / f"actors{actors}-r0" / "point.json").write_text(json.dumps(point))
    text = balance("predict", folder, "--from", 1)
    assert "mean error on 1 held-out points" in text
    held = sources.load([folder], (1,)).held_out()
    assert [(h.row.actors, h.measured_at) for h in held] == [(6, (1,))]
    # How fast the runs were is the machine's affair; the error is what was predicted against what was measured.
    rate, (point,) = observe.observe(cpu_bound[1]).steps_per_s, held
    assert point.error == pytest.approx(point.predicted.steps_per_s / rate - 1)
    assert (
        0
        < point.predicted.steps_per_s
        <= 1.02 * trainer([folder], (1,)).bounds(6)[0].steps_per_s
    )
