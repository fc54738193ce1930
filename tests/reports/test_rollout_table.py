"""What a language model generated and trained on, iteration by iteration: the table, its JSON, the brief, the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.commands import main
from cutaway.reports.brief import brief, lines
from cutaway.reports.digests import digest_of, open_run
from cutaway.reports.page.data import page_data

from .runs import MS, language, single

pytestmark = pytest.mark.core

# 200 iterations of a millisecond: the log is written ten times a second, and each token still counts where it was made.
TOKENS = """
import time
import cutaway
from cutaway.record import gauges

for number in range(200):
    cutaway.iteration()
    gauges.count_tokens(1 + number % 3)
    time.sleep(0.001)
cutaway.iteration()
"""


def test_each_iteration_has_what_it_generated_and_used(tmp_path: Path) -> None:
    found = cutaway.open(language(tmp_path / "r.cutaway")).generated()
    assert found["iteration"].tolist() == list(range(1, 21))
    assert set(found["tokens"].tolist()) == {200}
    assert set(found["decoding_ns"].tolist()) == {60 * MS}
    assert set(found["tail_ns"].tolist()) == {45 * MS}
    assert set(found["peak"].tolist()) == {8.0}
    assert found["mean"].tolist() == [pytest.approx(2.75)] * 20
    assert set(found["trained"].tolist()) == {8.0}
    assert set(found["discarded"].tolist()) == {1.0}
    assert found["staleness"].tolist()[1:] == [2.0] * 19
    # An odd iteration begins with one sample ready, which the trainer takes after 70 ms.
    assert found["queue"].tolist()[1:5] == pytest.approx([0.3, 0.7, 0.3, 0.7])


def test_its_tokens_add_up_to_those_of_the_run(tmp_path: Path) -> None:
    run = cutaway.open(language(tmp_path / "r.cutaway"))
    for part in (run, run.steady()):
        assert int(part.generated()["tokens"].sum()) == part.tokens() > 0


def test_tokens_belong_to_the_iteration_that_made_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TOKENS)
    command = [sys.executable, "-m", "cutaway", "run", "-o", "r.cutaway", "train.py"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60, capture_output=True)
    run = cutaway.open(tmp_path / "r.cutaway")
    found = run.generated()
    expected = [1 + (number - 1) % 3 for number in found["iteration"].tolist()]
    assert found["tokens"].tolist() == expected and len(expected) == 200
    assert run.tokens() == sum(expected)
    for name in ("peak", "mean"):  # nobody said how many sequences there were
        assert all(value != value for value in found[name].tolist())


def test_a_run_that_generates_nothing_has_no_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = single(tmp_path / "r.cutaway")
    assert len(cutaway.open(path).generated()) == 0
    assert main(["show", str(path), "--by", "rollout"]) == 0
    assert "cutaway.gauge()" in capsys.readouterr().out


def test_show_prints_the_table_and_its_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(language(tmp_path / "r.cutaway"))
    assert main(["show", path, "--by", "rollout"]) == 0
    said = capsys.readouterr().out.splitlines()
    head, first = said[1:3]
    # The table names no line, so it sends its reader on to the one that does.
    assert said[-1] == f"why:  cutaway show {path} --by line"
    titles = "iteration took tokens a second most mean tail wait queue age used dropped"
    assert head.split() == titles.split()
    assert first.split()[1:5] == ["100", "ms", "200", "2000"] and "75 %" in first
    assert main(["show", path, "--by", "rollout", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[0]["tail_share"] == 0.75 and rows[0]["waiting"] is None


def test_the_verdict_leads_to_the_table_and_the_picture(tmp_path: Path) -> None:
    run = open_run(language(tmp_path / "r.cutaway"))
    found = brief(run, digest_of(run))
    assert found["verdict"]["rule"] == "long-tail"
    assert found["next"][0]["command"].endswith("--by rollout")
    assert found["rollouts"]["most_sequences"] == 8.0
    assert found["rollouts"]["tail_share"] == 0.75
    (said,) = [line for line in lines(found) if line.startswith("rollouts: ")]
    assert "trained on 2.0 policy versions after sampling" in said
    data = page_data(run)
    assert data["verdict"]["picture"] == data["verdict"]["look"] == "tail"


def test_the_brief_of_another_run_says_nothing_of_rollouts(tmp_path: Path) -> None:
    run = open_run(single(tmp_path / "r.cutaway"))
    found = brief(run, digest_of(run))
    assert found["rollouts"] is None
    assert not any(line.startswith("rollouts:") for line in lines(found))
