"""How far off is `cutaway what-if`? Every change is predicted from the recording before, then made and measured.

    python -m benchmarks.whatif [WORD …] [--rounds 3] [--seconds 4] [--json FILE] [--page docs/what-if.md]

WORDs choose the pairs whose names contain one of them. Programs that begin alike are measured in one round: before, then each
change, in turn, so that a drift of the machine touches all of them. Use a quiet machine with two idle cores. `--json` keeps what
earlier pieces found, `--predict-only FOLDER` keeps the recordings there and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import cutaway
from benchmarks.whatif.pairs import PAIRS, Pair
from cutaway.analysis.whatif.changes import Change, Faster, parse
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.analysis.whatif.sizes import Second
from cutaway.errors import CutawayError

BEGIN, END = "<!-- made by benchmarks.whatif -->", "<!-- end -->"
MEDIAN, MOST_OF, WORST = 0.03, 0.08, 0.15
"""What was asked for: the median error, that of nine in ten, and the worst without a warning."""


@dataclass(frozen=True)
class Tried:
    """One pair. Figures are throughput after ÷ before; None: not predicted, `said` tells why."""

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

    @property
    def error(self) -> float | None:
        """Predicted ÷ measured − 1."""
        if self.predicted is None or self.measured is None:
            return None
        return self.predicted / self.measured - 1


def command(
    pair: Pair, settings: Mapping[str, int], seconds: float
) -> tuple[list[str], list[str]]:
    """What limits the cores, and what runs the program after the interpreter."""
    own = {key: value for key, value in settings.items() if key != "cpus"}
    cores = sorted(os.sched_getaffinity(0))[: settings.get("cpus", os.cpu_count() or 1)]
    limit = ["taskset", "-c", ",".join(map(str, cores))]
    words = [f"{key}={value}" for key, value in own.items()]
    return limit, [
        "-m",
        "benchmarks.whatif.programs",
        pair.program,
        str(seconds),
        *words,
    ]


def record(
    pair: Pair, folder: Path, settings: Mapping[str, int], seconds: float
) -> Path:
    """The run before the change, recorded; a recording that is there already is used."""
    name = "-".join(
        [pair.program, *(f"{key}{value}" for key, value in settings.items())]
    )
    out = folder / f"{name}.cutaway"
    if not out.is_dir():
        limit, rest = command(pair, settings, seconds)
        recorder = [
            *limit,
            sys.executable,
            "-m",
            "cutaway",
            "run",
            "-q",
            "--calibrate-share",
            "0",
            "-o",
            str(out),
        ]
        done = subprocess.run(
            [*recorder, *rest], capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise SystemExit(f"{name} ended with {done.returncode}: {done.stderr}")
    return out


def predict(pair: Pair, folder: Path, seconds: float) -> Tried:
    """What is said before the change is made."""
    run = cutaway.open(record(pair, folder, pair.before, seconds))
    words = " ".join(pair.words)
    error, amdahl = None, None
    try:
        known = WhatIf(run)
        error = known.error
        changes = [change for word in pair.words for change in parse(word)]
        amdahl = by_amdahl(known, changes)
        found = known.predict(changes, words, second(pair, folder, seconds))
    except CutawayError as refused:
        return Tried(
            pair.name, words, None, None, None, None, 0.0, amdahl, error, str(refused)
        )
    done = found.work * found.before
    high, low = done / found.low if found.low else math.inf, done / found.high
    return Tried(
        pair.name,
        words,
        found.speedup,
        low,
        high,
        None,
        0.0,
        amdahl,
        error,
        "; ".join(found.assumes),
    )


def second(pair: Pair, folder: Path, seconds: float) -> Second | None:
    """Another recording, of a size that is neither that before nor that after."""
    if not pair.second:
        return None
    ((name, other),) = pair.second.items()
    run = record(pair, folder, {**pair.before, **pair.second}, seconds)
    return Second(cutaway.open(run), pair.before[name], other)


def by_amdahl(known: WhatIf, changes: Iterable[Change]) -> float | None:
    """The main thread's share of what changes, waiting for it included, sped up; None: Amdahl has no word for the change."""
    share, times = 0.0, 1.0
    for change in changes:
        if not isinstance(change, Faster):
            return None
        table = known.run.breakdown()
        own = table.where(process=known.graph.threads[known.graph.leader].process)
        meant = {"update": ["backpropagation"]}.get(change.name, [change.name])
        total = float(own["ns"].sum())
        named = np.isin(own["operation"].astype(str), meant)
        share, times = float(own["ns"][named].sum()) / total, change.times
    return 1 / (1 - share + share / times)


