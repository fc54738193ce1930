"""Are the causes named that were planted, and does the advice gain what was estimated?

    python -m benchmarks.verdicts [NAME …] [--rules-only] [--rounds 5] [--seconds 4] [--json FILE] [--page docs/verdicts.md]

A program is recorded once for its verdict and estimate. Then it runs without recording, as it is and with the advice applied, in
turn, so that a drift of the machine touches both: use a quiet machine with two idle cores. `--rules-only` leaves that out. It tries
the advice until the gain is clear, `--rounds` times at most. With `--json` it goes on where it was cut off: what that file
holds is not run again, unless it was wrong or is named. `--page` puts the table into the page. Ends with 1 if anything is wrong.
NO VERDICT because other programs used the cores is neither right nor wrong: the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.verdicts import programs
from benchmarks.verdicts.declare import CPU, PROGRAMS, Program
from cutaway.reports.digest import Verdict
from cutaway.reports.digests import digest_at

assert programs  # importing them declares them
BEGIN, END = "<!-- made by benchmarks.verdicts -->", "<!-- end -->"
ALLOWED = 1 / 3
"""An estimate further off than this share of the gain is wrong, beyond the spread of the rounds."""
LEAST_GAIN = 0.05
CLEAR = 0.03
"""A gain whose rounds differ by less, in this share of the pace, needs no more of them."""
FEWEST_ROUNDS = 3
DISTURBED = "machine shared"


@dataclass(frozen=True)
class Tried:
    """One program: what was given and estimated, what was measured. Gains are relative: 0.5 is +50 %."""

    name: str
    given: str
    wrong: str  # what the verdict got wrong; empty: nothing
    estimate: float | None
    at_most: bool
    gain: float | None = None  # None: not measured
    spread: float = 0.0

    @property
    def fine(self) -> bool:
        """Whether the cause was named, the advice did no harm, and its estimate holds."""
        return not self.wrong and (self.gain is None or self._holds(self.gain))

    def _holds(self, gain: float) -> bool:
        if gain < -self.spread:
            return False
        if self.estimate is None:
            return True
        over = self.estimate - gain
        if self.at_most:
            return over >= -self.spread
        return abs(over) <= ALLOWED * max(gain, LEAST_GAIN) + self.spread


def command(name: str, seconds: float, *flags: str) -> list[str]:
    """What runs a program, after the interpreter."""
    return ["-m", "benchmarks.verdicts.programs", name, str(seconds), *flags]


def recorded(program: Program, seconds: float) -> Verdict:
    """What is said about a program that is recorded as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.cutaway"
        record = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(path)]
        record += ["--simulator", "zlib"]  # it stands for one
        done = subprocess.run(
            [*record, *command(program.name, seconds)], capture_output=True, text=True
        )
        if done.returncode != program.exit_code:
            raise SystemExit(
                f"{program.name} ended with {done.returncode}: {done.stderr}"
            )
        return digest_at(path).verdict


def disturbed(said: Verdict) -> bool:
    """Whether nothing is concluded, because other programs used the cores."""
    shared = any(warning.startswith("MACHINE SHARED") for warning in said.warnings)
    return shared and said.label == "NO VERDICT"


def mistakes(program: Program, said: Verdict) -> list[str]:
    """How a verdict differs from what an expert would say."""
    if disturbed(said) and said.rule not in program.gives:
        return []
    text = " ".join((said.because, said.advice, said.then, *said.warnings))
    wrong = []
    if said.rule not in program.gives:
        wrong.append(f"given {said.rule}")
    if said.rule in program.never:
        wrong.append(f"must never be {said.rule}")
    wrong += [f"does not say “{word}”" for word in program.says if word not in text]
    wrong += [f"says “{word}”" for word in program.silent_on if word in text]
    return wrong


def judged(program: Program, seconds: float) -> Tried:
    """Record and judge."""
    said = recorded(program, seconds)
    wrong = mistakes(program, said)
    if wrong:
        print(
            f"{program.name}: {said.because} Try: {said.advice} {said.warnings}",
            file=sys.stderr,
        )
    estimate = None if said.speedup is None else said.speedup - 1
    given = said.rule
    if disturbed(said) and given not in program.gives:
        given = DISTURBED
    return Tried(program.name, given, "; ".join(wrong), estimate, said.at_most)


