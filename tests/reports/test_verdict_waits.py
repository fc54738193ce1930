"""Waits of the main process: for peers, which work for nobody, and in a simulator that waits for something outside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutaway.reports.digest import Process
from cutaway.reports.evidence import Blocked, Evidence, peers
from cutaway.reports.verdict import judge

pytestmark = pytest.mark.core

EVEN = Evidence(
    seconds=60.0,
    units=100,
    unit_ms=100.0,
    operation={"simulation": 0.5, "inference": 0.2, "backpropagation": 0.3},
    layer={"python": 0.3, "backend": 0.4, "wait": 0.3},
    cell={
        ("simulation", "wait"): 0.3,
        ("simulation", "python"): 0.2,
        ("inference", "python"): 0.1,
        ("inference", "backend"): 0.1,
        ("backpropagation", "backend"): 0.3,
    },
    threads=4,
    processes=3,
    cores=8,
    cores_busy=2.0,
    other_cores=0.0,
)
IDLE_WORKER = Blocked("actor", 1, 0.3, "simulation", simulated=0.05)


def test_workers_that_hardly_simulate_cost_more_than_they_do() -> None:
    assert judge(replace(EVEN, blocked=IDLE_WORKER)).rule == "workers-cost"


def test_workers_of_one_pool_do_not_work_for_each_other() -> None:
    peers = replace(EVEN, blocked=replace(IDLE_WORKER, peers=True))
    assert judge(peers).rule != "workers-cost"


def process(number: int, parent: int, role: str) -> Process:
    return Process(number, 100 + number, parent, f"p{number}", role, 0, 1, "0", 1, 1, 1, 0)  # fmt: skip


def test_peers_have_the_same_parent_and_the_same_role() -> None:
    worker = process(1, 0, "actor")
    assert peers(worker, [process(2, 0, "actor"), process(3, 0, "actor")])
    assert not peers(process(0, -1, "learner"), [worker])
    assert not peers(worker, [process(2, 0, "inference")])
    assert not peers(worker, [process(2, 1, "actor")])


SLEEPS = replace(
    EVEN,
    operation={"simulation": 0.8, "backpropagation": 0.2},
    layer={"wait": 0.8, "backend": 0.2},
    cell={("simulation", "wait"): 0.8, ("backpropagation", "backend"): 0.2},
    waits_for="time.sleep",
    waits_at="train.py:12 (step)",
)


def test_simulators_that_wait_are_to_wait_at_the_same_time() -> None:
    said = judge(SLEEPS)
    assert said.rule == "waiting"
    assert "time.sleep at your train.py:12 (step)" in said.because
    assert said.advice.startswith("step the environments in 4 processes")
    # Three quarters of 80 % disappear: 2.5 times the throughput.
    assert said.expected == "estimate: +150 % throughput with 4 at the same time"


def test_a_wait_outside_the_simulator_is_to_overlap() -> None:
    cell = {("replay", "wait"): 0.8, ("backpropagation", "backend"): 0.2}
    said = judge(replace(SLEEPS, operation={"replay": 0.8}, cell=cell))
    assert said.rule == "waiting"
    assert "before you use this one" in said.advice


def test_a_wait_for_another_process_is_not_blamed_on_the_simulator() -> None:
    server = Blocked("process", 1, 0.7, "", busy=0.0)
    assert "at the same time" not in judge(replace(SLEEPS, blocked=server)).advice
