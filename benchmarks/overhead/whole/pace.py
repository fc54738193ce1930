"""How the programs of this folder tell their pace: one line of JSON on standard output."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

WARM_UP_SECONDS = 2.0


def run_for(seconds: float, update: Callable[[], None]) -> None:
    """Calls `update` for so long and prints how often a second, and the CPU time of one with its children's."""
    _repeat(update, WARM_UP_SECONDS)
    cpu, began = _cpu_seconds(), time.perf_counter()
    count = _repeat(update, seconds)
    elapsed = time.perf_counter() - began
    print(
        json.dumps({"pace": count / elapsed, "cpu": (_cpu_seconds() - cpu) / count}),
        flush=True,
    )


def seconds_asked() -> float:
    """The length of the measurement: the first argument of the program."""
    return float(sys.argv[1])


def _repeat(update: Callable[[], None], seconds: float) -> int:
    count = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        update()
        count += 1
    return count


def _cpu_seconds() -> float:
    """Of this process, and of its children that run: the kernel adds up only those that have ended."""
    own = time.process_time()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ticks = 0
    for child in children:
        ticks += _ticks_of(child)
    return own + ticks / os.sysconf("SC_CLK_TCK")


def _ticks_of(pid: str) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # ended meanwhile
        return 0
    return int(fields[11]) + int(fields[12])
