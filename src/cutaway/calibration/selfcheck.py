"""The self-check: run a program with and without recording, and compare CPU times with what the correction claims."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import CutawayError


@dataclass(frozen=True)
class Check:
    """CPU seconds of each run without and with recording, and the share of the recorded time that the correction removes."""

    plain: NDArray[np.float64]
    recorded: NDArray[np.float64]
    removed: NDArray[np.float64]
    removed_error: NDArray[np.float64]

    @property
    def inflation(self) -> tuple[float, float, float]:
        """Recorded ÷ unrecorded CPU time, with the 95 % interval (paired bootstrap)."""
        return _bootstrap(self.recorded, self.plain)

    @property
    def bias(self) -> tuple[float, float, float]:
        """Corrected ÷ unrecorded − 1, with the 95 % interval."""
        value, low, high = _bootstrap(self.recorded * (1 - self.removed), self.plain)
        return value - 1, low - 1, high - 1

    @property
    def repeatable(self) -> bool:
        """Whether the program itself varies by less than what is to be told apart (2 % of the mean)."""
        return bool(np.std(self.plain, ddof=1) / np.mean(self.plain) / np.sqrt(len(self.plain)) < 0.02)

    def lines(self) -> list[str]:
        raw, bias = self.inflation, self.bias
        lines = [
            f"CPU time recorded ÷ unrecorded: {raw[0]:.3f} ({raw[1]:.3f} … {raw[2]:.3f}) over {len(self.plain)} pairs",
            f"removed by the correction: {np.mean(self.removed):.2%} ± {np.mean(self.removed_error):.2%}",
            f"true bias after correction: {bias[0]:+.2%} ({bias[1]:+.2%} … {bias[2]:+.2%})",
        ]
        doubt = "Warning: the program's own CPU time varies too much for an answer; use more --pairs, a seed, or an idle machine."
        return lines if self.repeatable else [*lines, doubt]

    def to_json(self) -> dict[str, Any]:
        return {
            "inflation": self.inflation,
            "bias": self.bias,
            "removed": float(np.mean(self.removed)),
            "removed_error": float(np.mean(self.removed_error)),
            "repeatable": self.repeatable,
            "pairs": len(self.plain),
        }


def check(command: Sequence[str], pairs: int, tell: Callable[[int, int], None]) -> Check:
    """Runs the program 2 × `pairs` times, interleaved, in changing order."""
    if pairs < 2:
        raise CutawayError("The self-check needs at least two pairs; use --pairs 2 or more.")
    plain: list[float] = []
    recorded: list[tuple[float, float, float]] = []
    for i in range(pairs):
        for with_recording in (False, True) if i % 2 else (True, False):
            if with_recording:
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "check.cutaway"
                    recorded.append((_run(command, path), *_removed(path)))
            else:
                plain.append(_run(command, None))
            tell(len(plain) + len(recorded), 2 * pairs)
    return Check(np.array(plain), *np.array(recorded).T)


def _run(command: Sequence[str], record: Path | None) -> float:
    """CPU seconds of the program and its children."""
    words = [*([sys.executable] if command[0].endswith(".py") else []), *command]
    if record is not None:
        words = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(record), *words]
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(words, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE)
    except OSError as error:
        raise CutawayError(f"{words[0]} cannot be started ({error.strerror}).") from error
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise CutawayError(f"The program ended with exit code {done.returncode} ({last[0][:200]}).")
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before


def _removed(path: Path) -> tuple[float, float]:
    """Share of the recorded time that the correction takes away, over all threads with operations, and its 95 % half-width."""
    import cutaway

    table = cutaway.open(path).breakdown(by=["process"])
    ns, raw, low, high = (float(table[name].sum()) for name in ("ns", "raw_ns", "low_ns", "high_ns"))
    if raw <= 0:
        raise CutawayError("Nothing was recorded: the program has no operations; see `cutaway doctor`.")
    return 1 - ns / raw, (high - low) / 2 / raw


def _bootstrap(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float, float]:
    """Median of the ratios of pairs, with the 95 % interval."""
    ratios = a / b
    draws = np.random.default_rng(1).choice(ratios, (4000, len(ratios)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return float(np.median(ratios)), float(low), float(high)
