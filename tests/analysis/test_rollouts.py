"""Values over time: recorded by real programs, read back, and what they say of long tails, queues and old samples."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.analysis.rollouts import Burst, Curve, Rollouts, bursts
from cutaway.analysis.whatif.compositions import (
    Parts,
    Wish,
    divisions,
    predictions,
    wish,
)
from cutaway.errors import CutawayError
from cutaway.reports.rollouts import sentence

pytestmark = pytest.mark.core


def run(tmp_path: Path, code: str) -> cutaway.analysis.Run:
    (tmp_path / "train.py").write_text("import cutaway\n" + code)
    command = [sys.executable, "-m", "cutaway", "run", "-o", "run.cutaway", "train.py"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60, capture_output=True)
    return cutaway.open(tmp_path / "run.cutaway")


def curve(*points: tuple[int, float]) -> Curve:
    at, value = zip(*points, strict=True)
    return Curve(np.array(at, np.int64), np.array(value, np.float64))


def test_only_changes_are_kept_and_all_of_them(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
for number in range(1000):
    cutaway.gauge("queue", number // 100)
cutaway.gauge("queue", float("nan"))
cutaway.gauge('a "name"\\n', -1.5)
""",
    ).gauges()
    queue = found.where(name="queue")
    assert queue["value"].tolist() == list(range(10))
    assert (np.diff(queue["t_ns"]) >= 0).all()
    assert found.where(name='a "name"\n')["value"].tolist() == [-1.5]


def test_a_forked_child_does_not_write_the_values_of_its_parent(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
import os
cutaway.gauge("queue", 1)
cutaway.gauge("queue", 2)
child = os.fork()
if not child:
    cutaway.gauge("queue", 7)
    raise SystemExit
os.waitpid(child, 0)
""",
    ).gauges()
    own = found.where(process=0)["value"].tolist()
    assert own == [1.0, 2.0]
    assert found.where(process=1)["value"].tolist() == [7.0]


def test_nothing_happens_when_nothing_records() -> None:
    cutaway.gauge("queue", 3)


def test_the_tail_begins_when_a_quarter_of_the_batch_is_left() -> None:
    found = bursts(curve((0, 8), (10, 4), (20, 2), (50, 1), (90, 0), (95, 3)), 100)
    assert found == [Burst(0, 90, 70, 8.0, 220.0), Burst(95, 100, 0, 3.0, 15.0)]


def test_a_small_batch_has_no_tail() -> None:
    (burst,) = bursts(curve((0, 3), (10, 1), (90, 0)), 100)
    assert burst.tail_ns == 0


def test_a_stretch_begins_with_the_value_that_held_then() -> None:
    cut = curve((0, 8), (10, 4), (30, 2)).within(20, 40)
    assert (cut.at.tolist(), cut.value.tolist()) == ([20, 30], [4.0, 2.0])
    assert cut.mean(40) == 3.0


def test_what_an_engine_did_is_said_in_numbers(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
import time
for batch in range(4):
    cutaway.iteration()
    with cutaway.operation("generation"):
        for running, length in ((8, 0.02), (1, 0.06), (0, 0)):
            cutaway.gauge("sequences", running)
            time.sleep(length)
    cutaway.gauge("queue", 0)
    cutaway.gauge("staleness", batch)
    cutaway.gauge("trained", 8 * batch)
    cutaway.gauge("discarded", 2 * batch)
    with cutaway.operation("backpropagation"):
        time.sleep(0.02)
""",
    )
    made = found.rollouts()
    assert (made.peak, made.engines) == (8.0, 1)
    assert made.tail_ns == made.alone_ns
    assert 0.5 < made.tail_share < 0.95
    assert (made.staleness_most, made.queue_empty) == (3.0, 1.0)
    assert (made.discarded, made.trained, made.discarded_share) == (6.0, 24.0, 0.2)
    assert "up to 8 sequences" in sentence(made)
    assert "6 samples discarded" in sentence(made)


def test_nothing_is_said_of_a_run_without_values() -> None:
    assert sentence(Rollouts()) == ""


PARTS = Parts(
    rollout=8.0, tail=2.0, reward=1.0, train=4.0, sync=0.5, rest=0.0, before=13.5
)


def test_compositions_are_sum_larger_side_and_largest() -> None:
    assert PARTS.seconds("colocated") == 13.5
    assert PARTS.seconds("disaggregated") == 9.5
    assert PARTS.seconds("asynchronous") == 9.0


def test_more_gpus_shorten_all_but_the_tail_rewards_and_sync() -> None:
    more = PARTS.on(rollout=3, train=2)
    assert (more.rollout, more.train) == (4.0, 2.0)
    assert (more.tail, more.reward, more.sync) == (2.0, 1.0, 0.5)


@pytest.mark.parametrize(
    "words",
    [
        ["composition=together"],
        ["gpus=rollout:0,train:2"],
        ["gpus=rollout:2"],
        ["gpus=1"],
        ["gpus=8", "simulation=2x"],
        ["recorded=rollout:4"],
    ],
)
def test_a_composition_that_makes_no_sense_is_refused(words: list[str]) -> None:
    with pytest.raises(CutawayError):
        wish(words)


