"""Every rule of the verdict table speaks for the evidence it was made for, and for no thinner one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutaway.reports.evidence import Evidence
from cutaway.reports.rules import RULES
from cutaway.reports.verdict import judge

from .made_evidence import CASES, even, owning

pytestmark = pytest.mark.core


def test_every_rule_has_a_case():
    assert [rule.name for rule in RULES] == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_rule_speaks(name: str):
    said = judge(CASES[name])
    assert said.rule == name
    assert said.because.endswith(".") and (
        said.because[0].isupper() or said.because[0].isdigit()
    )
    assert said.advice


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in CASES
        if not n.startswith(("thin", "hang", "one-jitted", "counters-only"))
    ],
)
def test_thin_evidence_silences_every_rule(name: str):
    short = judge(replace(CASES[name], seconds=0.03))
    few = judge(replace(CASES[name], units=2))
    assert (short.label, few.label) == ("NO VERDICT", "NO VERDICT")
    assert not short.certain and short.speedup is None and short.then == ""
    assert "too little" in short.because


def test_many_iterations_make_up_for_a_short_recording():
    assert judge(even(seconds=0.5, units=5)).rule == "balanced"
    assert judge(even(seconds=0.5, units=4)).rule == "thin-time"
    assert judge(even(seconds=0.5, unit="run", units=1)).rule == "thin-time"
    assert judge(even(seconds=2.0, unit="run", units=1)).rule == "balanced"


def test_a_trace_of_a_device_alone_has_no_verdict():
    said = judge(Evidence(seconds=5.0, unit="run", units=1))
    assert (
        said.rule == "thin-operations"
        and said.because == "No time on the CPU was recorded."
    )


def test_the_gain_is_amdahl_on_the_measured_share():
    said = judge(owning("backpropagation", 0.6))
    assert said.speedup == pytest.approx(1 / (1 - 0.3))
    assert said.expected == "estimate: +43 % throughput if that took half the time"


def test_the_next_thing_is_another_operation():
    said = judge(CASES["simulation-bound"])
    assert said.then == "120 ms of each iteration is other in Python."


def test_a_failure_comes_first():
    said = judge(
        even(
            failure="The program failed with exit code 3.",
            runqueue=0.3,
            queued=0.3,
            other_cores=3.0,
        )
    )
    assert (
        said.warnings[0] == "The program failed with exit code 3."
        and len(said.warnings) == 2
    )


def test_unnamed_time_is_said_and_an_unnamed_half_is_never_balanced():
    half = judge(CASES["unnamed"])
    assert half.label != "BALANCED" and not half.certain
    part = judge(
        even(
            operation={"": 0.3, "simulation": 0.5, "inference": 0.2},
            lines={"": "rl/train.py:9"},
        )
    )
    assert part.rule == "simulation-bound"
    assert part.warnings == (
        "30 % of each iteration has no name; the verdict is about the rest.",
    )
    assert judge(even()).warnings == ()


def test_what_comes_next_is_not_what_the_verdict_is_about():
    assert "my own part" not in judge(CASES["operation-bound"]).then


def test_a_handful_of_steps_is_no_evidence():
    assert judge(even(unit="step", units=5, seconds=2.0)).rule == "thin-time"
    assert judge(even(unit="step", units=5000, seconds=2.0)).rule == "balanced"


def test_too_little_is_said_in_readable_units() -> None:
    said = judge(even(seconds=222.0, units=1))
    assert said.because.startswith(
        "Only 3m42s and 1 iteration of steady state recorded"
    )


def test_memory_that_only_imports_took_is_no_alarm() -> None:
    said = ("MEMORY GROWS: train by 40 GB an hour.", "MEMORY PEAK: the run had 9 GB.")
    failed = judge(replace(CASES["thin-failed"], memory=said)).warnings
    assert said[0] not in failed and said[1] in failed
    ran = replace(CASES["simulation-bound"], memory=said)
    assert {*said} <= {*judge(ran).warnings}
