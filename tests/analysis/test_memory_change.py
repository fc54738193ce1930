"""What one run keeps in memory and another does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.analysis.memory_change import memory_change
from cutaway.commands import main

PROGRAM = """\
import sys, time
import cutaway, numpy


def store(count):
    arrays = []
    for _ in range(count):
        arrays.append(numpy.ones(12_500))
    return arrays


time.sleep(1)  # what a library allocates right after it is loaded is not seen
kept = store(int(sys.argv[1]))
begin = time.monotonic()
while time.monotonic() - begin < 1.5:
    cutaway.iteration()
    time.sleep(0.05)
"""
FEW, MANY = 500, 1500  # arrays of 100 kB


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("change")
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    (folder / "a/train.py").write_text(PROGRAM)
    (folder / "b/train.py").write_text("# an edit moves lines\n" + PROGRAM)
    command = [sys.executable, "-m", "cutaway", "run", "-q", "--memory", "-o"]
    for name, count in (("a", FEW), ("b", MANY)):
        program = [str(folder / name / "train.py"), str(count)]
        run = [*command, str(folder / f"{name}.cutaway"), *program]
        subprocess.run(run, check=True, timeout=60)
    return folder


def test_what_b_keeps_more_is_told_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", str(folder / "a.cutaway"), str(folder / "b.cutaway")])
    sentence = next(
        line for line in capsys.readouterr().out.splitlines() if "keeps" in line
    )
    assert sentence.startswith("B keeps ") and " MB more than A (" in sentence
    assert "b/train.py:9" in sentence


def test_sizes_of_the_change(folder: Path) -> None:
    runs = [cutaway.open(folder / f"{name}.cutaway") for name in "ab"]
    found = memory_change(runs[:1], runs[1:])
    assert found is not None and found.beyond
    planted = (MANY - FEW) * 100_000
    assert abs(found.change - planted) < 0.05 * planted
    store = found.lines[0]
    assert (store["function"], store["line"]) == ("store", 9)
    assert abs(store["change"] - planted) < 0.15 * planted  # sampled: 2.5 % of each


def test_less_is_told_as_less_and_the_same_not_at_all(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = str(folder / "a.cutaway"), str(folder / "b.cutaway")
    main(["diff", b, a])
    assert " MB less than A (" in capsys.readouterr().out
    main(["diff", a, a])
    assert "keeps" not in capsys.readouterr().out


def test_the_change_is_there_for_scripts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", "--json", str(folder / "a.cutaway"), str(folder / "b.cutaway")])
    told = json.loads(capsys.readouterr().out)["memory"]
    assert told["change"] == told["b"] - told["a"] > 0
    assert told["lines"][0]["change"] == told["lines"][0]["b"] - told["lines"][0]["a"]


def test_runs_without_meters_say_nothing_of_memory(folder: Path) -> None:
    run = cutaway.open(folder / "a.cutaway")
    for process in run.trace.processes:
        process.log.samples.clear()
    assert memory_change([run], [cutaway.open(folder / "b.cutaway")]) is None
