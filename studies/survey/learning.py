"""That the programs of the survey learn: every backend on Pendulum, self-play against its own first generation. Not recorded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.survey.cells import BACKENDS, python_of
from studies.survey.write import table

PENDULUM = "--env Pendulum-v1 --steps 10000 --every 500 --warm-up 1000 --hidden 64,64 --batch 128"
GO = "--size 5 --workers 2 --generations 99 --games 20 --matches 0 --simulations 48 --channels 32 --blocks 2 --steps 100"


@dataclass(frozen=True)
class Lesson:
    """A program whose last line with `pattern` must show more than `limit`."""

    name: str
    python: str
    words: tuple[str, ...]
    pattern: str
    limit: float
    unit: str


def lessons() -> list[Lesson]:
    """All of them."""
    backends = ("-m", "cutaway_workloads.backends", *PENDULUM.split(), "--backend")
    go = (
        "-m",
        "cutaway_workloads.selfplay",
        *GO.split(),
        "--seconds",
        "600",
        "--versus-first",
        "100",
    )
    return [
        *(
            Lesson(f"TD3, {name}", python_of(name), (*backends, name), r"return (-?\d+)", -300, "mean return on Pendulum")
            for name in BACKENDS
        ),
        Lesson("self-play", sys.executable, go, r"won (\d+) of 100", 64.5, "games of 100 won against its first network"),
    ]  # fmt: skip


def learn(
    chosen: Sequence[Lesson], folder: Path, only_known: bool = False
) -> list[str]:
    """Runs what is missing, unless only what is known already is wanted; a table of what came out."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for lesson in chosen:
        path = folder / f"{lesson.name}.json"
        if not path.is_file() and only_known:
            continue
        if not path.is_file():
            print(f"learning: {lesson.name}", file=sys.stderr)
            path.write_text(json.dumps(_last(lesson)))
        value = json.loads(path.read_text())
        verdict = (
            "failed"
            if value is None
            else "learns"
            if value > lesson.limit
            else "does not learn"
        )
        rows.append(
            (
                lesson.name,
                "–" if value is None else f"{value:g}",
                lesson.unit,
                f"{lesson.limit:g}",
                verdict,
            )
        )
    return table(("program", "value", "what", "more than", "verdict"), *rows) if rows else []  # fmt: skip


def _last(lesson: Lesson) -> float | None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [lesson.python, *lesson.words], capture_output=True, text=True, env=environment
    )
    found = re.findall(lesson.pattern, done.stdout)
    return float(found[-1]) if done.returncode == 0 and found else None
