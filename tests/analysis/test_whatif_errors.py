"""The error of the model, fitted to the pairs that were measured."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.whatif import errors, table
from benchmarks.whatif.pairs import PAIRS

from cutaway.analysis.whatif import known_errors

PAGE = Path(__file__).parents[2] / "docs" / "what-if.md"


def row(kind: str, error: float, held_out: bool = False) -> errors.Row:
    return errors.Row(kind, kind, abs(error) < 0.05, error, held_out)


def test_a_kind_is_drawn_towards_all_pairs_and_held_out_ones_are_not_used() -> None:
    found = [row("alone", 0.02), row("alone", -0.02), row("cores", 0.04)]
    found.append(row("cores", 0.9, held_out=True))
    widths = errors.fitted(found)
    # Mean squares: 4, 4 and 16 are 8 on average; 4 + 4 and twice 8, divided by 4, is 6. Student's t with 4 and with 3 degrees of freedom.
    assert widths["alone"] == pytest.approx(2.132 * math.sqrt(6) / 100, abs=6e-4)
    assert widths["cores"] == pytest.approx(
        2.353 * math.sqrt((16 + 16) / 3) / 100, abs=6e-4
    )
    assert widths.keys() == {"alone", "cores"}


def test_coverage_counts_both_groups() -> None:
    found = [row("alone", 0.04), row("alone", -0.06), row("cores", 0.01, True)]
    assert errors.coverage(found, held_out=False) == "1 of 2"
    assert errors.coverage(found, held_out=True) == "1 of 1"


def test_the_constants_belong_to_the_published_pairs() -> None:
    found = errors.rows(PAGE)
    assert len(found) > 40
    assert errors.fitted(found) == known_errors.HALF_WIDTHS


def test_rows_that_were_not_measured_again_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    pair = next(pair for pair in PAIRS if pair.program == "r2d2")
    # Given a page that lacks the row of this pair.
    lines = PAGE.read_text(encoding="utf-8").splitlines(keepends=True)
    others = [line for line in lines if not line.startswith(f"| {pair.name} ")]
    assert len(others) == len(lines) - 1
    page.write_text("".join(others), encoding="utf-8")
    before = table.read(page)
    known = before[0]
    new = table.Tried(pair.name, "actors=4", 1.5, 1.3, 1.7, 1.6, 0.01, None, 0.01, "")
    better = replace(known, predicted=0.58, measured=0.58)
    table.put_into(page, table.merged(page, [new, better]))
    after = {one.name: one for one in table.read(page)}
    assert len(after) == len(before) + 1
    assert after[pair.name].measured == pytest.approx(1.6, rel=0.001)
    assert after[known.name].error == pytest.approx(0, abs=0.001)
    for one in before[1:]:
        assert table.row(after[one.name]) == table.row(one)
