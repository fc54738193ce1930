"""The replay of a trainer against the same system in readable Python and against cases with a known answer; the bounds above both."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from simulation_twin import System
from simulation_twin import simulate as twin

from cutaway.errors import CutawayError
from cutaway.machines import machine
from cutaway.machines.machine import Machine
from cutaway_balance import model, probe
from cutaway_balance.demands import Demands, Line, Time

pytestmark = pytest.mark.core

TWO = Machine("two", 2, 2)
SMT = Machine("smt", 4, 8, smt_yield=1.25, turbo=0.9, gpus=1, sms=80)
PLAIN = Demands(
    Time(1e-3, 0.2), Time(5e-5), host=Line(1e-4, 1e-5), device=Line(5e-4, 1e-5)
)
LEARNING = dataclasses.replace(
    PLAIN,
    train_host=Time(2e-3),
    train_device=Time(3e-2, 0.1),
    steps_per_train=200,
    unroll=20,
    queue=12,
)
CASES = {
    "few actors": (PLAIN, TWO, 1),
    "saturated CPU": (PLAIN, TWO, 16),
    "SMT and turbo": (PLAIN, SMT, 12),
    "two environments an actor": (dataclasses.replace(PLAIN, envs_per_actor=2), SMT, 6),
    "latency": (dataclasses.replace(PLAIN, latency=2e-3), SMT, 8),
    "dynamic batches": (dataclasses.replace(PLAIN, batch=64, timeout=1e-3), SMT, 8),
    "a learner shares the device": (LEARNING, SMT, 8),
    "a learner that limits": (
        dataclasses.replace(LEARNING, train_device=Time(0.2)),
        SMT,
        8,
    ),
    "a server in three parts": (
        dataclasses.replace(LEARNING, reply=Line(2e-4, 1e-5), after=Line(1e-4, 4e-5)),
        TWO,
        6,
    ),
    "a device that finishes what it began": (
        dataclasses.replace(LEARNING, slice=float("inf")),
        SMT,
        8,
    ),
    "CPUs that sleep": (LEARNING, dataclasses.replace(SMT, wake=1e-4), 2),
    "CPUs that others keep awake": (
        PLAIN,
        dataclasses.replace(TWO, wake=2e-4, foreign=0.5),
        2,
    ),
    "others on the machine": (LEARNING, dataclasses.replace(SMT, foreign=2.5), 12),
    "CPU time, not work": (dataclasses.replace(PLAIN, burns_time=True), SMT, 12),
    "everything on the CPU": (
        dataclasses.replace(LEARNING, device_on_cpu=True),
        TWO,
        4,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_replay_and_the_readable_simulation_agree(case: str) -> None:
    d, m, actors = CASES[case]
    replayed = model.predict(d, m, actors, draws=0).steps_per_s
    readable = twin(System.of(d, m, actors), 2, 1000, 4000)
    assert replayed == pytest.approx(readable, rel=0.03)


@pytest.mark.parametrize("case", CASES)
def test_no_throughput_exceeds_the_bounds(case: str) -> None:
    d, m, actors = CASES[case]
    predicted = model.predict(d, m, actors, draws=0)
    limits = model.bounds(d, m, actors)
    assert predicted.steps_per_s <= 1.02 * limits[0].steps_per_s
    assert predicted.cpu_busy <= m.threads + 1e-9


def test_one_actor_alone_takes_the_sum_of_its_services() -> None:
    d = Demands(
        Time(1e-3),
        Time(1e-4),
        host=Line(2e-4),
        device=Line(3e-4),
        latency=4e-4,
        batch=1,
    )
    assert model.predict(d, TWO, 1, draws=0).steps_per_s == pytest.approx(
        1 / 2.0e-3, rel=1e-3
    )


def test_a_sleeping_cpu_costs_time_and_a_busy_one_does_not() -> None:
    d = Demands(
        Time(1e-3), host=Line(2e-4), device=Line(3e-4), reply=Line(1e-4), batch=1
    )
    sleepy = dataclasses.replace(TWO, wake=1e-4)
    # One actor: the server's CPU sleeps while the actor steps, and again while the device works; then the actor's has slept.
    assert model.predict(d, sleepy, 1, draws=0).steps_per_s == pytest.approx(
        1 / 1.9e-3, rel=1e-3
    )
    busy = dataclasses.replace(d, device=Line())
    assert model.predict(busy, sleepy, 64, draws=0).steps_per_s == pytest.approx(
        model.predict(busy, TWO, 64, draws=0).steps_per_s, rel=0.01
    )


def test_work_after_the_answer_costs_the_server_but_not_the_actor() -> None:
    d = Demands(
        Time(1e-3), host=Line(1e-4), reply=Line(1e-4), after=Line(5e-4), batch=1
    )
    assert model.predict(d, TWO, 1, draws=0).steps_per_s == pytest.approx(
        1 / 1.2e-3, rel=1e-3
    )
    many = model.predict(d, Machine("wide", 16, 16), 12, draws=0)
    assert many.steps_per_s == pytest.approx(1 / 7e-4, rel=0.01)


def test_what_others_use_is_not_ours() -> None:
    d = Demands(Time(1e-3, 0.3), batch=1, host=Line(1e-9))
    half = dataclasses.replace(TWO, foreign=1.0)
    assert model.predict(d, half, 8, draws=0).steps_per_s == pytest.approx(
        1e3, rel=0.02
    )
    assert model.predict(d, half, 1, draws=0).steps_per_s == pytest.approx(
        1e3, rel=0.02
    )
    assert model.bounds(d, half, 8)[0].steps_per_s == pytest.approx(1e3, rel=0.02)


def test_a_saturated_cpu_gives_its_capacity() -> None:
    d = Demands(Time(1e-3, 0.3), batch=1, host=Line(1e-9))
    predicted = model.predict(d, SMT, 64, draws=0)
    assert predicted.steps_per_s == pytest.approx(SMT.capacity(8) / 1e-3, rel=0.01)


def test_the_learner_locks_the_actors() -> None:
    slow = dataclasses.replace(LEARNING, train_device=Time(0.5))
    predicted = model.predict(slow, SMT, 8, draws=0)
    inference = 200 / 4 * LEARNING.device(4)  # shares the device with training
    assert predicted.steps_per_s == pytest.approx(200 / (0.502 + inference), rel=0.02)


def test_the_interval_comes_from_the_errors_of_measurement() -> None:
    sure = model.predict(PLAIN, TWO, 16)
    unsure = model.predict(
        dataclasses.replace(PLAIN, env_step=Time(1e-3, 0.2, error=0.1)), TWO, 16
    )
    assert unsure.high - unsure.low > 3 * (sure.high - sure.low)
    assert unsure.low < unsure.steps_per_s < unsure.high


def test_the_binding_resource_is_named_and_more_of_it_helps() -> None:
    first = model.bounds(PLAIN, TWO, 16)[0]
    assert first.resource == "cpu"
    assert (
        model.bounds(PLAIN.times(env_step=0.5), TWO, 16)[0].steps_per_s
        > 1.5 * first.steps_per_s
    )
    assert (
        model.bounds(PLAIN.times(train_host=0.5, train_device=0.5), TWO, 16)[0] == first
    )


def test_the_wanted_ratio_balances_cpu_and_device() -> None:
    threads = model.wanted_threads(LEARNING, SMT, 64)
    assert threads is not None
    wide = dataclasses.replace(
        SMT,
        cores=round(threads * 10),
        threads=round(threads * 10),
        smt_yield=1,
        turbo=1,
    )
    found = {b.resource: b.steps_per_s for b in model.bounds(LEARNING, wide, 64)}
    assert found["cpu"] > found["device"]
    unused = dataclasses.replace(PLAIN, device=Line())
    assert model.wanted_threads(unused, SMT, 64) is None


@pytest.mark.parametrize("name", sorted(p.stem for p in machine.HOSTS.glob("*.toml")))
def test_every_machine_file_loads(name: str) -> None:
    found = machine.load(name)
    assert found.ratio is not None
    assert found.capacity(found.threads) == pytest.approx(
        found.turbo * found.cores * found.smt_yield
    )


def test_bad_machine_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CutawayError, match="desktop, dgx-a100, dgx1"):
        machine.load("nowhere")
    for text in ("cores = 2", "cores = 4\nthreads = 2", "colour = 1", "= ="):
        path = tmp_path / "m.toml"
        path.write_text(text)
        with pytest.raises(CutawayError, match="does not describe a machine"):
            machine.load(str(path))


def test_this_machine_is_what_the_process_may_use() -> None:
    found = probe.here()
    assert 1 <= found.cores <= found.threads
