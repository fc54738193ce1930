"""Runs the programs under Cutaway and compares what is found with what was planted."""

from __future__ import annotations

import subprocess
import sys
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


def start(name: str, folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    """One program, recorded."""
    more = [str(build_library(folder))] if name == "library" else []
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "--memory",
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

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """Growth without an end."""
        return [row for row in self.growing if row["kind"] == GROWS]


def look(name: str, folder: Path) -> Found:
    """What Cutaway says about it."""
    return Found(name, tuple(cutaway.open(folder / f"{name}.cutaway").growing()))


def run_all(folder: Path, seconds: float, at_once: int) -> dict[str, Found]:
    """All programs, a few at a time."""
    waiting, running = list(NAMES), []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(start(waiting.pop(0), folder, seconds))
        running.pop(0).wait(timeout=seconds * 6 + 60)
    return {name: look(name, folder) for name in NAMES}
