"""How wide is an interval of `cutaway what-if`? Fits the error of the model to the pairs that were made and measured.

    python -m benchmarks.whatif.errors [--page docs/what-if.md] [--write]

Reads the table of the page. Pairs that were not held out give a half width for each kind of change; how many measured values the printed
intervals hold is said for both groups. `--write` puts the half widths into src/cutaway/analysis/whatif/known_errors.py.

A kind has few pairs, so its mean square is drawn towards that of all pairs, as if two more pairs of average error had been measured. The
half width holds nine of ten errors if they are normal with that mean square: Student's t with as many degrees of freedom as pairs,
those two included.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.whatif import table
from benchmarks.whatif.pairs import HELD_OUT, PAIRS
from cutaway.analysis.whatif import known_errors
from cutaway.analysis.whatif.changes import Cores, Faster, Overlap
from cutaway.analysis.whatif.sizes import Size
from cutaway.analysis.whatif.words import parse

BORROWED = 2
"""Pairs of average error that each kind is given."""
LEVEL = 0.90
_BEGIN, _END = "# fitted\n", "# end\n"
_ONE_THREAD = ("ppo", "dqn")


@dataclass(frozen=True)
class Row:
    """A pair that was predicted and measured. `error`: of the logarithm. `inside`: the printed interval holds what was measured."""

    name: str
    kind: str
    inside: bool
    error: float
    held_out: bool


def rows(page: Path) -> list[Row]:
    """All pairs of a page that were predicted."""
    held_out = {pair.name for pair in HELD_OUT}
    found = []
    for one in table.read(page):
        if one.error is not None:
            error = float(np.log1p(one.error))
            kind = kind_of(one.name)
            found.append(Row(one.name, kind, one.holds, error, one.name in held_out))
    return found


def kind_of(name: str) -> str:
    """As `known_errors.kind_of` says it from a recording, from the name of a pair; empty: several changes at once."""
    pair = next(pair for pair in PAIRS if pair.name == name)
    kinds = set()
    for word in pair.words:
        match parse(word)[0]:
            case Faster():
                alone = pair.program in _ONE_THREAD and not pair.before.get("workers")
                kinds.add("alone" if alone else "together")
            case Cores():
                kinds.add("cores")
            case Overlap():
                kinds.add("overlap")
            case Size():
                kinds.add("sizes")
            case _:
                kinds.add("structure")
    return kinds.pop() if len(kinds) == 1 else ""


def fitted(found: Sequence[Row]) -> dict[str, float]:
    """The half width of each kind, from pairs that were not held out."""
    seen = [row for row in found if row.kind and not row.held_out]
    average = float(np.mean([row.error**2 for row in seen]))
    widths = {}
    for kind in known_errors.TITLES:
        squares = [row.error**2 for row in seen if row.kind == kind]
        if squares:
            count = len(squares) + BORROWED
            square = (sum(squares) + BORROWED * average) / count
            quantile = stats.t.ppf((1 + LEVEL) / 2, count)
            widths[kind] = round(float(quantile * square**0.5), 3)
    return widths


def coverage(found: Sequence[Row], held_out: bool) -> str:
    """How many measured values lie in their intervals."""
    group = [row for row in found if row.held_out == held_out]
    inside = sum(row.inside for row in group)
    return f"{inside} of {len(group)}"


def write(widths: dict[str, float]) -> None:
    """Replaces the constants in the source."""
    path = Path(known_errors.__file__)
    head, _, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    tail = rest.partition(_END)[2]
    lines = [f'    "{kind}": {half:.3f},\n' for kind, half in widths.items()]
    made = f"HALF_WIDTHS: dict[str, float] = {{\n{''.join(lines)}}}\n"
    path.write_text(f"{head}{_BEGIN}{made}{_END}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.whatif.errors")
    parser.add_argument("--page", type=Path, default=Path("docs/what-if.md"))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = rows(args.page)
    widths = fitted(found)
    for kind, half in widths.items():
        count = sum(row.kind == kind and not row.held_out for row in found)
        print(f"{kind:10} ±{half:.1%} from {count} pairs")
    print(f"intervals hold {coverage(found, False)} that were used, ", end="")
    print(f"{coverage(found, True)} that were held out (meant: {LEVEL:.0%})")
    if args.write:
        write(widths)


if __name__ == "__main__":
    main()
