"""TRL with vLLM in its own process: the phases of each step, the tokens, the weights, the sequences that are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded import Seen, record
from recorded import cutaway as command
from recordings import QUIET, prepare, told

import cutaway

STEPS, AT_ONCE = 4, 8


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Seen]]:
    folder = tmp_path_factory.mktemp("colocate")
    prepare(folder, "colocate.py")
    seen = record(folder, "colocate.py", env=QUIET)
    yield folder, next(one for one in seen if one.iterations)


def test_tokens_are_those_that_trl_got(recorded: tuple[Path, Seen]) -> None:
    folder, _ = recorded
    run = cutaway.open(folder / "run.cutaway")
    assert run.tokens() == told(folder)["completion tokens"] > 0
    assert int(run.generated()["tokens"].sum()) == run.tokens()


def test_every_phase_of_a_step_has_its_name(recorded: tuple[Path, Seen]) -> None:
    folder, seen = recorded
    assert told(folder)["steps"] == seen.iterations == STEPS
    assert seen.role == "learner"
    assert seen.inside["generation", "backpropagation"] == STEPS
    assert seen.inside["reward", "backpropagation"] == STEPS
    # Of the reference model, and of the policy that sampled.
    assert seen.inside["reference", "backpropagation"] >= STEPS
    assert seen.operations["inference"] == 0
    # A batch is read once and then decoded token after token.
    assert seen.operations["prefill"] >= STEPS
    assert seen.operations["decode"] > 4 * seen.operations["prefill"]
    assert seen.inside["decode", "generation"] == seen.operations["decode"]


def test_weights_are_sent_after_each_update(recorded: tuple[Path, Seen]) -> None:
    folder, seen = recorded
    assert told(folder)["difference"] < 0.05
    run = cutaway.open(folder / "run.cutaway")
    versions = run.gauges().where(name="policy version")["value"].tolist()
    assert versions == list(range(1, len(versions) + 1))
    # The models that the trainer makes at its beginning copy weights, too.
    sent = seen.operations["sync"] - seen.inside["sync", ""]
    assert sent == len(versions) == STEPS


def test_the_engine_told_its_batch_and_its_cache(recorded: tuple[Path, Seen]) -> None:
    folder, _ = recorded
    run = cutaway.open(folder / "run.cutaway")
    sequences = run.gauges().where(name="sequences")["value"].tolist()
    assert max(sequences) == AT_ONCE and sequences[-1] == 0
    # VLLM_CPU_KVCACHE_SPACE is in GiB; the cache is whole blocks of it.
    cache = run.gauges().where(name="KV cache")["value"].tolist()
    assert len(cache) == 1 and 0.9 * 2**30 < cache[0] <= 2**30


def test_the_reports_speak_of_it(recorded: tuple[Path, Seen]) -> None:
    folder, _ = recorded
    said = command("show", "run.cutaway", cwd=folder).stdout
    assert "rollouts:" in said and "tokens" in said
    table = command("show", "run.cutaway", "--by", "rollout", cwd=folder).stdout
    assert str(AT_ONCE) in table
