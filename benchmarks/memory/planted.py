"""Runs the programs under Cutaway and compares what is found with what was planted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cutaway
from cutaway.analysis.growing import GROWS

from . import programs

PROGRAMS = Path(programs.__file__)
NAMES = [
    program.__name__
    for program in (*programs.LEAKS, programs.fork_copies, *programs.FILLS)
]


def line_of(name: str) -> int:
    """Where a program leaks."""
    lines = PROGRAMS.read_text().splitlines()
    return next(
        number
        for number, text in enumerate(lines, 1)
        if text.endswith(f"# LEAK {name}")
    )


def build_library(folder: Path) -> Path:
    """A C library that allocates and never frees."""
    source, path = folder / "leaky.c", folder / "libleaky.so"
    source.write_text(programs.LIBRARY)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def start(
    name: str, folder: Path, seconds: float, lines: bool = True
) -> subprocess.Popen[bytes]:
    """One program, recorded; `lines`: with its allocations."""
    more = [str(build_library(folder))] if name == "library" else []
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        *(["--memory"] if lines else []),
        "-q",
        "-o",
        str(folder / f"{name}.cutaway"),
    ]
    return subprocess.Popen([*command, str(PROGRAMS), name, str(seconds), *more])


@dataclass(frozen=True)
class Found:
    """What was found in one program."""

    name: str
    growing: tuple[dict[str, Any], ...]
    kept: int = 0  # bytes of the line that leaks, as found
    planted: float = 0.0  # and as it is

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """Growth without an end."""
        return [row for row in self.growing if row["kind"] == GROWS]


def look(name: str, folder: Path) -> Found:
    """What Cutaway says about it."""
    run = cutaway.open(folder / f"{name}.cutaway")
    growing = tuple(run.growing())
    if name not in programs.KEEPS:
        return Found(name, growing)
    lines = run.memory()
    kept = int(lines.where(your_line=line_of(name))["bytes"].sum())
    return Found(name, growing, kept, programs.KEEPS[name] * len(run.iterations()))


def run_all(
    folder: Path,
    seconds: float,
    at_once: int,
    lines: bool = True,
    names: Sequence[str] = NAMES,
) -> dict[str, Found]:
    """All programs, a few at a time."""
    waiting, running = list(names), []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(start(waiting.pop(0), folder, seconds, lines))
        running.pop(0).wait(timeout=seconds * 6 + 60)
    return {name: look(name, folder) for name in names}
