"""Records every cell several times, in random order; what is done already is not done again."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

import cutaway
from studies.survey.cells import Cell

WIDEST = 0.05
"""A cell whose interval is wider than this, relative to its total, is run again."""
MOST_REPEATS = 6
USUAL = 15.0
"""Seconds that a cell is thought to take before any run of it is known."""


def record(cells: Sequence[Cell], folder: Path, repeats: int) -> list[str]:
    """Makes what is missing of `repeats` runs of every cell; what failed, in a sentence each."""
    todo = []
    # Round by round, so that a survey that is stopped has something of every cell.
    for number in range(repeats):
        rest = [(cell, number) for cell in cells if not _done(folder, cell, number)]
        todo += random.Random(number).sample(rest, len(rest))
    failed = []
    known = {cell: _seconds(folder / cell.name) for cell in cells}
    columns = (TextColumn("{task.fields[done]} {task.description}"), BarColumn(), TextColumn("{task.fields[left]} left"))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("survey", total=len(todo), done="", left="?")
        for at, (cell, number) in enumerate(todo):
            left = sum(known[c] or USUAL for c, _ in todo[at:])
            bar.update(
                task,
                description=f"{cell.name}, run {number + 1}",
                done=f"{at + 1}/{len(todo)}",
                left=_minutes(left),
            )
            failed += _one(folder, cell, number)
            known[cell] = _seconds(folder / cell.name)
            bar.advance(task)
    return failed  # fmt: skip


def refine(cells: Sequence[Cell], folder: Path, repeats: int) -> list[str]:
    """Two more runs at a time of every cell that is not known well enough."""
    failed: list[str] = []
    for more in range(repeats + 2, MOST_REPEATS + 1, 2):
        wide = [cell for cell in cells if _interval(folder / cell.name) > WIDEST]
        failed += record(wide, folder, more)
    return failed


def compare(*words: object) -> dict[str, Any]:
    """What `cutaway compare --json` says."""
    command = [sys.executable, "-m", "cutaway", "compare", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _seconds(folder: Path) -> float:
    """How long the runs of a cell took so far; 0 if there is none."""
    took = [json.loads(path.read_text())["seconds"] for path in folder.glob("*.json")]
    return float(sum(took) / len(took)) if took else 0.0


def _interval(folder: Path) -> float:
    if len(list(folder.glob("*.cutaway"))) < 2:
        return 0.0
    total = compare(folder, "--per", "step")["groups"][0]["total_ns"]
    return float((total["high"] - total["value"]) / total["value"])


def _done(folder: Path, cell: Cell, number: int) -> bool:
    return (folder / cell.name / f"{number}.json").is_file()


def _one(folder: Path, cell: Cell, number: int) -> list[str]:
    run = folder / cell.name / f"{number}.cutaway"
    shutil.rmtree(run, ignore_errors=True)
    run.parent.mkdir(parents=True, exist_ok=True)
    # Through the interpreter of the cell, so that it records with the packages of its environment.
    command = [
        cell.python,
        "-m",
        "cutaway",
        "run",
        "-q",
        "-o",
        str(run),
        *cell.options(),
        *cell.command(),
    ]
    began = time.monotonic()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        shutil.rmtree(run, ignore_errors=True)
        return [
            f"{cell.name} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        ]
    foreign = cutaway.open(run).utilisation()["other_cores"]
    about = {
        "seconds": time.monotonic() - began,
        "foreign": foreign,
        "command": cell.command(),
    }
    run.with_suffix(".json").write_text(json.dumps(about) + "\n")
    return []
