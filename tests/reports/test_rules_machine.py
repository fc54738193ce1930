"""Verdicts where the machine is crowded or shared, and what it says of the GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutaway.reports.verdict import judge

from .made_evidence import CASES, even, owning, workers

pytestmark = pytest.mark.core


def test_oversubscription_names_threads_processes_and_cores():
    said = judge(CASES["cpu-oversubscription"])
    assert "64 threads in 4 processes share 8 cores" in said.because
    assert "OMP_NUM_THREADS=2" in said.advice
    many = judge(even(runqueue=0.4, runnable=20.0, threads=20, processes=20))
    assert "use 8 processes instead of 20" in many.advice
    assert judge(even(runqueue=0.17, runnable=9.0, threads=12)).rule == "balanced"
    pools = judge(even(runqueue=0.4, runnable=60.0, threads=160, processes=20))
    assert pools.advice == "cap the thread pool of each process: OMP_NUM_THREADS=1"


def test_what_nvidia_smi_would_have_said_stands_beside_the_truth():
    assert (
        "busy 17 % of the time (nvidia-smi would say 74 %)"
        in judge(CASES["simulation-bound-workers"]).because
    )


def test_a_crowded_machine_gives_no_estimate():
    crowded = judge(
        even(
            runqueue=0.6,
            runnable=8.0,
            threads=16,
            cores=2,
            cores_busy=1.8,
            other_cores=0.0,
        )
    )
    assert crowded.rule == "cpu-oversubscription" and crowded.speedup is None


def test_a_shared_machine_is_a_warning_above_the_verdict():
    shared = judge(even(runqueue=0.3, queued=0.3, other_cores=3.0, runnable=20.0))
    assert shared.rule == "balanced" and shared.certain
    assert (
        judge(
            replace(owning("inference"), runqueue=0.3, queued=0.3, other_cores=3.0)
        ).speedup
        is None
    )
    assert shared.warnings[0].startswith(
        "MACHINE SHARED: other programs used 3.0 of 8 cores"
    )
    # It stands above "name the parts" too, and waits are not sure any more.
    assert (
        judge(even(runqueue=0.9, queued=0.9, other_cores=3.0, operation={"": 1.0}))
        .warnings[0]
        .startswith("MACHINE SHARED")
    )
    assert not judge(
        even(blocked=workers, runqueue=0.3, queued=0.3, other_cores=3.0)
    ).certain


def test_a_pace_that_others_may_have_changed_is_no_drift() -> None:
    alike = "From second 9 to second 39 steps/s fell from 2122 to 1310: every operation changed alike."
    grew = "From hour 1 to hour 9 steps/s fell from 1200 to 700: replay grew from 5 % to 38 %."
    busy = {"queued": 0.5, "other_cores": 4.0}

    def warned(**changes: object) -> bool:
        return any("DRIFT" in warning for warning in judge(even(**changes)).warnings)

    assert warned(drift=alike) and warned(drift=grew) and warned(drift=grew, **busy)
    assert not warned(drift=alike, **busy)


def test_a_machine_is_shared_only_if_the_main_thread_waited_for_it():
    # Helper threads, the recorder's among them, may wait all the time: that slows nobody down.
    assert not judge(
        even(runqueue=0.94, queued=0.005, other_cores=3.0, runnable=1.2)
    ).warnings


def test_what_others_use_is_unknown_before_it_is_measured():
    unknown = even(queued=0.3, other_cores=None)
    assert not unknown.shared and unknown.idle_cores == 0


def test_work_that_may_be_a_wait_on_a_busy_machine_is_not_called_python() -> None:
    hidden = CASES["thin-shared"]
    said = judge(hidden)
    assert "12 % of each iteration waits, and 85 % wants a core" in said.because
    assert not said.certain and said.speedup is None
    quiet = judge(replace(hidden, queued=0.0, other_cores=0.0))
    assert quiet.rule == "python-glue"
