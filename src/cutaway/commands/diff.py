"""`cutaway diff`: what changed from run A to run B, with intervals; for people and for continuous integration."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.commands import UsageError, write_page
from cutaway.vocabulary import LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.diff import Diff
    from cutaway.analysis.estimates import Estimate
    from cutaway.analysis.explain import Explanation
    from cutaway.analysis.run import Run

MOST_FUNCTIONS = 5
WORTH_NAMING = 0.03
"""Of the whole change."""
HELP = "compare two runs cell by cell, with intervals; exit 1 on a regression"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("a", metavar="A", type=Path, help="the run before, or a folder of runs")
    add("b", metavar="B", type=Path, help="the run after, or a folder of runs")
    add("--fail-on", metavar="5%", help="exit 1 if B is slower by more than this, beyond chance")
    add("--rows", type=int, default=15, help="cells to show (default: 15)")
    add("-o", "--output", metavar="FILE", type=Path, help="write an HTML page with a flame graph")
    add("--json", action="store_true", help="everything, for scripts")


def run(args: argparse.Namespace) -> int:
    """Compare and print; the exit code says whether B regressed."""
    from cutaway.analysis.diff import compare
    from cutaway.reports.comparison import changed_functions
    from cutaway.reports.printer import Printer

    threshold = _threshold(args.fail_on) if args.fail_on else None
    sides = runs_at(args.a), runs_at(args.b)
    diff = compare(*sides)
    why = _explained(diff, sides)
    regressed = threshold is not None and diff.regressed(threshold)
    printer = Printer(sys.stdout)
    lines = _lines(diff, args.rows, printer.console.width)
    changed = changed_functions(sides, (why.a.units, why.b.units))
    lines += _functions(diff, changed) if diff.judged.certain else []
    if args.output:
        write_page(args.output, _page(args, lines, diff, why, sides))
        lines.append(f"wrote {args.output}")
    if args.json:
        print(json.dumps(_json(diff, changed, threshold, regressed), indent=1))
        return 1 if regressed else 0
    lines.append("why: cutaway compare --explain A B")
    if threshold is not None:
        lines.append(_judgement(diff, threshold, regressed))
    printer.print(*(printer.line(line) for line in lines))
    return 1 if regressed else 0


def _explained(diff: Diff, sides: Sequence[Sequence[Run]]) -> Explanation:
    from cutaway.analysis.compare import group
    from cutaway.analysis.explain import explain

    return explain(*(group(name, runs, diff.unit) for name, runs in zip("AB", sides, strict=True)))


def _functions(diff: Diff, changed: Sequence[dict[str, Any]]) -> list[str]:
    """Your functions that explain the change, the largest first."""
    from cutaway.reports.text import clip, operation

    whole = abs(diff.b_ns - diff.a_ns)
    large = [one for one in changed[:MOST_FUNCTIONS] if abs(one["change_ns"]) >= WORTH_NAMING * whole]
    rows = []
    for one in large:
        where = f"{clip(one['function'], 28)} in {clip(operation(one['operation']), 15)}"
        inside = f", most in {clip(one['inside'], 76 - 12 - len(where) - 10)}" if one["inside"] else ""
        rows.append(f"{one['change_ns'] / 1e6:>+10.3f}  {where}{inside}")
    return ["", f"{'change/ms':>10}  your function", *rows] if rows else []


def _page(
    args: argparse.Namespace, lines: list[str], diff: Diff, why: Explanation, sides: Sequence[Sequence[Run]]
) -> str:
    from cutaway.reports.comparison import sentences
    from cutaway.reports.comparison_figure import page, paragraphs, preformatted
    from cutaway.reports.page.flame import flame_change

    flame = flame_change(sides, (why.a.units, why.b.units))
    parts = [("", preformatted(lines)), ("Why", paragraphs(sentences(why)))]
    return page(f"Cutaway: from A ({args.a.name}) to B ({args.b.name})", parts, diff.unit, flame)


def _threshold(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise UsageError(f"--fail-on {text} is not a percentage; write something like 5%.")
    return value


def runs_at(path: Path) -> list[Run]:
    """The run at a path, or all runs in the folder at that path."""
    import cutaway

    if path.is_dir() and not (path / "run.json").is_file():
        inside = sorted(p.parent for p in path.glob("*/run.json"))
        if inside:
            return [cutaway.open(p) for p in inside]
    return [cutaway.open(path)]


def _lines(diff: Diff, rows: int, width: int) -> list[str]:
    from cutaway.reports.text import clip, operation

    change = f"{abs(diff.change.value):.1%}"
    verdict = f"is {change} {'slower' if diff.change.value > 0 else 'faster'}"
    verdict = verdict if change != "0.0%" else "takes the same time"
    head = f"B {verdict} per {diff.unit}: {_ms(diff.a_ns)} → {_ms(diff.b_ns)} ms"
    caveats = [part for text in _caveats(diff) for part in textwrap.wrap(text, width)]
    columns = f"{'change/ms':>10} {'95 % interval':>19} {'A/ms':>9} {'B/ms':>9}  where"
    lines = [head, _interval_line(diff), *caveats, "", columns]
    several = len(set(diff.cells["process"].tolist())) > 1
    shown = list(diff.cells.head(rows))
    doubtful = [not row["certain"] and row["low_ns"] == row["low_ns"] for row in shown]
    for row, doubt in zip(shown, doubtful, strict=True):
        bounds = "–" if row["low_ns"] != row["low_ns"] else f"{_ms(row['low_ns'])} to {_ms(row['high_ns'])}"
        where = f"{operation(row['operation'])} {LAYERS[row['layer']].title} {row['resource']}"
        where = clip(f"{row['process']}: {where}" if several else where, max(28, width - 52))
        change = f"{row['change_ns'] / 1e6:>+10.3f}{'~' if doubt else ' '}{bounds:>19}"
        lines.append(f"{change} {_ms(row['a_ns']):>9} {_ms(row['b_ns']):>9}  {where}")
    if len(diff.cells) > rows:
        lines.append(f"… {len(diff.cells) - rows} smaller changes; all of them with --json")
    if any(doubtful):
        lines.append("~ the interval includes zero: this change may be chance")
    return lines


def _interval_line(diff: Diff) -> str:
    units = f"{diff.units[0]} and {diff.units[1]}"
    if math.isinf(diff.floor):
        return "No interval: the machine was busy, so one run of each cannot tell whether this is a change."
    if not diff.change.known:
        return f"No interval: there are too few {diff.unit}s ({units}); record more, or several runs."
    runs = f", {diff.runs[0]} and {diff.runs[1]} runs" if max(diff.runs) > 1 else ""
    return f"95 % interval {_bounds(diff.change)} ({units} {diff.unit}s{runs})"


def _bounds(change: Estimate) -> str:
    chance = "beyond chance" if change.certain else "may be chance"
    return f"{change.low:+.1%} to {change.high:+.1%}: {chance}"


def _caveats(diff: Diff) -> list[str]:
    """What a reader must know about the comparison itself."""
    lines = [f"Warning: {text}" for text in diff.warnings]
    if math.isinf(diff.floor):
        lines.append(
            "The program computes with a thread pool. On a busy machine its threads wait for each other and take more "
            "CPU time, too. Record three of each, use a quiet machine, or set OMP_NUM_THREADS=1."
        )
    elif diff.floor:
        noise = f"changes below {diff.floor:.0%} may be noise"
        lines.append(f"With one run of each, {noise}; record three of each.")
    if diff.disturbed:
        waited = f"{diff.queued[0]:.0%} (A) and {diff.queued[1]:.0%} (B)"
        lines.append(f"Wall time is disturbed: threads waited {waited} of the time for a core.")
    if diff.disturbed and diff.cpu:
        a, b = map(_ms, diff.cpu_ns)
        change = f"{diff.cpu.value:+.1%}" + (f" ({_bounds(diff.cpu)})" if diff.cpu.known else "")
        lines.append(f"CPU time per {diff.unit}: {a} → {b} ms, {change}")
    return lines


def _judgement(diff: Diff, threshold: float, regressed: bool) -> str:
    of = " of CPU time" if diff.judged is not diff.change else ""
    if regressed:
        return f"FAILED: the interval{of} lies above {threshold:.1%}."
    if not diff.judged.known:
        return f"Not judged: there is no interval to compare with {threshold:.1%}."
    return f"Passed: the interval{of} does not lie above {threshold:.1%}."


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f}" if abs(ns) < 1e10 else f"{ns / 1e6:.0f}"


def _json(diff: Diff, changed: Sequence[dict[str, Any]], threshold: float | None, regressed: bool) -> Any:
    from cutaway.reports.comparison import plain

    about = {field.name: getattr(diff, field.name) for field in fields(diff)}
    about |= {
        name: one and {**asdict(one), "certain": one.certain}
        for name, one in (("change", diff.change), ("cpu", diff.cpu))
    }
    about["floor"] = diff.floor if math.isfinite(diff.floor) else None
    judged = {"disturbed": diff.disturbed, "threshold": threshold, "regressed": regressed}
    return plain({**about, **judged, "functions": changed, "cells": list(diff.cells)})