def test_other_changes_are_none_of_its_business() -> None:
    assert wish(["simulation=2x", "cores=4"]) is None
    assert wish(["gpus=8"]) == Wish(
        ("colocated", "disaggregated", "asynchronous"), None, 8
    )


def test_gpus_that_were_recorded_are_those_of_each_side() -> None:
    asked = wish(["gpus=rollout:6,train:2", "recorded=rollout:3,train:4"])
    assert asked is not None and asked.recorded == (3, 4)
    on = replace(PARTS, gpus=asked.recorded).on(6, 2)
    # Twice as many for generation, of which the tail takes as long as before; half as many for training.
    assert (on.rollout, on.train) == (5.0, 8.0)


def test_every_division_says_which_side_waits() -> None:
    found = divisions(PARTS, 8, "disaggregated")
    assert [(one.rollout, one.train) for one in found] == [(n, 8 - n) for n in range(1, 8)]  # fmt: skip
    best = min(found, key=lambda one: one.seconds)
    assert (best.rollout, best.seconds) == (6, 4.5)
    # Generation takes 1 + 2 for its tail + 1 for rewards, training 4 on two GPUs, and both stop for the weights.
    assert best.rollout_busy == pytest.approx(4 / 4.5)
    assert best.train_busy == pytest.approx(2 / 4.5)


def test_what_if_divides_gpus_between_the_sides(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import time
for batch in range(6):
    cutaway.iteration()
    for name, length in (("generation", 0.06), ("reward", 0.005), ("backpropagation", 0.02)):
        with cutaway.operation(name):
            time.sleep(length)
""",
    )
    command = [sys.executable, "-m", "cutaway", "what-if", "run.cutaway", "gpus=4"]
    said = subprocess.run(
        command, cwd=tmp_path, check=True, timeout=60, capture_output=True, text=True
    ).stdout
    assert "composition=disaggregated gpus=rollout:3,train:1" in said
    assert "assumes: twice the GPUs halve generation and training" in said
    assert "GPUs for generation and training:" in said
    best = [line for line in said.splitlines() if "<- best" in line]
    assert len(best) == 2 and all(line.split()[:3] == ["3", "+", "1"] for line in best)


# Sleeps stand for work, so that one core is enough for both sides: a batch and its reward 250 ms, an update 200 ms, weights 100 ms.
SIDES = """
import queue, threading, time

def spend(name, seconds):
    with cutaway.operation(name):
        time.sleep(seconds)

def sample():
    spend("generation", 0.2)
    spend("reward", 0.05)
"""
COLOCATED = """
for batch in range(10):
    cutaway.iteration()
    sample()
    spend("backpropagation", 0.2)
    spend("sync", 0.1)
"""
# While one batch is trained on, the next one is sampled; both stop for the weights.
DISAGGREGATED = """
wanted, ready = queue.Queue(), queue.Queue()

def serve():
    while wanted.get():
        sample()
        ready.put(1)

threading.Thread(target=serve, daemon=True).start()
wanted.put(1)
ready.get()
for batch in range(10):
    cutaway.iteration()
    wanted.put(1)
    spend("backpropagation", 0.2)
    ready.get()
    spend("sync", 0.1)
"""
# Nobody stops: weights are sent by a thread of their own.
ASYNCHRONOUS = """
ready, weights = queue.Queue(2), queue.Queue(2)

def serve():
    while True:
        sample()
        ready.put(1)

def send():
    while weights.get():
        spend("sync", 0.1)

for work in (serve, send):
    threading.Thread(target=work, daemon=True).start()
ready.get()
for batch in range(10):
    cutaway.iteration()
    ready.get()
    spend("backpropagation", 0.2)
    weights.put(1)
"""


def typical(found: cutaway.analysis.Run) -> float:
    """Seconds of an iteration, by the median: a machine that is busy elsewhere lengthens some of them."""
    passes = found.steady().iterations().where(process=found.main_process)
    return float(np.median(passes["end_ns"] - passes["start_ns"])) / 1e9


@pytest.mark.parametrize(
    ("composition", "program", "seconds"),
    [("disaggregated", DISAGGREGATED, 0.35), ("asynchronous", ASYNCHRONOUS, 0.25)],
)
def test_a_composition_takes_as_long_as_the_program_that_was_changed_to_it(
    tmp_path: Path, composition: str, program: str, seconds: float
) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    before = run(tmp_path / "before", SIDES + COLOCATED)
    after = run(tmp_path / "after", SIDES + program)
    (predicted,) = predictions(before, Wish((composition,)))
    assert predicted.after == pytest.approx(seconds, rel=0.15)
    assert typical(after) == pytest.approx(predicted.after, rel=0.2)
    assert predicted.before == pytest.approx(0.55, rel=0.15)