def measured(program: Program, tried: Tried, rounds: int, seconds: float) -> Tried:
    """Apply the advice, and measure."""
    ratios = []
    for number in range(rounds):
        order = ("", program.flag) if number % 2 == 0 else (program.flag, "")
        rates = {flag: _rate(program, flag, seconds) for flag in order}
        ratios.append(rates[program.flag] / rates[""])
        if number + 1 >= FEWEST_ROUNDS and max(ratios) - min(ratios) < CLEAR:
            break
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    return replace(tried, gain=float(middle - 1), spread=float(high - low) / 2)


def _rate(program: Program, flag: str, seconds: float) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "CUTAWAY"}
    flags = [flag] if flag else []
    out = subprocess.run(
        [sys.executable, *command(program.name, seconds, *flags)],
        env=environment, capture_output=True, text=True, check=True, timeout=60 + 20 * seconds,
    )  # fmt: skip
    return float(json.loads(out.stdout)["cpu_rate" if program.clock == CPU else "rate"])


def table(tried: list[Tried]) -> str:
    """Markdown, as docs/verdicts.md holds it."""
    lines = [
        "| program | expected | given | estimate | measured | by | ok |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_row, tried)])


def _row(one: Tried) -> str:
    program = PROGRAMS[one.name]
    expected = " or ".join(f"`{rule}`" for rule in sorted(program.gives))
    most = "at most " if one.at_most else ""
    estimate = "none" if one.estimate is None else f"{most}{one.estimate:+.0%}"
    gain = "" if one.gain is None else f"{one.gain:+.0%} ± {one.spread:.0%}"
    clock = "" if one.gain is None else program.clock
    fine = "yes" if one.fine else f"**no** {one.wrong}".strip()
    return f"| {one.name} | {expected} | `{one.given}` | {estimate} | {gain} | {clock} | {fine} |"


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
    parser = argparse.ArgumentParser(prog="benchmarks.verdicts")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}"
    )
    parser.add_argument(
        "--rules-only",
        action="store_true",
        help="record and judge, without trying the advice",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument(
        "--json", type=Path, help="results so far are read from here, and written here"
    )
    parser.add_argument(
        "--page", type=Path, help="put the table into this page: docs/verdicts.md"
    )
    args = parser.parse_args()
    unknown = set(args.names) - set(PROGRAMS)
    if unknown:
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    return args


def _done(one: Tried, args: argparse.Namespace) -> bool:
    """Whether an earlier piece has found all that is asked for."""
    tries = PROGRAMS[one.name].flag and not args.rules_only
    measured = one.gain is not None or not tries
    return one.fine and one.given != DISTURBED and measured


def _progress(number: int, count: int, began: float, name: str) -> str:
    """Where it is, and how long the rest takes at the pace so far."""
    left = ""
    if number:
        minutes = (time.monotonic() - began) / number * (count - number) / 60
        left = f", about {minutes:.0f} min left"
    return f"[{number + 1}/{count}{left}] {name}"


def main() -> int:
    args = _arguments()
    known = (
        json.loads(args.json.read_text()) if args.json and args.json.is_file() else []
    )
    tried = {row["name"]: Tried(**row) for row in known if row["name"] in PROGRAMS}
    left = args.names or [
        name for name in PROGRAMS if name not in tried or not _done(tried[name], args)
    ]
    began = time.monotonic()
    for number, name in enumerate(left):
        print(_progress(number, len(left), began, name), file=sys.stderr, flush=True)
        program = PROGRAMS[name]
        tried[name] = judged(program, args.seconds)
        if program.flag and not args.rules_only and tried[name].given != DISTURBED:
            tried[name] = measured(program, tried[name], args.rounds, args.seconds)
        print(_row(tried[name]), file=sys.stderr, flush=True)
        if args.json:
            args.json.write_text(
                json.dumps([asdict(one) for one in tried.values()], indent=1)
            )
    print(table(list(tried.values())))
    if args.page:
        put_into(args.page, list(tried.values()))
    return 0 if all(one.fine for one in tried.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
