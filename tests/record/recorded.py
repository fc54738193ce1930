"""What the tests of recording share: run a program under `cutaway run`, and count what its trace holds."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from cutaway.trace.format import ids, kinds
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import Kind

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass
class Seen:
    """The marks of one process, counted."""

    name: str
    role: str
    pid: int
    ppid: int
    operations: Counter[str] = field(default_factory=Counter)
    inside: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # (operation, the one around it)
    iterations: int = 0
    steps: int = 0
    pauses: int = 0
    calls: int = 0


def script(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def cutaway(
    *words: object, cwd: Path, **options: object
) -> subprocess.CompletedProcess[str]:
    """Runs the command line and waits for its end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    environment.pop("CUTAWAY", None)
    environment.update(options.pop("env", {}))  # type: ignore[call-overload]
    command = [sys.executable, "-m", "cutaway", *map(str, words)]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        **options,
    )


def record(folder: Path, *words: object, **options: object) -> list[Seen]:
    """Records a program that must end well, and counts what was recorded."""
    # Every iteration is recorded, also the share that is otherwise left out to measure the cost of recording.
    done = cutaway(
        "run",
        "-q",
        "--calibrate-share",
        "0",
        "-o",
        "run.cutaway",
        *words,
        cwd=folder,
        **options,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert "cutaway:" not in done.stderr, done.stderr
    return read(folder / "run.cutaway")


def read(path: Path) -> list[Seen]:
    return [_seen(process) for process in read_run(path).processes]


def one(processes: list[Seen], **wanted: object) -> Seen:
    found = [p for p in processes if all(getattr(p, k) == v for k, v in wanted.items())]
    assert len(found) == 1, (wanted, [(p.name, p.role) for p in processes])
    return found[0]


def notes(path: Path) -> list[str]:
    return [note for process in read_run(path).processes for note in process.log.notes]


def _seen(process: ProcessTrace) -> Seen:
    about = process.log.process
    seen = Seen(
        str(about.get("name")),
        str(about.get("role")),
        process.pid,
        int(about.get("ppid", 0)),
    )
    for thread in process.threads:
        stack: list[str] = []
        for block in process.records(thread):
            for kind, id, value in zip(
                kinds(block).tolist(),
                ids(block).tolist(),
                block["value"].tolist(),
                strict=True,
            ):
                _count(seen, process, stack, kind, id, value)
    return seen


def _count(
    seen: Seen, process: ProcessTrace, stack: list[str], kind: int, id: int, value: int
) -> None:
    if kind == Kind.OP_ENTER:
        name = process.log.name(id)
        seen.operations[name] += 1
        seen.inside[name, stack[-1] if stack else ""] += 1
        stack.append(name)
    elif kind == Kind.OP_EXIT:
        name = process.log.name(id)
        assert name in stack, f"{name} was closed and never opened"
        del stack[len(stack) - 1 - stack[::-1].index(name)]
    elif kind == Kind.ITERATION:
        seen.iterations += 1
    elif kind == Kind.STEP:
        seen.steps += value
    elif kind == Kind.RESUME:
        seen.steps += value  # made in the pause
    elif kind == Kind.PAUSE:
        seen.pauses += 1
    elif kind in (Kind.CALL, Kind.ENTER):
        seen.calls += 1
