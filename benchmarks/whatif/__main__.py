"""How far off is `cutaway what-if`? Every change is predicted from the recording before, then made and measured.

    python -m benchmarks.whatif [--only WORD …] [--missing] [--results build/whatif.jsonl] [--page docs/what-if.md]

`--only` chooses the pairs whose names contain one of the words, `--missing` those that docs/what-if.md does not hold. `--list` names
the chosen ones and runs nothing. TorchRL needs `.venv-frameworks/bin/python` (`scripts/frameworks-environment`), which runs all others,
too; a pair whose program cannot run is left out.

Programs that begin alike are measured in one round: before, then each change, in turn, so that a drift of the machine touches all of
them. Use a quiet machine with two idle cores. All pairs take about 45 minutes, those that are missing about 20. `--page` leaves the
other rows of a page as they are. `--results` keeps what was found, a line for each pair: the same command goes on where it was
interrupted, so delete the file to begin anew.

`--keep FOLDER` keeps the recordings. `--predict-only FOLDER` predicts from those again and measures nothing; with `--results` it
compares with what was measured then, so that a change of the replay can be tried.

`--cpu` compares steps for each CPU second of the main process: what programs of one process gain, on a machine that others use.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.whatif import table, trial
from benchmarks.whatif.pairs import PAIRS, Pair
from benchmarks.whatif.table import Tried
from benchmarks.whatif.trial import Lab

DOCS = Path(__file__).parents[2] / "docs" / "what-if.md"


class Progress:
    """A line for each program that has run, with the time that is left."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.start = time.monotonic()

    def __call__(self, what: str) -> None:
        self.done += 1
        spent = time.monotonic() - self.start
        left = spent / self.done * max(0, self.total - self.done) / 60
        say(f"[{self.done:3}/{self.total}] {left:4.1f} min left  {what}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def groups(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Pairs that begin alike."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        begin = f"{pair.program} {sorted(pair.before.items())}"
        found.setdefault(begin, []).append(pair)
    return list(found.values())


def runs(together: Sequence[list[Pair]], rounds: int) -> int:
    """How many programs that takes: recordings, and in each round before and after."""
    seconds = [
        len({str(pair.second) for pair in pairs if pair.second}) for pairs in together
    ]
    measured = [rounds * (1 + len(pairs)) for pairs in together]
    return len(together) + sum(seconds) + sum(measured)  # fmt: skip


def tried(lab: Lab, pairs: list[Pair]) -> list[Tried]:
    """Predicted, then measured, if there are rounds."""
    found = [trial.predict(lab, pair) for pair in pairs]
    measured = trial.measure(lab, pairs) if lab.rounds else {}
    rows = []
    for one in found:
        seen = measured.get(one.name)
        if seen:
            middle, spread = seen.middle
            one = replace(one, measured=middle, spread=spread, foreign=seen.foreign)
        rows.append(one)
        error = "" if one.replay_error is None else f"  replay {one.replay_error:+.1%}"
        say(f"{table.row(one)}{error}  {one.said}")
    return rows


def compared(one: Tried, earlier: Tried | None) -> Tried:
    """A new prediction beside what was measured earlier."""
    if earlier is None:
        return one
    return replace(
        one,
        measured=earlier.measured,
        spread=earlier.spread,
        foreign=earlier.foreign,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.whatif")
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="WORD")
    add("--missing", action="store_true", help="pairs that the docs do not hold")
    add(
        "--list", action="store_true", help="name the pairs, and how many runs it takes"
    )
    add("--rounds", type=int, default=3)
    add("--seconds", type=float, default=4.0)
    add("--results", type=Path, metavar="FILE.jsonl")
    add("--page", type=Path, help="put the table into this page: docs/what-if.md")
    add("--cpu", action="store_true")
    add("--keep", type=Path, metavar="FOLDER")
    add("--predict-only", type=Path, metavar="FOLDER")
    return parser.parse_args()


def _chosen(args: argparse.Namespace) -> list[Pair]:
    there = {one.name for one in table.read(DOCS)} if args.missing else set()
    return [
        pair
        for pair in PAIRS
        if pair.name not in there
        and (not args.only or any(word in pair.name for word in args.only))
    ]


def main() -> int:
    args = _arguments()
    earlier = table.load(args.results)
    known = {} if args.predict_only else {**earlier}
    chosen = _chosen(args)
    together = groups(pair for pair in chosen if pair.name not in known)
    rounds = 0 if args.predict_only else args.rounds
    progress = Progress(runs(together, rounds))
    if args.list:
        print("\n".join(pair.name for pair in chosen))
        say(f"{progress.total} runs of {args.seconds:g} s or a little more")
        return 0
    for pairs in together:
        with tempfile.TemporaryDirectory() as temporary:
            folder = args.predict_only or args.keep or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                found = tried(
                    Lab(folder, args.seconds, rounds, progress, args.cpu), pairs
                )
            except trial.Failed as failure:
                say(f"left out: {failure}")
                continue
        if args.predict_only:
            found = [compared(one, earlier.get(one.name)) for one in found]
        known.update({one.name: one for one in found})
        if args.results and rounds:
            table.append(args.results, found)
    ready = [known[pair.name] for pair in chosen if pair.name in known]
    print(table.table(ready))
    if args.page:
        measured = [one for one in ready if one.measured is not None]
        table.put_into(args.page, table.merged(args.page, measured))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
