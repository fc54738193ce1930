"""`cutaway diff`: what changed from run A to run B, with intervals; for people and for continuous integration."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.commands import UsageError, write_page
from cutaway.reports.text import clip, operation, place, plural, size
from cutaway.vocabulary import LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.diff import Diff
    from cutaway.analysis.estimates import Estimate
    from cutaway.analysis.explain import Explanation
    from cutaway.analysis.memory_change import MemoryChange
    from cutaway.analysis.run import Run

NAMED = 0.2  # of a change of memory: less than that is no cause
HELP = "compare two runs cell by cell, with intervals; exit 1 on a regression"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("a", metavar="A", type=Path, help="the run before, or a folder of runs")
    add("b", metavar="B", type=Path, help="the run after, or a folder of runs")
    add(
        "--fail-on",
        metavar="5%",
        help="exit 1 if B is slower by more than this, beyond chance",
    )
    add("--rows", type=int, default=15, help="cells to show (default: 15)")
    add(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write an HTML page with a flame graph",
    )
    add("--json", action="store_true", help="everything, for scripts")


def run(args: argparse.Namespace) -> int:
    """Compare and print; the exit code says whether B regressed."""
    from cutaway.analysis.changed_functions import changed_functions
    from cutaway.analysis.compare import group
    from cutaway.analysis.diff import diff
    from cutaway.analysis.explain import explain
    from cutaway.analysis.memory_change import memory_change
    from cutaway.reports.printer import Printer

    if args.fail_on:
        threshold = _threshold(args.fail_on)
    else:
        threshold = None
    sides = runs_at(args.a), runs_at(args.b)
    found = diff(*sides)
    why = explain(group("A", sides[0], found.unit), group("B", sides[1], found.unit))
    units = why.a.units, why.b.units
    changed = changed_functions(sides, units, found.floor)
    regressed = threshold is not None and found.regressed(threshold)
    printer = Printer(sys.stdout)
    memory = memory_change(*sides)
    lines = _lines(found, changed, args.rows, printer.console.width)
    lines += _memory(memory)
    if args.output:
        more = [*_functions(found, changed), *_memory(memory)]
        _write_page(args, found, more, why, sides)
        lines.append(f"wrote {args.output}")
    if args.json:
        print(_as_json(found, changed, memory, threshold))
        return int(regressed)
    lines.append("why: cutaway compare --explain A B")
    if threshold is not None:
        lines.append(_judgement(found, threshold))
    printer.print(*map(printer.line, lines))
    return int(regressed)


def _lines(
    diff: Diff, changed: Sequence[dict[str, Any]], rows: int, width: int
) -> list[str]:
    cells = _cells(diff, rows, width)
    return [*_whole(diff, width), "", *cells, *_functions(diff, changed)]


def _write_page(
    args: argparse.Namespace,
    diff: Diff,
    more: list[str],
    why: Explanation,
    sides: tuple[list[Run], list[Run]],
) -> None:
    from cutaway.drawing.markup import paragraphs, preformatted
    from cutaway.reports import comparison, difference, page
    from cutaway.reports.page.flame import flame_change

    said = [_first(diff), _interval(diff), *_caveats(diff)]
    parts = [("", difference.drawn(diff, said, args.rows))]
    if more:
        parts.append(("", preformatted(*more)))
    parts.append(("Why", paragraphs(*comparison.sentences(why))))
    title = f"Cutaway: from A ({args.a.name}) to B ({args.b.name})"
    flame = flame_change(sides, (why.a.units, why.b.units))
    write_page(args.output, page.several(title, parts, why.a.unit, flame))


def _as_json(
    diff: Diff,
    changed: Sequence[dict[str, Any]],
    memory: MemoryChange | None,
    threshold: float | None,
) -> str:
    from cutaway.reports.comparison import plain

    found = {
        **vars(diff),
        "change": _estimate(diff.change),
        "cpu": _estimate(diff.cpu),
        "disturbed": diff.disturbed,
        "threshold": threshold,
        "regressed": threshold is not None and diff.regressed(threshold),
        "functions": changed,
        "memory": memory and {**vars(memory), "change": memory.change},
        "cells": list(diff.cells),
    }
    return json.dumps(plain(found), indent=1)


def _estimate(one: Estimate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {**vars(one), "certain": one.certain}


def _threshold(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise UsageError(
            f"--fail-on {text} is not a percentage; write something like 5%."
        )
    return value


def runs_at(path: Path) -> list[Run]:
    """The run at a path, or all runs in the folder at that path."""
    import cutaway

    if (path / "run.json").is_file():
        return [cutaway.open(path)]
    inside = sorted(about.parent for about in path.glob("*/run.json"))
    return [cutaway.open(one) for one in inside or [path]]


def _whole(diff: Diff, width: int) -> list[str]:
    """How much B differs from A, how sure that is, and what a reader must know about the comparison itself."""
    lines = [_first(diff), _interval(diff)]
    for caveat in _caveats(diff):
        lines += textwrap.wrap(caveat, width)
    return lines


def _first(diff: Diff) -> str:
    change = f"{abs(diff.change.value):.1%}"
    more = f"{change} {'more' if diff.change.value > 0 else 'less'}"
    if change == "0.0%":
        more = "the same"
    if diff.b_ns:
        times = diff.a_ns / diff.b_ns
    else:
        times = 1.0
    if times >= 1.1:
        fast = f", {times:.2f} times as fast"
    else:
        fast = ""
    spent = f"{_ms(diff.a_ns)} → {_ms(diff.b_ns)} ms"
    return f"B takes {more} time per {diff.unit}: {spent}{fast}"


def _interval(diff: Diff) -> str:
    if math.isinf(diff.floor):
        return "No interval: the machine was busy, so one run of each cannot tell whether this is a change."
    units = f"{diff.units[0]} and {diff.units[1]}"
    if not diff.change.known:
        return f"No interval: there are too few {diff.unit}s ({units}); record more, or several runs."
    if max(diff.runs) > 1:
        runs = f", {diff.runs[0]} and {diff.runs[1]} runs"
    else:
        runs = ""
    return f"95 % interval {_bounds(diff.change)} ({units} {diff.unit}s{runs})"


def _caveats(diff: Diff) -> list[str]:
    """What makes the comparison less sure than it looks."""
    caveats = [f"Warning: {text}" for text in diff.warnings]
    if math.isinf(diff.floor):
        caveats.append(
            "The program computes with a thread pool. On a busy machine its threads wait for each other and take more "
            "CPU time, too. Record three of each, use a quiet machine, or set OMP_NUM_THREADS=1."
        )
    elif diff.floor:
        noise = f"changes below {diff.floor:.0%} may be noise"
        caveats.append(f"With one run of each, {noise}; record three of each.")
    if diff.disturbed:
        waited = f"{diff.queued[0]:.0%} (A) and {diff.queued[1]:.0%} (B)"
        caveats.append(
            f"Wall time is disturbed: threads waited {waited} of the time for a core."
        )
    if diff.disturbed and diff.cpu:
        a, b = map(_ms, diff.cpu_ns)
        if diff.cpu.known:
            bounds = f" ({_bounds(diff.cpu)})"
        else:
            bounds = ""
        change = f"{diff.cpu.value:+.1%}{bounds}"
        caveats.append(f"CPU time per {diff.unit}: {a} → {b} ms, {change}")
    return caveats


def _bounds(change: Estimate) -> str:
    if change.certain:
        chance = "beyond chance"
    else:
        chance = "may be chance"
    return f"{change.low:+.1%} to {change.high:+.1%}: {chance}"


def _cells(diff: Diff, rows: int, width: int) -> list[str]:
    """The cells that changed most."""
    lines = [f"{'change/ms':>10} {'95 % interval':>19} {'A/ms':>9} {'B/ms':>9}  where"]
    several = len(set(diff.cells["process"].tolist())) > 1
    in_noise = (diff.cells["low_ns"] <= 0) & (
        diff.cells["high_ns"] >= 0
    )  # neither holds without an interval
    beyond = diff.cells.where(~in_noise)
    for row in beyond.head(rows):
        known = row["low_ns"] == row["low_ns"]
        if known:
            bounds = f"{_ms(row['low_ns'])} to {_ms(row['high_ns'])}"
        else:
            bounds = "–"
        where = f"{operation(row['operation'])} {LAYERS[row['layer']].title} {row['resource']}"
        where = clip(
            f"{row['process']}: {where}" if several else where, max(28, width - 52)
        )
        change = f"{row['change_ns'] / 1e6:>+10.3f} {bounds:>19}"
        lines.append(f"{change} {_ms(row['a_ns']):>9} {_ms(row['b_ns']):>9}  {where}")
    if not len(beyond):
        lines = ["No single cell stands out."]
    if len(beyond) > rows:
        lines.append(f"… {len(beyond) - rows} smaller changes; all of them with --json")
    if hidden := int(in_noise.sum()):
        lines.append(
            f"{plural(hidden, 'cell')} changed by no more than chance explains; --json lists all cells"
        )
    return lines


def _functions(diff: Diff, changed: Sequence[dict[str, Any]]) -> list[str]:
    """Your functions that explain a change beyond chance, the largest first."""
    rows = []
    beyond = [one for one in changed if one["low_ns"] > 0 or one["high_ns"] < 0]
    for one in beyond[:5] if diff.judged.certain else ():
        if abs(one["change_ns"]) >= 0.03 * abs(diff.b_ns - diff.a_ns):
            bounds = f"{_ms(one['low_ns'])} to {_ms(one['high_ns'])}"
            where = f"{clip(one['function'], 28)} in {clip(operation(one['operation']), 15)}"
            rows.append(f"{one['change_ns'] / 1e6:>+10.3f} {bounds:>19}  {where}")
            if one["inside"]:
                rows.append(f"{'':>32}most in {clip(one['inside'], 38)}")
    if rows:
        return ["", f"{'change/ms':>10} {'95 % interval':>19}  your function", *rows]
    return []


def _memory(found: MemoryChange | None) -> list[str]:
    """One sentence if B has more or less memory than A; the line that most of it is kept at, if that is known."""
    if found is None or not found.beyond:
        return []
    if found.change > 0:
        more = "more"
    else:
        more = "less"
    sentence = f"B keeps {size(abs(found.change))} {more} than A ({size(found.a)} to {size(found.b)} at the peak)"
    same = [line for line in found.lines if line["change"] * found.change > 0]
    if same and abs(same[0]["change"]) >= NAMED * abs(found.change):
        where = place(same[0]["file"], same[0]["line"]) or same[0]["function"]
        sentence += f", {size(abs(same[0]['change']))} of it at {where}"
    elif not found.lines:
        sentence += "; record both with --memory to see at which line"
    return ["", sentence + "."]


def _judgement(diff: Diff, threshold: float) -> str:
    if diff.judged is not diff.change:
        of = " of CPU time"
    else:
        of = ""
    if diff.regressed(threshold):
        return f"FAILED: the interval{of} lies above {threshold:.1%}."
    if not diff.judged.known:
        return f"Not judged: there is no interval to compare with {threshold:.1%}."
    return f"Passed: the interval{of} does not lie above {threshold:.1%}."


def _ms(ns: float) -> str:
    if abs(ns) < 1e10:
        return f"{ns / 1e6:.3f}"
    return f"{ns / 1e6:.0f}"
