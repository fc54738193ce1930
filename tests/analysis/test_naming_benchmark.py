"""What benchmarks.naming calls unnamed, wrong and a failure."""

from __future__ import annotations

import pytest
from benchmarks.naming import report, samples
from benchmarks.naming.compare import Process, Result

pytestmark = pytest.mark.core

GOOD = Process(
    "train",
    {
        ("inference", "inference"): 48,
        ("inference", ""): 2,
        ("simulation", "simulation"): 50,
    },
)
SWAPPED = Process(
    "train",
    {
        ("inference", "inference"): 40,
        ("inference", "replay"): 6,
        ("replay", "inference"): 6,
        ("", "simulation"): 8,
        ("simulation", "simulation"): 28,
        ("simulation", ""): 12,
    },
)


def test_time_without_a_name_and_time_with_a_wrong_one_are_told_apart() -> None:
    assert GOOD.unnamed == 0.02
    assert GOOD.misattributed == 0
    assert SWAPPED.unnamed == 0.12
    assert SWAPPED.misattributed == 0.20


def test_a_program_fails_by_unnamed_time_or_by_shares_that_are_off() -> None:
    assert GOOD.failures() == []
    assert SWAPPED.failures() == [
        "12% unnamed"
    ]  # mistakes that cancel out leave the shares right
    off = Process(
        "train", {("inference", "simulation"): 6, ("simulation", "simulation"): 94}
    )
    assert off.failures() == ["inference -6 points", "simulation +6 points"]


def test_processes_are_told_apart_where_there_are_several() -> None:
    assert Result("p", "f", [GOOD, SWAPPED]).failures() == ["train: 12% unnamed"]
    assert Result("p", "f", [], error="failed: oh dear").failures() == [
        "failed: oh dear"
    ]


def test_the_tables_stand_between_the_marks_of_the_page_and_nothing_else_changes() -> (
    None
):
    page = f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nThe end.\n"
    once = report.put_into(page, [Result("prog", "frame", [SWAPPED])])
    assert (
        once.startswith("# Title\n")
        and once.endswith("\n\nThe end.\n")
        and "old" not in once
    )
    assert (
        "| prog | frame | 12.0% | 20.0% | simulation -4.0 | **12% unnamed** |" in once
    )
    assert report.put_into(once, [Result("prog", "frame", [SWAPPED])]) == once
    with pytest.raises(SystemExit, match="put them where the tables belong"):
        report.put_into("# Title\n", [])


STACKS = """\
process 7:"python train.py";thread (7): MainThread;<module> (/x/loop.py:9);act (/x/agent.py:3) 4
process 7:"python train.py";thread (7): MainThread;<module> (/x/loop.py:12) 3
process 7:"python train.py";thread (7): MainThread;<module> (/x/loop.py:30);idle (/x/agent.py:8) 5
process 7:"python train.py";process 8:"worker";thread (9): reader;run (/x/worlds/maze.py:2);step (/x/worlds/maze.py:5) 2
"""
TABLE = {
    "agent.py:act": "inference",
    "agent.py:idle": "",
    "loop.py:10-20": "backpropagation",
    "worlds/*:step": "simulation",
}


def test_samples_are_classified_by_functions_lines_and_folders_of_each_thread() -> None:
    assert samples.classified(STACKS, TABLE) == {
        (7, 7): {"inference": 4, "backpropagation": 3},
        (8, 9): {"simulation": 2},
    }
