"""Verdicts about waiting: workers, stragglers, the GIL, whoever is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutaway.reports.digest import Process
from cutaway.reports.evidence import Blocked, Evidence, peers
from cutaway.reports.verdict import judge

from .made_evidence import CASES, even, workers

pytestmark = pytest.mark.core


def test_what_ends_a_wait_saves_at_most_that_wait():
    idle = judge(even(blocked=workers, cores=8, cores_busy=6.0))
    full = judge(even(blocked=workers, cores=8, cores_busy=7.9))
    assert idle.expected == "estimate: at most +138 % throughput if that wait ended"
    assert full.speedup is None and full.expected == ""
    uneven = replace(workers, share=0.7, slowest="env-1", slowest_ratio=4.2)
    assert (
        judge(even(blocked=uneven)).speedup == pytest.approx(1 / 0.3)
        and judge(even(blocked=uneven)).at_most
    )
    assert (
        judge(even(blocked=replace(uneven, share=0.95))).speedup is None
    )  # a bound that says nothing


def test_workers_that_simulate_little_cost_more_than_they_do():
    said = judge(replace(CASES["workers-cost"], libraries=frozenset({"gymnasium"})))
    assert (
        said.label == "WORKERS COST MORE THAN THEY DO"
        and "SyncVectorEnv" in said.advice
    )
    # 0.5 of the time is stepping, of which the workers simulate for 0.1.
    assert said.speedup == pytest.approx(1 / (1 - 0.4))
    assert said.expected.endswith(
        "if stepping takes the main process as long as it takes the workers"
    )
    by_sb3 = judge(
        replace(CASES["workers-cost"], libraries=frozenset({"stable_baselines3"}))
    )
    assert "DummyVecEnv" in by_sb3.advice
    busy = replace(CASES["workers-cost"].blocked, simulated=0.4)  # type: ignore[type-var]
    assert judge(even(blocked=busy)).rule == "simulation-bound-workers"


def test_overlap_hides_the_shorter_of_the_two():
    def waiting(share: float) -> Evidence:
        return even(
            layer={"wait": share, "python": 1 - share}, cell={("sync", "wait"): share}
        )

    assert judge(waiting(0.76)).speedup == pytest.approx(1 / 0.76)
    assert (
        judge(waiting(0.76)).expected
        == "estimate: +32 % throughput if the two overlap fully"
    )
    assert judge(waiting(0.5)).speedup == pytest.approx(2.0)


def test_a_verdict_about_a_wait_does_not_complain_that_the_wait_has_no_name():
    waits = replace(workers, share=0.9, busy_with="inference")
    said = judge(even(blocked=waits, operation={"": 0.95, "backpropagation": 0.05}, layer={"wait": 0.9, "python": 0.1},
                      cell={("", "wait"): 0.9, ("", "python"): 0.05, ("backpropagation", "python"): 0.05}))  # fmt: skip
    assert said.rule == "inference-bound-server" and said.warnings == ()
    # These act for themselves; nobody asks them.
    assert (
        "in each of the 6 env worker processes" in said.advice
        and "requests" not in said.advice
    )


def test_a_wait_for_an_own_thread_names_it():
    said = judge(replace(CASES["waiting"], waits_for="its thread Prefetcher"))
    assert (
        said.because
        == "60 % of each iteration is blocked, most of it in sync, for its thread Prefetcher."
    )


def test_the_bound_of_a_fight_for_the_gil_is_the_wait_for_it() -> None:
    said = judge(CASES["gil"])
    assert said.expected == "estimate: at most +67 % throughput if that wait ended"
    assert judge(replace(CASES["gil"], gil=0.95)).speedup is None


def test_workers_that_do_little_are_the_cause_of_the_crowd_they_make() -> None:
    # Given eight workers that all wake up at each step, on two cores.
    crowded = replace(
        CASES["workers-cost"], runqueue=0.6, runnable=3.5, cores=2, processes=9
    )
    assert judge(crowded).rule == "workers-cost"
    # And workers whose simulation fills the cores are too many, whatever else they cost.
    assert crowded.blocked is not None
    busy = replace(
        crowded, blocked=replace(crowded.blocked, simulated=2 * crowded.blocked.share)
    )
    assert judge(busy).rule == "cpu-oversubscription"


def test_on_a_busy_machine_the_gil_is_judged_by_the_time_that_others_left() -> None:
    fight = even(
        layer={"wait": 0.2, "python": 0.8},
        gil=0.2,
        cell={("simulation", "python"): 0.8},
    )
    assert judge(fight).rule == "python-glue"
    crowded = judge(replace(fight, queued=0.5, other_cores=7.0))
    assert crowded.rule == "gil" and not crowded.certain and crowded.speedup is None


def test_the_gil_that_native_calls_wait_for_is_told() -> None:
    calls = judge(replace(CASES["gil"], gil=0.6, gil_in_calls=0.5))
    assert (
        "60 % of each iteration waits for the GIL (50 % at the end of native calls"
        in calls.because
    )
    assert "native calls" not in judge(CASES["gil"]).because


def test_a_bound_that_rests_on_samples_holds_their_error() -> None:
    sampled = replace(CASES["gil"], gil=0.4, gil_in_calls=0.4, gil_error=0.1)
    # Half of the time may be waiting: without it, twice the throughput.
    assert judge(sampled).expected.startswith("estimate: at most +100 %")


def test_who_holds_the_gil_is_named_where_that_is_known() -> None:
    known = replace(CASES["gil"], gil_thread="sampler", gil_at="rl/replay.py:40")
    said = judge(known)
    assert said.because.endswith("thread sampler holds it, mostly at rl/replay.py:40.")
    assert "what sampler does at rl/replay.py:40 into a process" in said.advice
    assert "another thread" in judge(CASES["gil"]).because


def test_workers_that_wait_too_are_not_what_the_run_is_bound_by() -> None:
    idle = replace(workers, share=0.8, simulated=0.0, busy=0.05)
    said = judge(even(blocked=idle, layer={"wait": 0.8, "python": 0.2}))
    assert said.rule == "waiting"
    assert (
        "waits for 6 env worker processes, each of which mostly waits, too."
        in said.because
    )
    assert (
        judge(even(blocked=replace(idle, busy=0.6))).rule == "simulation-bound-workers"
    )


def test_a_learner_that_waits_through_any_queue_waits_for_samples() -> None:
    starved = replace(
        CASES["learner-starved"],
        busiest="act-1 (97 % of a core, mostly simulation)",
        libraries=frozenset({"sample_factory"}),
        cores=8,
        cores_busy=3.0,
        other_cores=0.0,
    )
    said = judge(starved)
    assert said.rule == "learner-starved"
    waits = (
        "60 % of each iteration the learner waits, while 2 other processes simulate."
    )
    assert said.because.startswith(waits)
    more = "set --num_workers=7: 5 of 8 cores are idle; of the others act-1"
    assert said.advice.startswith(more)
    full = judge(replace(starved, cores_busy=8.0))
    assert full.advice.startswith("make samples cheaper: every core is in use")
    # Who acts for itself, too, may wait for anything.
    assert judge(replace(starved, sample_makers=0)).rule == "waiting"


def test_workers_that_wait_for_cores_of_others_cost_nothing_by_that() -> None:
    idle = CASES["workers-cost"]
    shared = replace(idle, queued=0.3, workers_queued=0.3, other_cores=7.0)
    assert judge(idle).rule == "workers-cost"
    assert judge(shared).rule == "thin-workers"
    assert "for a core that others have" in judge(shared).because
    # What is left of the wait after that is still far more than they simulate.
    little = replace(idle.blocked, share=0.8, simulated=0.02)  # type: ignore[type-var]
    assert judge(replace(shared, blocked=little)).rule == "workers-cost"
    # Unless a step is long enough for a process of its own.
    slow = replace(shared, blocked=little, step_us=1500.0)
    assert judge(slow).rule == "thin-workers"
    assert judge(replace(idle, step_us=1500.0)).rule == "workers-cost"
    late = replace(shared, blocked=little, queued=0.5, workers_queued=0.5)
    assert judge(late).rule == "thin-workers"  # the last of them waits longer still


def test_a_straggler_is_told_by_cpu_time_on_a_busy_machine_too() -> None:
    shared = replace(
        CASES["straggler"], queued=0.5, workers_queued=0.5, other_cores=7.0
    )
    assert judge(shared).rule == "straggler" and not judge(shared).certain


def test_a_wait_in_native_code_is_told_by_your_own_line() -> None:
    asleep = replace(
        CASES["waiting"],
        cell={("", "wait"): 0.6},
        waits_for="native code at _channel.py:1152",
    )
    assert "native code at _channel.py:1152" in judge(asleep).because
    said = judge(replace(asleep, waits_at="train.py:22 (main)")).because
    assert said == (
        "60 % of each iteration is blocked, most of it in native code called at your "
        "train.py:22 (main)."
    )


def test_who_computes_most_is_named_where_a_queue_in_native_code_says_nothing() -> None:
    busiest = "inference_proc0-0 (61 % of a core, mostly inference)"
    queue = replace(
        CASES["waiting"], busiest=busiest, waits_for="native code at q.py:9"
    )
    assert judge(queue).advice.endswith(f"{busiest} computes most")
    known = replace(queue, waits_for="replay server")
    assert busiest not in judge(known).advice


EVEN = even(
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
    processes=3,
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
