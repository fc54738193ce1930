"""Differences between runs made with a known change in them, and with none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.analysis.diff import Diff
from cutaway.analysis.diff import diff as compare
from cutaway.analysis.noise import BESIDE, DISTURBED, RUN_TO_RUN, Noise
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

MS = 1_000_000


def make(
    path: Path,
    seed: int,
    simulation_ms: float = 3.0,
    iterations: int = 60,
    noise: float = 0.05,
    worker: float = 0,
    tail_ms: int = 0,
    queued: float = 0.0,
    program: str = "train.py",
    pool: float = 0.0,
    alike: float = 0.0,
) -> Path:
    """A loop of simulation (given) and inference (2 ms), both noisy; the first iteration
    is ten times as long. `alike`: how much an iteration takes after the one before it."""
    rng = np.random.default_rng(seed)
    with RunWriter(path, command=program, cpus=2) as run:
        process = run.process(pid=1, name="main", start_ns=1000, program=program)
        slow = 1 / (1 - queued)  # of so much of the time somebody else had the core
        rows = [(1000, 0, Kind.BEGIN, 0)]
        now, pace = 1000, 0.0
        for number in range(1, iterations + 1):
            rows.append((now, number, Kind.ITERATION, 0))
            pace = alike * pace + alike * rng.normal(0, noise)
            for name, layer, length in (
                ("simulation", "simulator", simulation_ms),
                ("inference", "backend", 2.0),
            ):
                took = int(
                    slow * length * MS * max(0.1, rng.normal(1, noise) + pace)
                ) * (10 if number == 1 else 1)
                rows.append((now, 0, Kind.OP_ENTER, process.name(name)))
                rows.append(
                    (now + 100, took, Kind.CALL, process.call(layer=layer, fn=name))
                )
                now += took + 200
                rows.append((now, 0, Kind.OP_EXIT, process.name(name)))
            now += 50_000
        now += tail_ms * MS
        rows.append((now, 0, Kind.END, 0))
        process.thread(tid=1, name="MainThread").write(
            *map(np.array, zip(*rows, strict=True))
        )
        for t in np.linspace(1000, now, 20).astype(int).tolist():
            meters = [int((t - 1000) * (1 - queued)), int((t - 1000) * queued)]
            helper = [
                int(pool * meters[0]),
                0,
            ]  # a thread of a pool that computes with the first
            process.log(
                "sample",
                {"t": t, "threads": {"1": meters, "9": helper}, "foreign": queued},
            )
        process.exit(code=0, t=now)
        if worker:
            other = run.process(pid=2, ppid=1, name="worker-1", role="actor")
            length = int(worker * MS)
            times = [1000, 2000, 2000 + length]
            kinds = [Kind.BEGIN, Kind.CALL, Kind.END]
            call = other.call(layer="simulator", fn="step")
            other.thread(tid=2).write(times, [0, length, 0], kinds, [0, call, 0])
            other.exit(code=0, t=times[-1])
    return path


def diff(a: Path, b: Path) -> Diff:
    return compare([cutaway.open(a)], [cutaway.open(b)])


def test_a_planted_change_is_found_measured_and_named_first(tmp_path: Path) -> None:
    found = diff(make(tmp_path / "a", 1), make(tmp_path / "b", 2, simulation_ms=3.6))
    assert found.unit == "iteration"
    assert found.change.low < 0.6 / 5.05 < found.change.high and found.change.certain
    first = found.cells.row(0)
    assert (first["operation"], first["layer"], first["certain"]) == (
        "simulation",
        "simulator",
        True,
    )
    assert first["low_ns"] < 0.6 * MS < first["high_ns"]
    assert 0.9 < first["share"] < 1.1
    inference = found.cells.where(operation="inference", layer="backend").row(0)
    assert not inference["certain"]


def test_the_interval_of_short_runs_contains_the_change_that_was_made(
    tmp_path: Path,
) -> None:
    """One run of each, 25 iterations that take after each other, 30 % planted."""
    pairs, covered, unchanged = 20, 0, 0
    for seed in range(pairs):
        a = make(tmp_path / f"a{seed}", seed, iterations=25, alike=0.7)
        planted = 0.3 * 5.05
        b = make(
            tmp_path / f"b{seed}",
            100 + seed,
            simulation_ms=3.0 + planted,
            iterations=25,
            alike=0.7,
        )
        found = diff(a, b)
        covered += found.change.low <= 0.3 <= found.change.high
        inference = found.cells.where(operation="inference", layer="backend").row(0)
        unchanged += bool(inference["certain"])
        assert found.change.certain, "30 % are no noise"
    assert covered >= 0.95 * pairs
    assert unchanged <= 0.05 * pairs


def test_no_change_is_not_called_one(tmp_path: Path) -> None:
    alarms = sum(
        diff(
            make(tmp_path / f"a{seed}", seed), make(tmp_path / f"b{seed}", 100 + seed)
        ).change.certain
        for seed in range(12)
    )
    assert alarms <= 3  # 5 % of 12 are expected


def test_start_up_is_no_part_of_the_comparison(tmp_path: Path) -> None:
    found = diff(make(tmp_path / "a", 1, noise=0.0), make(tmp_path / "b", 1, noise=0.0))
    assert found.a_ns == pytest.approx(5.0504 * MS, rel=1e-6)
    assert found.change.value == 0


def test_the_threshold_must_lie_below_the_whole_interval(tmp_path: Path) -> None:
    found = diff(make(tmp_path / "a", 1), make(tmp_path / "b", 2, simulation_ms=3.6))
    assert found.regressed(0.05)
    assert not found.regressed(found.change.value), (
        "the interval includes its own middle"
    )
    assert not diff(
        make(tmp_path / "c", 1, simulation_ms=3.6), make(tmp_path / "d", 2)
    ).regressed(0.0)


def test_what_follows_the_last_mark_is_no_part_of_the_comparison(
    tmp_path: Path,
) -> None:
    found = diff(make(tmp_path / "a", 1), make(tmp_path / "b", 1, tail_ms=500))
    assert found.change.value == 0 and found.units == (58, 58)


def test_a_run_with_iterations_and_one_without_are_compared_as_wholes(
    tmp_path: Path,
) -> None:
    found = diff(
        make(tmp_path / "a", 1, iterations=20),
        make(tmp_path / "b", 1, iterations=0, tail_ms=100),
    )
    assert found.unit == "run" and np.isnan(found.change.low)
    assert found.b_ns == pytest.approx(100 * MS)


def test_too_few_iterations_give_no_interval_and_no_regression(tmp_path: Path) -> None:
    found = diff(
        make(tmp_path / "a", 1, iterations=3),
        make(tmp_path / "b", 2, simulation_ms=9, iterations=3),
    )
    assert np.isnan(found.change.low) and not found.regressed(0.05)


def test_repeated_runs_widen_the_interval_by_what_differs_between_runs(
    tmp_path: Path,
) -> None:
    """Every run has its own speed; one run of each side cannot know that, three can."""
    speeds = (3.0, 3.3, 3.6)
    a = [make(tmp_path / f"a{i}", i, simulation_ms=s) for i, s in enumerate(speeds)]
    b = [
        make(tmp_path / f"b{i}", 10 + i, simulation_ms=s)
        for i, s in enumerate(reversed(speeds))
    ]
    alone = diff(a[0], b[0]).change
    together = compare(
        [cutaway.open(p) for p in a], [cutaway.open(p) for p in b]
    ).change
    assert alone.certain and not together.certain
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_workers_that_count_no_iterations_are_spread_over_those_of_the_leader(
    tmp_path: Path,
) -> None:
    found = diff(
        make(tmp_path / "a", 1, worker=118), make(tmp_path / "b", 1, worker=236)
    )
    row = found.cells.where(process="actor", layer="simulator").row(0)
    assert row["a_ns"] > 0
    assert row["change_ns"] == pytest.approx(118 * MS / 58)


def test_identical_code_on_a_noisy_machine_is_no_change(tmp_path: Path) -> None:
    # Given the same loop, once alone and once with another program on its core for 30 % of the time.
    found = diff(make(tmp_path / "a", 1, queued=0.3), make(tmp_path / "b", 2))
    # Then B looks 30 % faster by the clock, which is not called a change; CPU time says it is the same.
    assert found.change.value < -0.25 and not found.change.certain
    assert found.disturbed and found.cpu is not None and found.judged is found.cpu
    assert abs(found.cpu.value) < 0.03 and not found.cpu.certain
    text = " ".join(command(str(tmp_path / "a"), str(tmp_path / "b")).stdout.split())
    assert "Wall time is disturbed: threads waited" in text
    assert "beyond chance" not in text


def test_a_thread_pool_on_a_noisy_machine_is_not_judged_by_one_run_of_each(
    tmp_path: Path,
) -> None:
    # Given a loop whose pool threads spin while they wait for a core: CPU time doubles without any change to the code.
    a, b = (
        make(tmp_path / "a", 1, pool=0.5),
        make(tmp_path / "b", 2, pool=2.0, queued=0.5),
    )
    found = diff(a, b)
    # Then neither clock has an interval, nothing is called a change, and the command says why and what to do.
    assert found.cpu is not None and found.cpu.value > 0.9
    assert (
        not found.judged.known
        and not found.judged.certain
        and not found.regressed(0.05)
    )
    shown = command(str(a), str(b), "--fail-on", "5%")
    text = " ".join(shown.stdout.split())
    assert (
        shown.returncode == 0
        and "No interval: the machine was busy" in text
        and "Not judged" in text
    )
    assert "three of each" in text and "OMP_NUM_THREADS=1" in text
    assert json.loads(command(str(a), str(b), "--json").stdout)["floor"] is None
    # And alone on the machine the same pool hides no change.
    quiet = diff(a, make(tmp_path / "c", 3, pool=0.5, simulation_ms=6.0))
    assert quiet.judged.certain and quiet.regressed(0.05)


def test_a_change_of_the_code_is_found_in_cpu_time_on_a_noisy_machine(
    tmp_path: Path,
) -> None:
    found = diff(
        make(tmp_path / "a", 1, queued=0.3),
        make(tmp_path / "b", 2, simulation_ms=6.0, queued=0.2),
    )
    assert found.cpu is not None and found.cpu.certain and found.regressed(0.05)


def test_different_programs_are_not_compared_without_a_word(tmp_path: Path) -> None:
    found = diff(make(tmp_path / "a", 1), make(tmp_path / "b", 1, program="eval.py"))
    assert found.warnings == (
        "A ran train.py, B ran eval.py; these may be different programs.",
    )


def test_recorded_beside_others_a_run_says_that_it_cannot_tell(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import cutaway\n"
        "for _ in range(80):\n"
        "    cutaway.iteration()\n"
        "    with cutaway.operation('simulation'): sum(range(1_600_000))\n"
    )
    others = range(2 * (os.cpu_count() or 1))
    burn = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in others
    ]
    try:
        for name in ("a", "b"):
            words = [sys.executable, "-m", "cutaway", "run", "-q", "-o", name, program]
            subprocess.run(words, cwd=tmp_path, check=True, timeout=300)
            while burn:
                burn.pop().kill()
    finally:
        for one in burn:
            one.kill()
    found = diff(tmp_path / "a", tmp_path / "b")
    assert found.disturbed and found.queued[0] >= DISTURBED
    assert found.floor >= RUN_TO_RUN + BESIDE, (
        "others slowed A down, by how much nobody knows"
    )
    assert found.judged is found.cpu


def command(*words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "cutaway", "diff", *words]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def test_the_command_says_what_explains_the_change_and_fails_on_a_regression(
    tmp_path: Path,
) -> None:
    a, b = str(make(tmp_path / "a", 1)), str(make(tmp_path / "b", 2, simulation_ms=3.6))
    slower = command(a, b, "--fail-on", "5%")
    assert slower.returncode == 1 and "FAILED" in slower.stdout
    assert "changes below 4% may be noise" in " ".join(slower.stdout.split())
    rows = slower.stdout.splitlines()
    first = next(i for i, row in enumerate(rows) if "change/ms" in row) + 1
    assert rows[first].endswith("simulation simulator cpu")
    assert (
        "cells changed by no more than chance explains; --json lists all cells"
        in slower.stdout
    )
    assert slower.stdout.isascii() and max(map(len, slower.stdout.splitlines())) <= 80
    faster = command(b, a, "--fail-on", "5%", "--json")
    told = json.loads(faster.stdout)
    assert (
        faster.returncode == 0
        and told["regressed"] is False
        and told["change"]["value"] < -0.05
    )
    assert told["cells"][0]["operation"] == "simulation"
    # And by function: native calls that no sample of Python led to stand for themselves.
    assert (told["functions"][0]["operation"], told["functions"][0]["function"]) == (
        "simulation",
        "simulation",
    )
    assert sum(f["change_ns"] for f in told["functions"]) == pytest.approx(
        told["b_ns"] - told["a_ns"], rel=0.1
    )
    row = rows[
        rows.index(next(r for r in rows if r.endswith("your function"))) + 1
    ].split()
    assert row[4] == "simulation" and 0 < float(row[1]) < float(row[0]) < float(row[3])


def test_folders_with_several_runs_and_wrong_thresholds(tmp_path: Path) -> None:
    for seed in range(2):
        make(tmp_path / "before" / f"{seed}.cutaway", seed)
        make(tmp_path / "after" / f"{seed}.cutaway", 10 + seed)
    assert command(str(tmp_path / "before"), str(tmp_path / "after")).returncode == 0
    wrong = command(
        str(tmp_path / "before"), str(tmp_path / "after"), "--fail-on", "much"
    )
    assert (
        wrong.returncode == 2
        and "percentage" in wrong.stderr
        and "Traceback" not in wrong.stderr
    )


def test_an_unmeasured_machine_may_have_been_busy() -> None:
    assert Noise(others=None).floor > Noise(others=0.5).floor
