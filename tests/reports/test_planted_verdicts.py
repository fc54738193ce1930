"""The programs with a planted cause declare what can be checked, and the check can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.verdicts import programs
from benchmarks.verdicts.__main__ import Tried, mistakes
from benchmarks.verdicts.declare import CPU, PROGRAMS, WALL, Program
from benchmarks.verdicts.programs.__main__ import arguments

from cutaway.reports.digest import Verdict
from cutaway.reports.rules import RULES

assert programs  # importing them declares them
KNOWN = {rule.name for rule in RULES}
EACH = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())


def test_there_are_enough_programs_and_they_plant_different_causes() -> None:
    assert len(PROGRAMS) >= 24
    assert len({rule for program in PROGRAMS.values() for rule in program.gives}) >= 15


@EACH
def test_a_program_names_rules_that_exist_and_none_as_both_right_and_wrong(
    program: Program,
) -> None:
    assert program.gives and program.gives <= KNOWN
    assert program.never and program.never <= KNOWN
    assert not program.gives & program.never
    assert not set(program.says) & set(program.silent_on)
    assert program.clock in (CPU, WALL)


@EACH
def test_a_program_takes_its_own_flag_and_no_other(program: Program) -> None:
    assert not arguments([program.name, "1"]).applied
    if program.flag:
        assert arguments([program.name, "1", program.flag]).applied
    with pytest.raises(SystemExit):
        arguments([program.name, "1", "--no-such-flag"])


def said(rule: str, advice: str) -> Verdict:
    return Verdict(rule, rule.upper(), "Because.", advice, None, "", "", "line")


def test_a_wrong_rule_and_wrong_words_are_found() -> None:
    program = PROGRAMS["off-policy-dqn"]
    assert (
        mistakes(program, said("backpropagation-bound", "lower gradient_steps")) == []
    )
    assert mistakes(program, said("replay-bound", "lower n_epochs")) == [
        "given replay-bound",
        "must never be replay-bound",
        "does not say “gradient_steps”",
        "says “n_epochs”",
    ]


def test_an_estimate_may_be_off_by_a_third_and_a_bound_never() -> None:
    guess = Tried("waiting", "waiting", "", 0.6, False, gain=0.5)
    assert (
        guess.fine
        and not replace(guess, estimate=0.7).fine
        and not replace(guess, estimate=0.3).fine
    )
    bound = replace(guess, at_most=True, estimate=2.0)
    assert bound.fine and not replace(bound, estimate=0.45).fine
    assert not replace(bound, wrong="given balanced").fine
    assert not replace(guess, estimate=None, gain=-0.2).fine


def test_no_verdict_on_a_shared_machine_is_neither_right_nor_wrong() -> None:
    program = PROGRAMS["waiting"]
    unsure = replace(said("thin-shared", ""), label="NO VERDICT")
    shared = replace(unsure, warnings=("MACHINE SHARED: other programs.",))
    assert mistakes(program, unsure) and not mistakes(program, shared)
    wrong = replace(shared, rule="python-glue", label="PYTHON-BOUND")
    assert "must never be python-glue" in mistakes(program, wrong)
