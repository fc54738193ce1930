"""The interval holds the error of the model, and says where nothing was measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from constructed import batches, crowd, lockstep

import cutaway
from cutaway.analysis.whatif import known_errors
from cutaway.analysis.whatif.changes import Elsewhere, parse
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.balance import machine

pytestmark = pytest.mark.core


def test_the_interval_holds_the_error_of_the_model(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(lockstep(tmp_path / "train.cutaway")))
    known.spread = 0.03
    known.error = 0.0
    found = known.predict(parse("simulation=2x"), "simulation=2x")
    width = math.hypot(0.03, known_errors.HALF_WIDTHS["together"])
    assert found.most / found.speedup == pytest.approx(math.exp(width))
    assert found.speedup / found.least == pytest.approx(math.exp(width))


def test_kinds_of_changes(tmp_path: Path) -> None:
    many = WhatIf(cutaway.open(lockstep(tmp_path / "many.cutaway"))).graph
    one = WhatIf(cutaway.open(batches(tmp_path / "one.cutaway", 64))).graph
    words = ["update=2x", "cores=4", "envs=8", "actors=8", "overlap=update", "batch=8"]
    kinds = [known_errors.kind_of(parse(word)[0], many) for word in words]
    assert kinds == ["together", "cores", "structure", "structure", "overlap", "sizes"]
    assert known_errors.kind_of(parse("update=2x")[0], one) == "alone"


def test_what_was_never_measured_says_so(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(crowd(tmp_path / "r.cutaway", 8)))
    found = known.predict([Elsewhere(machine.load("dgx1"))], "--machine dgx1")
    assert found.model == max(known_errors.HALF_WIDTHS.values())
    assert "no prediction for another machine was ever compared" in found.assumes[-1]
