"""What was tried, and the table that docs/what-if.md holds."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.whatif.pairs import HELD_OUT, PAIRS

BEGIN, END = "<!-- made by benchmarks.whatif -->", "<!-- end -->"
MEDIAN, MOST_OF, WORST = 0.03, 0.08, 0.15
"""What was asked for: the median error, that of nine in ten, and the worst without a warning."""
QUIET = 0.1
"""Cores that others may use, while a figure still counts as one of a quiet machine."""


@dataclass(frozen=True)
class Tried:
    """One pair. Figures are throughput after ÷ before; None: not predicted, `said` tells why. `spread`: half of the distance
    between the quartiles of the rounds. `foreign`: cores that other programs used meanwhile."""

    name: str
    words: str
    predicted: float | None
    low: float | None
    high: float | None
    measured: float | None
    spread: float
    amdahl: float | None
    replay_error: float | None
    said: str
    foreign: float = 0.0

    @property
    def error(self) -> float | None:
        """Predicted ÷ measured − 1."""
        if self.predicted is None or self.measured is None:
            return None
        return self.predicted / self.measured - 1

    @property
    def holds(self) -> bool:
        """Whether the interval holds what was measured."""
        low, high = self.low or 0.0, self.high or 0.0
        return self.measured is not None and low <= self.measured <= high


def table(tried: Sequence[Tried]) -> str:
    """Markdown, as docs/what-if.md holds it."""
    lines = [
        "| program and change | predicted | measured | error | no change | Amdahl |",
        "|---|---|---|---|---|---|",
        *map(row, tried),
        *_summary(tried),
    ]
    return "\n".join(lines)


def row(one: Tried) -> str:
    """A pair, with what the command said if it predicted nothing."""
    predicted = "does not know"
    if one.predicted is not None:
        predicted = f"{one.predicted:.2f} ({one.low:.2f} to {one.high:.2f})"
    measured = "" if one.measured is None else f"{one.measured:.2f} ± {one.spread:.2f}"
    said = f" ({one.said})" if one.predicted is None else ""
    errors = [one.error, _naive(one, 1.0), _naive(one, one.amdahl)]
    shown = ["" if error is None else f"{error:+.1%}" for error in errors]
    return f"| {one.name} `{one.words}`{said} | {predicted} | {measured} | {' | '.join(shown)} |"


def _naive(one: Tried, guess: float | None) -> float | None:
    """The error of whoever guesses that much."""
    return guess / one.measured - 1 if guess and one.measured else None


def _summary(tried: Sequence[Tried]) -> list[str]:
    """Pairs that the intervals were fitted to, and those that were held out."""
    held_out = {pair.name for pair in HELD_OUT}
    measured = [one for one in tried if one.measured is not None]
    seen = [one for one in measured if one.name not in held_out]
    unseen = [one for one in measured if one.name in held_out]
    asked = f"{MEDIAN:.0%}, {MOST_OF:.0%}, {WORST:.0%}"
    lines = ["", f"{_errors('Of the pairs that intervals were fitted to', seen)} (asked for: {asked})."]  # fmt: skip
    both = [one for one in measured if one.error is not None and one.amdahl]
    if both:
        amdahl = np.median([abs(_naive(one, one.amdahl) or 0.0) for one in both])
        same = np.median([abs(one.error or 0.0) for one in both])
        lines.append(
            f"Where Amdahl has an answer ({len(both)} pairs): median {amdahl:.1%}, ours {same:.1%}."
        )
    if unseen:
        lines.append(f"{_errors('Of the last rows, which were held out', unseen)}.")
    loaded = [one for one in measured if one.foreign > QUIET]
    if loaded:
        lines.append(
            f"Other programs used more than {QUIET} cores during {len(loaded)} pairs, so these figures are not of a quiet machine."
        )
    return lines


def _errors(which: str, group: Sequence[Tried]) -> str:
    """Errors of a group of pairs, and how often its intervals hold what was measured."""
    known = [one for one in group if one.error is not None]
    said = f"{which}, {len(known)} of {len(group)} were predicted"
    if not known:
        return said
    ours = [abs(one.error or 0.0) for one in known]
    idle = [abs(_naive(one, 1.0) or 0.0) for one in known]
    median, most = np.percentile(ours, [50, 90])
    inside = [one for one in known if one.holds]
    return (
        f"{said}: median error {median:.1%}, nine of ten {most:.1%}, worst {max(ours):.1%}, where no change is {np.median(idle):.1%} off; "
        f"the interval, which is meant to hold nine of ten, holds {len(inside)} of {len(known)}"
    )


def machine() -> str:
    """Where and when, in a sentence."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = (
        line.partition(":")[2] for line in cpuinfo if line.startswith("model name")
    )
    model = next(models, platform.machine()).strip()
    now = datetime.date.today()
    day = f"{now.day} {now:%B %Y}"
    return f"Measured on {os.cpu_count()} cores of an {model}, Linux {platform.release()}, Python {platform.python_version()}, {day}."


def put_into(page: Path, tried: Sequence[Tried]) -> None:
    """Replaces what stands between the two marks of a page."""
    head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(
            f"{page} has no lines {BEGIN} and {END}; put them where the table belongs"
        )
    page.write_text(
        f"{head}{BEGIN}\n\n{machine()}\n\n{table(tried)}\n\n{END}{tail}",
        encoding="utf-8",
    )


_ROW = re.compile(
    r"^\| (?P<name>[^`|]+) `(?P<words>[^`]+)`(?: \((?P<said>.*)\))? \| "
    r"(?:(?P<predicted>[\d.]+) \((?P<low>[\d.]+) to (?P<high>[\d.]+)\)|does not know) \| "
    r"(?P<measured>[\d.]+) ± (?P<spread>[\d.]+) \|(?P<errors>[^|]*\|[^|]*\|[^|]*)\|$"
)


def read(page: Path) -> list[Tried]:
    """The rows of a page. What was measured follows from the errors, whose last digit is finer than its own."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        seen = _ROW.match(line)
        if seen:
            found.append(_tried(seen))
    return found


def _tried(seen: re.Match[str]) -> Tried:
    """One row, as it was before it was printed."""

    def number(name: str) -> float | None:
        return float(seen[name]) if seen[name] else None

    shown = [text.strip().removesuffix("%") for text in seen["errors"].split("|")]
    errors = [1 + float(text) / 100 if text else None for text in shown]
    predicted, measured = number("predicted"), float(seen["measured"])
    if predicted and errors[0]:
        measured = predicted / errors[0]
    amdahl = errors[2] * measured if errors[2] else None
    bounds = (number("low"), number("high"))
    spread = float(seen["spread"])
    said = seen["said"] or ""
    place = (seen["name"], seen["words"])
    return Tried(*place, predicted, *bounds, measured, spread, amdahl, None, said)


def merged(page: Path, tried: Sequence[Tried]) -> list[Tried]:
    """Rows of the page that were not measured again stay, in the order of the pairs."""
    rows = {one.name: one for one in [*read(page), *tried]}
    return [rows[pair.name] for pair in PAIRS if pair.name in rows]


def load(path: Path | None) -> dict[str, Tried]:
    """What earlier calls found, by name: the last word on each pair counts."""
    if path is None or not path.is_file():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {one["name"]: Tried(**one) for one in rows}


def append(path: Path, tried: Iterable[Tried]) -> None:
    """Adds a line for each pair."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(one)) + "\n" for one in tried)
