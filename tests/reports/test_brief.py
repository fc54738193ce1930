"""`cutaway show --brief`: short, plain, the same as its JSON, and what it tells you to run can be run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutaway.calibration.costs import Cost, Costs
from cutaway.commands import build_parser, main
from cutaway.reports import digests
from cutaway.reports.brief import MOST_LINES, SCHEMA, brief, lines, schema
from cutaway.reports.rules import RULES

from .runs import crowd, single

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.core


def show(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert main(["show", str(path), "--brief", *options]) == 0
    return capsys.readouterr().out


def found(path: Path, costs: Costs | None = None) -> dict[str, Any]:
    run = digests.open_run(path)
    run.costs = costs
    return brief(run, digests.digest_of(run))


def test_the_brief_holds_the_known_figures_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a run of 100 ms iterations: 60 simulation, 20 backpropagation, 15 inference.
    text = show(capsys, single(tmp_path / "r.cutaway"))
    said = text.splitlines()
    assert said[0] == f"schema: {SCHEMA}" and len(said) <= MOST_LINES and text.isascii()
    assert "rule: simulation-bound" in said and "certain: yes" in said
    assert (
        "  simulation: 60 %, 60 ms per iteration (no interval): 40 % simulator, 20 % python"
        in said
    )
    assert any(
        line.startswith("  40 % (no interval)  /data/train.py:70  loop in simulation")
        for line in said
    )
    assert "rates: 100 ms per iteration, 80 steps/s, 0.9 of 2 cores busy" in said


def test_the_same_run_gives_the_same_brief(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = crowd(tmp_path / "r.cutaway", workers=6)
    assert show(capsys, path) == show(capsys, path)
    assert (
        lines(json.loads(show(capsys, path, "--json")))
        == show(capsys, path).splitlines()
    )


def test_times_have_the_interval_of_the_correction(tmp_path: Path) -> None:
    # Given 19 iterations with one native call of 1000 to 1500 ns too much in each operation.
    costs = Costs(inside={"call": Cost(1250.0, 1000.0, 1500.0)})
    row = found(single(tmp_path / "r.cutaway"), costs)["operations"][0]
    low, high = row["interval_ms"]
    assert row["operation"] == "simulation" and low < row["ms"] < high
    assert high - low == pytest.approx(500e-6, rel=0.1)


def test_workers_that_are_waited_for_have_their_lines(tmp_path: Path) -> None:
    data = found(crowd(tmp_path / "r.cutaway", workers=6))
    assert data["verdict"]["rule"] == "simulation-bound-workers"
    assert [row["line"] for row in data["worker_lines"]] == [4]
    assert (
        data["worker_lines"][0]["file"] == "worker.py"
        and data["waits"][0]["operation"] == "simulation"
    )


def test_the_schema_of_the_package_is_the_one_in_the_docs() -> None:
    number = SCHEMA.rpartition("/")[2]
    published = json.loads(
        (DOCS / "schemas" / f"brief-{number}.json").read_text(encoding="utf-8")
    )
    assert published == schema() and schema()["properties"]["schema"]["const"] == SCHEMA


def test_every_rule_has_an_id_that_the_schema_allows() -> None:
    import re

    pattern = schema()["properties"]["verdict"]["properties"]["rule"]["pattern"]
    assert [rule.name for rule in RULES if not re.search(pattern, rule.name)] == []


def test_sixty_lines_are_enough_for_any_run(tmp_path: Path) -> None:
    # Given a run with more of everything than fits, and names that could steer a terminal.
    run = digests.open_run(crowd(tmp_path / "r.cutaway", workers=6))
    digest = digests.digest_of(run)
    cells = tuple(
        replace(digest.spent.cells[0], operation=f"part\x1b[31m{i}") for i in range(40)
    )
    warnings = tuple(f"warning {i}\nand more" for i in range(30))
    waits = tuple(replace(digest.waits[0], partner=f"peer {i}") for i in range(30))
    spent = replace(digest.spent, cells=cells)
    trust = replace(digest.trust, notes=warnings)
    crowded = replace(digest, spent=spent, trust=trust, waits=waits)
    crowded = replace(crowded, verdict=replace(digest.verdict, warnings=warnings))
    out = lines(brief(run, crowded))
    assert len(out) <= MOST_LINES and all(
        line.isprintable() and line.isascii() for line in out
    )
    assert any("55 more notes" in line for line in out)


def test_what_comes_next_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = found(single(tmp_path / "my run.cutaway"))
    commands = [shlex.split(step["command"]) for step in data["next"]]
    assert [words[:2] for words in commands] == [
        ["cutaway", verb] for verb in ("show", "run", "diff")
    ]
    for words in commands:
        build_parser(words[1:]).parse_args(words[1:])
    assert main(commands[0][1:]) == 0
    assert (
        commands[2][2:] == ["my run.cutaway", "my run-2.cutaway"]
        and commands[1][3] == "my run-2.cutaway"
    )


def test_brief_is_a_view_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = single(tmp_path / "r.cutaway")
    assert main(["show", str(path), "--brief", "--by", "line"]) == 2
    assert "--brief" in capsys.readouterr().err
