"""TRL with a vLLM server: what the trainer does, what the engine does in its own process, and the tokens both agree on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded import Seen, record
from recordings import QUIET, engine, prepare, told

import cutaway

STEPS, AT_ONCE = 4, 8


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Seen]]]:  # fmt: skip
    folder = tmp_path_factory.mktemp("served")
    prepare(folder, "served.py", "serving.py", "transfer.py")
    yield folder, record(folder, "served.py", env=QUIET)


def test_tokens_are_those_of_the_server_and_of_the_trainer(
    recorded: tuple[Path, list[Seen]],
) -> None:
    folder, _ = recorded
    run = cutaway.open(folder / "run.cutaway")
    counted = told(folder)
    assert run.tokens() == counted["server tokens"] == counted["completion tokens"] > 0


def test_the_trainer_has_its_phases(recorded: tuple[Path, list[Seen]]) -> None:
    folder, seen = recorded
    (trainer,) = [one for one in seen if one.iterations]
    assert told(folder)["steps"] == trainer.iterations == STEPS
    assert trainer.role == "learner"
    for operation in ("generation", "reward"):
        assert trainer.inside[operation, "backpropagation"] == STEPS, operation
    assert trainer.operations["reference"] >= STEPS
    assert trainer.operations["decode"] == 0
    for step in ("start", "finish"):
        assert trainer.operations[f"sync: {step}"] == STEPS, step


def test_the_engine_decodes_and_takes_weights_in_a_process_of_its_own(
    recorded: tuple[Path, list[Seen]],
) -> None:
    folder, seen = recorded
    (number,) = engine(folder / "run.cutaway")
    assert seen[number].iterations == 0
    # vLLM's engine schedules in one process, its worker computes in another one.
    (worker,) = [one for one in seen if one.name.startswith("VllmWorker")]
    for own in (seen[number], worker):
        assert own.operations["prefill"] >= STEPS
        assert own.operations["decode"] > 4 * STEPS
    for step in ("start", "update", "finish"):
        assert worker.operations[f"sync: {step}"] == STEPS, step
    assert told(folder)["difference"] < 0.05
    run = cutaway.open(folder / "run.cutaway")
    sequences = run.gauges().where(name="sequences")["value"].tolist()
    assert max(sequences) == AT_ONCE