def measure(
    pairs: list[Pair], rounds: int, seconds: float
) -> dict[str, tuple[float, float]]:
    """The median of after ÷ before, and half of the distance between the quartiles, of pairs that begin alike."""
    ratios: dict[str, list[float]] = {pair.name: [] for pair in pairs}
    for number in range(rounds):
        turn = pairs if number % 2 == 0 else pairs[::-1]
        before = _rate(pairs[0], pairs[0].before, seconds)
        for pair in turn:
            after = _rate(pair, {**pair.before, **pair.after}, seconds)
            ratios[pair.name].append(after / before)
    return {name: _middle(found) for name, found in ratios.items()}


def _middle(ratios: list[float]) -> tuple[float, float]:
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    return float(middle), float(high - low) / 2


def _rate(pair: Pair, settings: Mapping[str, int], seconds: float) -> float:
    limit, rest = command(pair, settings, seconds)
    environment = {key: value for key, value in os.environ.items() if key != "CUTAWAY"}
    done = subprocess.run(
        [*limit, sys.executable, *rest], env=environment, capture_output=True, text=True, check=True, timeout=300
    )  # fmt: skip
    return float(json.loads(done.stdout.splitlines()[-1])["rate"])


def table(tried: list[Tried]) -> str:
    """Markdown, as docs/what-if.md holds it."""
    lines = [
        "| program and change | predicted | measured | error | no change | Amdahl |",
        "|---|---|---|---|---|---|",
        *map(_row, tried),
    ]
    errors = [abs(one.error) for one in tried if one.error is not None]
    if errors:
        median, most = np.percentile(errors, [50, 90])
        count = f"{len(errors)} of {len(tried)} pairs predicted"
        lines += [
            "",
            f"{count}: median error {median:.1%}, nine of ten {most:.1%}, worst {max(errors):.1%}.",
        ]
    return "\n".join(lines)


def _row(one: Tried) -> str:
    predicted = (
        "none"
        if one.predicted is None
        else f"{one.predicted:.2f} ({one.low:.2f} to {one.high:.2f})"
    )
    measured = "" if one.measured is None else f"{one.measured:.2f} ± {one.spread:.2f}"
    error = "" if one.error is None else f"{one.error:+.1%}"
    idle = "" if one.measured is None else f"{1 / one.measured - 1:+.0%}"
    naive = (
        ""
        if one.measured is None or one.amdahl is None
        else f"{one.amdahl / one.measured - 1:+.0%}"
    )
    said = f" ({one.said})" if one.predicted is None else ""
    return f"| {one.name} `{one.words}`{said} | {predicted} | {measured} | {error} | {idle} | {naive} |"


def put_into(page: Path, tried: list[Tried]) -> None:
    """Replaces what stands between the two marks of a page."""
    head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(
            f"{page} has no lines {BEGIN} and {END}; put them where the table belongs"
        )
    page.write_text(f"{head}{BEGIN}\n\n{table(tried)}\n\n{END}{tail}", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.whatif")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument(
        "--json", type=Path, help="results so far are read from here, and written here"
    )
    parser.add_argument(
        "--page", type=Path, help="put the table into this page: docs/what-if.md"
    )
    parser.add_argument(
        "--predict-only",
        type=Path,
        metavar="FOLDER",
        help="keep recordings here, measure nothing",
    )
    return parser.parse_args()


def _groups(pairs: Iterable[Pair]) -> list[list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(f"{pair.program} {sorted(pair.before.items())}", []).append(
            pair
        )
    return list(found.values())


def main() -> int:
    args = _arguments()
    chosen = [
        pair
        for pair in PAIRS
        if not args.words or any(word in pair.name for word in args.words)
    ]
    known = (
        json.loads(args.json.read_text()) if args.json and args.json.is_file() else []
    )
    tried = {row["name"]: Tried(**row) for row in known}
    for pairs in _groups(chosen):
        with tempfile.TemporaryDirectory() as temporary:
            folder = args.predict_only or Path(temporary)
            found = [predict(pair, folder, args.seconds) for pair in pairs]
        measured = (
            {} if args.predict_only else measure(pairs, args.rounds, args.seconds)
        )
        for one in found:
            ratio, spread = measured.get(one.name, (None, 0.0))
            if args.predict_only and one.name in tried:
                ratio, spread = tried[one.name].measured, tried[one.name].spread
            tried[one.name] = Tried(
                **{**asdict(one), "measured": ratio, "spread": spread}
            )
            print(
                _row(tried[one.name]),
                f"replay {one.replay_error}",
                one.said,
                file=sys.stderr,
                flush=True,
            )
        if args.json:
            args.json.write_text(
                json.dumps([asdict(one) for one in tried.values()], indent=1)
            )
    print(table([tried[pair.name] for pair in PAIRS if pair.name in tried]))
    if args.page:
        put_into(args.page, [tried[pair.name] for pair in PAIRS if pair.name in tried])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
