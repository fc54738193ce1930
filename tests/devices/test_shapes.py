"""Input shapes of operators: recorded live, taken from the program's own profile, imported; and the stack made of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device_runs import HERE, MAIN, record
from traces import ROOT

from cutaway.trace.reader import read_run

PROGRAM = str(HERE / "programs/torch_shapes.py")
BERT = ROOT / "tests/data/gemm/tl_h100_bert_small.json.gz"


def command(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *words],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def stack(path: Path, gpu: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        command("balance", "kernels", str(path), "--gpu", gpu, "--json")
    )
    return found


def operators(run: Path) -> list[dict[str, Any]]:
    (process,) = read_run(run).processes
    return [entry for entry in process.log.others if entry["k"] == "operator"]


@pytest.mark.parametrize(
    "words", [("--shapes",), ("own",)], ids=["windows", "own profiler"]
)
def test_shapes_of_a_live_program(
    tmp_path: Path, kineto_device: str, words: tuple[str, ...]
) -> None:
    run = tmp_path / "s.cutaway"
    options = [word for word in words if word.startswith("--")]
    rest = [word for word in words if not word.startswith("--")]
    done = record(run, "--collector", "kineto", *options, PROGRAM, kineto_device, *rest)
    assert done.returncode == 0, done.stderr
    (entry,) = operators(run)
    assert (entry["name"], entry["dims"]) == ("aten::mm", [[64, 32], [32, 16]])
    assert [len(call) for call in entry["calls"]] == [1, 1, 1]
    found = stack(run, "v100")
    assert 0.5 < found["coverage"] < 1, "all but the kernel that no operator launched"
    assert found["shares"]["math"] > 0


def test_without_being_asked_for_no_shapes_are_taken(
    tmp_path: Path, kineto_device: str
) -> None:
    run = tmp_path / "s.cutaway"
    done = record(run, "--collector", "kineto", PROGRAM, kineto_device)
    assert done.returncode == 0, done.stderr
    assert operators(run) == []
    printed = command("balance", "kernels", str(run), "--gpu", "v100")
    assert "0% of that time is known" in printed and "--shapes" in printed


def test_an_imported_run_gives_the_stack_of_its_trace(tmp_path: Path) -> None:
    run = tmp_path / "i.cutaway"
    command("import", str(BERT), "-o", str(run))
    mine, direct = stack(run, "h100"), stack(BERT, "h100")
    assert mine["total_ns"] == direct["total_ns"]
    assert (
        mine["coverage"] == pytest.approx(direct["coverage"]) and mine["coverage"] > 0.1
    )
    assert mine["shares"] == pytest.approx(direct["shares"])
