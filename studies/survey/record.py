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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from studies.survey.cells import Cell

WIDEST = 0.05
"""A cell whose interval is wider than this, relative to its total, is run again."""
MOST_REPEATS = 6


def record(cells: Sequence[Cell], folder: Path, repeats: int) -> list[str]:
    """Makes what is missing of `repeats` runs of every cell; what failed, in a sentence each."""
    todo = [(cell, number) for cell in cells for number in range(repeats) if not _done(folder, cell, number)]
    random.Random(1).shuffle(todo)
    failed = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("survey", total=len(todo))
        for cell, number in todo:
            bar.update(task, description=f"{cell.name} {number + 1}/{repeats}")
            failed += _one(folder, cell, number)
            bar.advance(task)
    return failed


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
    command = [cell.python, "-m", "cutaway", "run", "-q", "-o", str(run), *cell.options(), *cell.command()]
    began = time.monotonic()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        shutil.rmtree(run, ignore_errors=True)
        return [f"{cell.name} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"]
    about = {"seconds": time.monotonic() - began, "command": cell.command()}
    run.with_suffix(".json").write_text(json.dumps(about) + "\n")
    return []
