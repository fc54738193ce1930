"""Compares each verdict's estimate with what its advice really gains.

    python -m benchmarks.advice [VERDICT …] [--rounds 5] [--seconds 4] [--json FILE] [--page docs/verdicts.md]

A program is recorded once for its verdict and estimate. Then it runs without recording, as it is and with the advice applied, in
turn, so that a drift of the machine touches both. Where the advice removes work of one process, its CPU time is compared: that
survives a busy machine. Where it moves work or ends a wait, only wall time can be compared: use a quiet machine with two idle cores.
Name verdicts to run it in pieces; `--json` keeps what earlier pieces measured, `--page` puts the table into the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.advice.programs import PROGRAMS
from cutaway.reports.gather import gather

WALL = {
    *("waiting", "straggler", "simulation-bound", "simulation-bound-workers", "inference-bound-server"),
    "cpu-oversubscription",
}
"""Verdicts whose advice moves work, or ends a wait."""
BEGIN, END = "<!-- made by benchmarks.advice -->", "<!-- end -->"
ALLOWED = 1 / 3
"""An estimate further off than this share of the gain is wrong, beyond the spread of the rounds."""


@dataclass(frozen=True)
class Tried:
    """One verdict: what was estimated, what was measured. Gains are relative: 0.5 is +50 %."""

    verdict: str
    said: str
    estimate: float | None
    at_most: bool
    gain: float
    spread: float
    advice: str

    @property
    def fine(self) -> bool:
        """Whether the right verdict came, its advice did no harm, and its estimate holds."""
        if self.said != self.verdict or self.gain < -self.spread:
            return False
        if self.estimate is None:
            return True
        over = self.estimate - self.gain
        allowed = ALLOWED * max(abs(self.gain), 0.05) + self.spread
        return -allowed <= over <= allowed if not self.at_most else -allowed <= over


def _command(name: str, state: str, seconds: float) -> list[str]:
    return ["-m", "benchmarks.advice.programs", name, state, str(seconds)]


def _clock(name: str) -> str:
    return "wall time" if name in WALL else "CPU time"


def _rate(name: str, state: str, seconds: float) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "CUTAWAY"}
    out = subprocess.run(
        [sys.executable, *_command(name, state, seconds)],
        env=environment, capture_output=True, text=True, check=True, timeout=60 + 20 * seconds,
    )  # fmt: skip
    return float(json.loads(out.stdout)["rate" if name in WALL else "cpu_rate"])


def attempt(name: str, rounds: int, seconds: float) -> Tried:
    """Record, judge, apply, measure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.cutaway"
        record = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(path)]
        subprocess.run([*record, *_command(name, "before", seconds)], check=True, capture_output=True)
        said = gather(path).verdict
    ratios = []
    for number in range(rounds):
        order = ("before", "after") if number % 2 == 0 else ("after", "before")
        rates = {state: _rate(name, state, seconds) for state in order}
        ratios.append(rates["after"] / rates["before"])
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    estimate = None if said.speedup is None else said.speedup - 1
    return Tried(name, said.rule, estimate, said.at_most, middle - 1, (high - low) / 2, said.advice)


def table(tried: list[Tried]) -> str:
    """Markdown, as docs/verdicts.md holds it."""
    lines = ["| verdict | estimate | measured | by | holds |", "|---|---|---|---|---|"]
    for one in tried:
        most = "at most " if one.at_most else ""
        estimate = "none" if one.estimate is None else f"{most}{one.estimate:+.0%}"
        said = "" if one.said == one.verdict else f" (said {one.said})"
        holds = "yes" if one.fine else "**no**"
        measured = f"{one.gain:+.0%} ± {one.spread:.0%}"
        lines.append(f"| `{one.verdict}`{said} | {estimate} | {measured} | {_clock(one.verdict)} | {holds} |")
    return "\n".join(lines)


def put_into(page: Path, tried: list[Tried]) -> None:
    """Replaces what stands between the two marks of a page."""
    head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no lines {BEGIN} and {END}; put them where the table belongs")
    page.write_text(f"{head}{BEGIN}\n\n{table(tried)}\n\n{END}{tail}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.advice")
    parser.add_argument("verdicts", nargs="*", metavar="VERDICT", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", type=Path, help="results so far are read from here, and written here")
    parser.add_argument("--page", type=Path, help="put the table into this page: docs/verdicts.md")
    args = parser.parse_args()
    unknown = set(args.verdicts) - set(PROGRAMS)
    if unknown:
        parser.error(f"there is no program for {', '.join(sorted(unknown))}")
    known = json.loads(args.json.read_text()) if args.json and args.json.is_file() else []
    tried = {row["verdict"]: Tried(**row) for row in known}
    for name in args.verdicts or PROGRAMS:
        tried[name] = attempt(name, args.rounds, args.seconds)
        print(f"{name}: {table([tried[name]]).splitlines()[-1]}", file=sys.stderr, flush=True)
        if args.json:
            args.json.write_text(json.dumps([asdict(one) for one in tried.values()], indent=1))
    print(table(list(tried.values())))
    if args.page:
        put_into(args.page, list(tried.values()))
    return 0 if all(one.fine for one in tried.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
