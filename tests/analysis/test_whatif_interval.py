"""The interval holds the error of the model, and says where nothing was measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from constructed import MS, Script, batches, crowd, lockstep

import cutaway
from cutaway.analysis.whatif import known_errors
from cutaway.analysis.whatif.changes import Cores, Elsewhere
from cutaway.analysis.whatif.graph import Graph, Key, Segment, Thread
from cutaway.analysis.whatif.items import PASS, RUN, Items
from cutaway.analysis.whatif.predict import MOST_DOUBT, WhatIf, Worth
from cutaway.analysis.whatif.words import parse
from cutaway.errors import CutawayError
from cutaway.machines import machine
from cutaway.reports import whatif
from cutaway.trace.writer import RunWriter

pytestmark = pytest.mark.core


def test_the_interval_holds_the_error_of_the_model(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(lockstep(tmp_path / "train.cutaway")))
    known.error = 0.03
    found = known.predict(parse("simulation=2x"), "simulation=2x")
    width = math.hypot(0.03, known_errors.HALF_WIDTHS["together"])
    assert found.most / found.speedup == pytest.approx(math.exp(width))
    assert found.speedup / found.least == pytest.approx(math.exp(width))


def varied(tmp_path: Path, shares: list[float], layer: str = "python") -> WhatIf:
    """A thread whose iterations take 10 and 30 ms in turn, with such a share of simulation in each."""
    keys = [Key(0, 0, name, layer) for name in ("simulation", "backpropagation")]
    seconds = [0.03 if number % 2 else 0.01 for number in range(len(shares))]
    rows: list[tuple[int, int, float]] = []
    for length, share in zip(seconds, shares, strict=True):
        rows += [(RUN, 0, share * length), (RUN, 1, (1 - share) * length), (PASS, 0, 1)]
    segment = Segment([Items.of(rows)], [], seconds)
    graph = Graph([Thread(0, "")], keys, [], [segment], 0, 2)
    run = cutaway.open(batches(tmp_path / "r.cutaway", 64))
    return WhatIf(run, graph)


def test_unlike_iterations_do_not_matter_if_a_change_does_the_same_to_all(
    tmp_path: Path,
) -> None:
    known = varied(tmp_path, [0.5] * 7)
    assert known.spread > MOST_DOUBT
    found = known.predict(parse("simulation=2x"), "simulation=2x")
    assert found.speedup == pytest.approx(4 / 3)
    assert found.recording == pytest.approx(0, abs=1e-6)


def test_a_run_that_changes_its_ways_predicts_nothing(tmp_path: Path) -> None:
    known = varied(tmp_path, [0.0] * 15 + [0.9] * 15)
    with pytest.raises(CutawayError, match="because parts of this run differ"):
        known.predict(parse("simulation=3x"), "simulation=3x")


def test_nobody_knows_whether_native_code_holds_the_interpreter_lock(
    tmp_path: Path,
) -> None:
    words = "overlap=update,rollout"
    # The update of one pass is beside the next rollout: 5 beside 15 ms and 15 beside 5 ms, of 40 ms.
    for layer, expected in (("python", 1.0), ("backend", 40 / 30)):
        known = varied(tmp_path / layer, [0.5] * 40, layer)
        found = known.predict(parse(words), words)
        assert found.speedup == pytest.approx(expected, rel=0.03)
    known = varied(tmp_path / "native", [0.5] * 40, "native")
    with pytest.raises(CutawayError, match="whether native code holds"):
        known.predict(parse(words), words)


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
    both = known.predict([Elsewhere(machine.load("dgx1")), Cores(4)], "")
    assert both.model == found.model
    assert "no prediction for another machine was ever compared" in found.assumes[-1]


def test_a_line_that_calls_everything_is_not_what_to_mend(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(lockstep(tmp_path / "train.cutaway")))
    rows = [Worth("line", "train.py:24", 0.97, 0.97, 33.0)]
    rows.append(Worth("operation", "simulation", 0.6, 0.6, 2.5))
    said = "\n".join(whatif.table(known, rows))
    assert "train.py:24" not in said
    assert said.endswith("simulation=2x")


def test_an_order_that_may_be_chance_says_so(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(lockstep(tmp_path / "train.cutaway")))
    rows = [Worth("operation", "simulation", 0.6, 0.6, 2.5)]
    assert "may be chance" not in "\n".join(whatif.table(known, rows))
    known.spread = 0.5
    assert "±50% only" in "\n".join(whatif.table(known, rows))


def test_a_change_that_may_gain_nothing_says_so(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(lockstep(tmp_path / "train.cutaway")))
    for word, close in (("simulation=4x", False), ("simulation=1.02x", True)):
        found = known.predict(parse(word), word)
        said = "\n".join(whatif.predictions(known, [found]))
        assert ("too close to call" in said) == close


def test_a_refusal_names_the_load(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(lockstep(tmp_path / "train.cutaway")))
    known.error = -0.13
    known.graph.notes.append("other programs used 1.8 cores meanwhile: and so on")
    with pytest.raises(CutawayError, match=r"-13% off \(other programs used 1.8 cores"):
        known.require()


def test_a_thread_alone_waits_for_a_core_behind_other_programs_only(
    tmp_path: Path,
) -> None:
    with RunWriter(tmp_path / "r.cutaway", command="train.py", cpus=2) as run:
        process = run.process(pid=1, name="train")
        main = Script(process, 1)
        for number in range(120):
            main.worked("simulation", 10 * MS)
            main.worked("backpropagation", 10 * MS)
            main.iteration(number)
            if number % 5 == 0:
                seen = {"1": [main.now * 6 // 10, main.now * 4 // 10]}
                process.log("sample", {"t": main.now, "threads": seen, "foreign": 1.5})
        process.exit(t=main.now, code=0)
    known = WhatIf(cutaway.open(tmp_path / "r.cutaway"))
    assert abs(known.error) < 0.03  # a sample at each end may lie outside
