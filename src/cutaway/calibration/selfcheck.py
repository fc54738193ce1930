"""The self-check: run a program with and without recording, and compare CPU times with what the correction claims."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError

Interval = tuple[float, float, float]
"""A value and its 95 % interval."""


@dataclass(frozen=True)
class Check:
    """The answer. `inflation` is recorded ÷ unrecorded CPU time, `bias` corrected ÷ unrecorded − 1, `removed` the share of the
    recorded time that the correction removes. `repeatable`: whether the program itself varies by less than what is to be measured
    apart (2 % of the mean)."""

    inflation: Interval
    bias: Interval
    removed: float
    removed_error: float
    repeatable: bool
    pairs: int

    def lines(self) -> list[str]:
        raw = self.inflation
        bias = self.bias
        lines = [
            f"CPU time recorded ÷ unrecorded: {raw[0]:.3f} ({raw[1]:.3f} … {raw[2]:.3f}) over {self.pairs} pairs",
            f"removed by the correction: {self.removed:.2%} ± {self.removed_error:.2%}",
            f"true bias after correction: {bias[0]:+.2%} ({bias[1]:+.2%} … {bias[2]:+.2%})",
        ]
        doubt = "Warning: the program's own CPU time varies too much for an answer; use more --pairs, a seed, or an idle machine."
        if self.repeatable:
            return lines
        return [*lines, doubt]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check(
    command: Sequence[str], pairs: int, tell: Callable[[int, int], None]
) -> Check:
    """Runs the program 2 × `pairs` times, interleaved, in changing order."""
    if pairs < 2:
        raise CutawayError(
            "The self-check needs at least two pairs; use --pairs 2 or more."
        )
    seconds: list[float] = []
    found: list[tuple[float, float, float]] = []
    for i in range(pairs):
        for with_recording in (False, True) if i % 2 else (True, False):
            if with_recording:
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "check.cutaway"
                    found.append((_run(command, path), *_removed(path)))
            else:
                seconds.append(_run(command, None))
            tell(len(seconds) + len(found), 2 * pairs)
    plain, (recorded, removed, error) = np.array(seconds), np.array(found).T
    return Check(
        inflation=_median(recorded / plain),
        bias=_median(recorded * (1 - removed) / plain - 1),
        removed=float(np.mean(removed)),
        removed_error=float(np.mean(error)),
        repeatable=bool(np.std(plain, ddof=1) / np.mean(plain) / np.sqrt(pairs) < 0.02),
        pairs=pairs,
    )


def _run(command: Sequence[str], record: Path | None) -> float:
    """CPU seconds of the program and its children."""
    words = [*([sys.executable] if command[0].endswith(".py") else []), *command]
    if record is not None:
        words = [
            sys.executable,
            "-m",
            "cutaway",
            "run",
            "-q",
            "-o",
            str(record),
            *words,
        ]
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            words, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise CutawayError(
            f"{words[0]} cannot be started ({error.strerror})."
        ) from error
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            "no message"
        ]
        raise CutawayError(
            f"The program ended with exit code {done.returncode} ({last[0][:200]})."
        )
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before


def _removed(path: Path) -> tuple[float, float]:
    """Share of the recorded time that the correction takes away, over all threads with operations, and its 95 % half-width."""
    import cutaway

    table = cutaway.open(path).breakdown(by=["process"])
    ns, raw, low, high = (
        float(table[name].sum()) for name in ("ns", "raw_ns", "low_ns", "high_ns")
    )
    if raw <= 0:
        raise CutawayError(
            "Nothing was recorded: the program has no operations; see `cutaway doctor`."
        )
    return 1 - ns / raw, (high - low) / 2 / raw


def _median(ratios: NDArray[np.float64]) -> Interval:
    """Of the ratios of pairs, with the interval of a bootstrap."""
    draws = np.random.default_rng(1).choice(ratios, (4000, len(ratios)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(ratios)), float(low), float(high)
