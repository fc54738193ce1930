"""The scripted agent of `benchmarks.agents`: the lines it looks for exist, and it recognises them in what the tool prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.agents import __main__ as walks
from benchmarks.agents.planted import CAUSES, lines
from benchmarks.verdicts import programs
from benchmarks.verdicts.declare import PROGRAMS

assert programs  # importing them declares them
WANTED = {("train.py", 7)}


@pytest.mark.parametrize("program", CAUSES)
def test_a_planted_line_is_in_the_source_of_a_planted_program(program: str) -> None:
    assert program in {one.name for one in PROGRAMS.values()}
    assert all(number > 0 for _, number in lines(program))


@pytest.mark.parametrize(
    ("said", "how"),
    [
        ("try: vectorise train.py:7, it is called often\nnext: cutaway show r", "try"),
        ("lines:\n  40 %  /a/train.py:3  f\n  30 %  /a/train.py:7  g", "row 2"),
        ("try: buy a machine\nlines:\n  40 %  /a/train.py:3  f", ""),
        (
            "\n".join(f"  {9 - i} %  /a/train.py:{4 + i}  f" for i in range(4)),
            "",
        ),
    ],
)
def test_a_line_is_reached_by_the_advice_or_in_the_first_three_rows(
    said: str, how: str
) -> None:
    assert walks.reached(said, WANTED) == how


def test_what_is_known_is_not_walked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    walked: list[tuple[str, str]] = []

    def walk(program: str, reader: str, seconds: float, folder: Path) -> walks.Walk:
        walked.append((program, reader))
        return walks.Walk(program, reader, 1, "long-tail", "try", 0.5)

    monkeypatch.setattr(walks, "walk", walk)
    kept = tmp_path / "found.json"
    monkeypatch.setattr("sys.argv", ["agents", "--json", str(kept)])
    assert walks.main() == 0
    assert len(walked) == 2 * len(CAUSES) == len(json.loads(kept.read_text()))
    assert walks.main() == 0 and len(walked) == 2 * len(CAUSES)
    said = capsys.readouterr().out
    assert "The load average was 0.5 to 0.5" in said
    assert f"{len(CAUSES)} of {len(CAUSES)}, 1.0 commands" in said
    monkeypatch.setattr("sys.argv", ["agents", "long-tail", "--json", str(kept)])
    assert walks.main() == 0
    assert walked[-2:] == [("long-tail", "agent"), ("long-tail", "person")]
