"""Every rule of the verdict table speaks for the evidence it was made for, and for no thinner one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutaway.reports.evidence import Blocked, Evidence
from cutaway.reports.verdict import RULES, judge

pytestmark = pytest.mark.core


def even(**changes: object) -> Evidence:
    """A run without a bottleneck, changed in the fields a test is about."""
    base = Evidence(
        seconds=60.0,
        units=100,
        unit_ms=600.0,
        operation={"simulation": 0.35, "inference": 0.3, "backpropagation": 0.3, "": 0.05},
        layer={"python": 0.35, "simulator": 0.2, "backend": 0.45},
        cell={
            ("simulation", "python"): 0.15,
            ("simulation", "simulator"): 0.2,
            ("inference", "backend"): 0.2,
            ("inference", "python"): 0.1,
            ("backpropagation", "backend"): 0.25,
            ("backpropagation", "python"): 0.05,
            ("", "python"): 0.05,
        },
        threads=4,
        processes=1,
        cores=8,
        cores_busy=2.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def owning(operation: str, share: float = 0.6, layer: str = "backend") -> Evidence:
    rest = 1 - share
    return even(
        operation={operation: share, "other": rest / 2, "more": rest / 2},
        layer={layer: share, "python": rest},
        cell={(operation, layer): share, ("other", "python"): rest / 2, ("more", "python"): rest / 2},
    )


workers = Blocked("env worker", 6, 0.58, "simulation")
CASES = {
    "thin-time": even(seconds=0.05),
    "thin-operations": even(operation={"": 0.8, "simulation": 0.2}),
    "machine-shared": even(runqueue=0.3, foreign=3.0, runnable=4.0),
    "cpu-oversubscription": even(runqueue=0.4, runnable=20.0, threads=64, processes=4),
    "transfer-bound": even(copies=0.4, device_busy=0.5),
    "accelerator-bound": even(gpu_bound=0.6, device_busy=0.8, nvidia_smi=1.0),
    "launch-bound": even(
        layer={"accelerator_api": 0.4, "python": 0.6},
        cell={("inference", "accelerator_api"): 0.4},
        device_busy=0.1,
    ),
    "straggler": even(blocked=replace(workers, slowest="env-09", slowest_ratio=1.8)),
    "simulation-bound-workers": even(blocked=workers, device_busy=0.17, nvidia_smi=0.74),
    "inference-bound-server": even(blocked=Blocked("inference", 1, 0.5, "inference")),
    "waiting": even(
        layer={"wait": 0.6, "python": 0.4}, cell={("sync", "wait"): 0.6, ("sync", "python"): 0.4}
    ),
    "python-glue": even(layer={"python": 0.7, "backend": 0.3}, cell={("simulation", "python"): 0.7}),
    "simulation-bound": owning("simulation", layer="simulator"),
    "inference-bound": owning("inference"),
    "backpropagation-bound": owning("backpropagation"),
    "replay-bound": owning("replay"),
    "sync-bound": owning("sync"),
    "evaluation-bound": owning("evaluation"),
    "checkpoint-bound": owning("checkpoint"),
    "operation-bound": owning("tree search"),
    "balanced": even(),
}


def test_every_rule_has_a_case():
    assert [rule.name for rule in RULES] == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_rule_speaks(name: str):
    said = judge(CASES[name])
    assert said.rule == name
    assert said.because.endswith(".") and (said.because[0].isupper() or said.because[0].isdigit())
    assert said.advice


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("thin")])
def test_thin_evidence_silences_every_rule(name: str):
    short = judge(replace(CASES[name], seconds=0.03))
    few = judge(replace(CASES[name], units=2))
    assert (short.label, few.label) == ("NO VERDICT", "NO VERDICT")
    assert not short.certain and short.speedup is None and short.then == ""
    assert "too thin" in short.because


def test_many_iterations_make_up_for_a_short_recording():
    assert judge(even(seconds=0.5, units=5)).rule == "balanced"
    assert judge(even(seconds=0.5, units=4)).rule == "thin-time"
    assert judge(even(seconds=0.5, unit="run", units=1)).rule == "thin-time"
    assert judge(even(seconds=2.0, unit="run", units=1)).rule == "balanced"


def test_a_trace_of_a_device_alone_has_no_verdict():
    said = judge(Evidence(seconds=5.0, unit="run", units=1))
    assert said.rule == "thin-operations" and said.because == "No time of the program itself was recorded."


def test_the_gain_is_amdahl_on_the_measured_share():
    said = judge(owning("backpropagation", 0.6))
    assert said.speedup == pytest.approx(1 / (1 - 0.3))
    assert said.expected == "estimate: +43 % throughput if that took half the time"


def test_more_workers_gain_only_what_idle_cores_allow():
    idle = judge(even(blocked=workers, cores=8, cores_busy=6.0))
    full = judge(even(blocked=workers, cores=8, cores_busy=7.9))
    assert idle.speedup == pytest.approx(1 / (1 - 0.58 * (1 - 6 / 8)))
    assert full.speedup is None and full.expected == ""


def test_oversubscription_names_threads_processes_and_cores():
    said = judge(CASES["cpu-oversubscription"])
    assert "64 threads in 4 processes share 8 cores" in said.because
    assert "OMP_NUM_THREADS=2" in said.advice
    many = judge(even(runqueue=0.4, runnable=20.0, threads=20, processes=20))
    assert "use 8 processes instead of 20" in many.advice


def test_what_nvidia_smi_would_have_said_stands_beside_the_truth():
    assert (
        "busy 17 % of the time (nvidia-smi would say 74 %)"
        in judge(CASES["simulation-bound-workers"]).because
    )


def test_the_next_thing_is_another_operation():
    said = judge(CASES["simulation-bound"])
    assert said.then == "120 ms of each iteration is other in Python."
