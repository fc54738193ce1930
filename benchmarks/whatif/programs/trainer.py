"""Our own distributed trainer, R2D2 and IMPALA, with an emulated accelerator."""

from __future__ import annotations

import io
import re
import tempfile
from contextlib import redirect_stdout

from cutaway_workloads.r2d2.__main__ import main

_SMALL = "--unroll 20 --burn-in 10 --batch 8 --replay-minimum 20 --emulate-device 300,20,5000 --env synthetic:500"
_SLOW_START = 2
"""How many times as long as the others: its rate counts from when all actors are at work."""


def r2d2(seconds: float, actors: int = 2) -> tuple[float, float]:
    """R2D2 with central inference."""
    return _trained("r2d2", seconds, actors)


def impala(seconds: float, actors: int = 2) -> tuple[float, float]:
    """IMPALA with central inference."""
    return _trained("impala", seconds, actors)


def _trained(algorithm: str, seconds: float, actors: int) -> tuple[float, float]:
    said = io.StringIO()
    limits = ["--seconds", str(_SLOW_START * seconds), "--steps", str(10**9)]
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said):
        main(
            [
                "--algorithm",
                algorithm,
                "--actors",
                str(actors),
                *limits,
                "--directory",
                folder,
                *_SMALL.split(),
            ]
        )
    found = re.findall(r"^done .*steps_per_s=([0-9.]+)", said.getvalue(), re.M)
    return float(found[-1]), 0.0
