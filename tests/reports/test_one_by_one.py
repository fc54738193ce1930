"""Which updates handle the steps of a rollout one after the other: only they are told to stack them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cutaway.reports.digest import CallSite
from cutaway.reports.family import one_by_one

pytestmark = pytest.mark.core


def digest(steps: int, updates: int, losses: int) -> Any:
    """So many steps, backward passes, and calls at the line of the loss."""
    calls = {
        "_EngineBase.run_backward": (130, updates),
        "smooth_l1_loss": (121, losses),
    }
    spots = [
        CallSite("backpropagation", "backend", name, "/rl/train.py", line, "f", 1, n, n)
        for name, (line, n) in calls.items()
    ]
    return SimpleNamespace(
        code=SimpleNamespace(callsites=spots), pace=SimpleNamespace(steps=steps)
    )


def test_a_loss_for_each_step_of_an_episode() -> None:
    found = one_by_one(digest(steps=67_000, updates=430, losses=66_000))
    assert found
    assert found.line == "rl/train.py:121"
    assert found.steps == pytest.approx(67_000 / 430)


def test_minibatches_are_not_one_by_one() -> None:
    assert one_by_one(digest(steps=40_000, updates=1_200, losses=7_200)) is None


def test_an_update_for_each_step_is_not_one_by_one() -> None:
    assert one_by_one(digest(steps=1_400, updates=4_300, losses=43_000)) is None


def test_without_updates_nothing_is_said() -> None:
    assert one_by_one(digest(steps=1_000, updates=0, losses=1_000)) is None


def test_the_parameters_of_an_optimizer_are_no_steps() -> None:
    seen = digest(steps=59_000, updates=1_800, losses=55_000)
    radam = "/lib/python3.11/site-packages/torch/optim/radam.py"
    seen.code.callsites[1] = replace(seen.code.callsites[1], file=radam)
    assert one_by_one(seen) is None


def test_returns_computed_step_by_step_are_not_why_an_update_is_slow() -> None:
    seen = digest(steps=59_000, updates=1_800, losses=44_000)
    network = replace(
        seen.code.callsites[1], function="linear", line=140, ns=900_000, count=5_400
    )
    seen.code.callsites.append(network)
    assert one_by_one(seen) is None
