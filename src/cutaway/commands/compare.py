"""`cutaway compare`: any number of runs side by side, and why one takes longer than another."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cutaway.commands import UsageError, write_page
from cutaway.commands.diff import runs_at

if TYPE_CHECKING:
    from cutaway.analysis.explain import Explanation
    from cutaway.analysis.run import Run
    from cutaway.drawing.svg import Picture

HELP = "compare any number of runs: bars by operation and layer, transitions, and why they differ"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="*", type=Path, help="runs, or folders of repeats")
    per = "what times are divided by (default: the first of these that all runs have)"
    add("--per", choices=("step", "iteration", "run"), help=per)
    base = "the run that ratios are relative to (default: the first)"
    add("--relative-to", metavar="RUN", type=Path, help=base)
    add(
        "--explain",
        nargs=2,
        metavar=("A", "B"),
        type=Path,
        help="say why B takes longer or shorter than A",
    )
    scaling = "explain why N workers are not N times as fast; name runs with different numbers of workers"
    add("--scaling", action="store_true", help=scaling)
    workers = (
        "with --scaling: how many workers each run has, if Cutaway cannot count them"
    )
    add("--workers", metavar="1,2,4", type=_numbers, help=workers)
    figure = "write the bars as .svg, .png or .pdf; can be repeated"
    add("--figure", metavar="FILE", type=Path, action="append", default=[], help=figure)
    add("-o", "--output", metavar="FILE", type=Path, help="write an HTML page")
    add("--json", action="store_true", help="everything, for scripts")


def run(args: argparse.Namespace) -> None:
    """Measure every run and print."""
    from cutaway.analysis.compare import group, unit_of
    from cutaway.analysis.explain import explain
    from cutaway.drawing import files
    from cutaway.reports import comparison, comparison_figure
    from cutaway.reports.printer import Printer

    asked = [*args.runs]
    if args.relative_to:
        asked.append(args.relative_to)
    if args.explain:
        asked += args.explain
    if not asked:
        raise UsageError("There is nothing to compare; name two or more runs.")
    if args.scaling:
        _scaling(args)
        return
    opened = {path: runs_at(path) for path in asked}
    unit = args.per or unit_of(list(chain.from_iterable(opened.values())))
    names = _names(list(opened))
    by_path = {}
    for path, runs in opened.items():
        by_path[path] = group(names[path], runs, unit)
    groups = [by_path[path] for path in dict.fromkeys(args.runs or asked)]
    if args.relative_to:
        base = by_path[args.relative_to]
    else:
        base = groups[0]
    why = None
    if args.explain:
        before, after = args.explain
        why = explain(by_path[before], by_path[after])
    if why:
        sentences = comparison.sentences(why)
    else:
        sentences = []
    lines = [*comparison.table(groups, base), "", *comparison.transitions(groups)]
    picture = comparison_figure.drawn(groups)
    for figure in args.figure:
        files.write(figure, picture)
    if args.output:
        sides = [opened[path] for path in args.explain or ()]
        title = f"Cutaway: {len(groups)} runs side by side"
        _write_page(args.output, title, picture, lines, why, sides)
    if args.json:
        print(json.dumps(comparison.compared(groups, base, why), indent=1))
        return
    cost = max(one.overhead for one in groups)
    lines += ["", f"The recorder's own cost (up to {cost:.1%}) is removed."]
    if sentences:
        lines.append("")
    for sentence in sentences:
        lines += textwrap.wrap(sentence, 78, subsequent_indent="  ")
    lines += [f"wrote {path}" for path in (*args.figure, args.output) if path]
    if not why and len(groups) > 1:
        lines.append(f"next: cutaway compare --explain {asked[0]} {asked[1]}")
    printer = Printer(sys.stdout)
    printer.print(*map(printer.line, lines))


def _write_page(
    path: Path,
    title: str,
    picture: Picture,
    lines: list[str],
    why: Explanation | None,
    sides: list[list[Run]],
) -> None:
    """The figure, the figures as text, and what explains the difference."""
    from cutaway.drawing.markup import paragraphs, preformatted, tag
    from cutaway.reports import comparison, page
    from cutaway.reports.page.flame import flame_change

    parts = [("", tag("div", picture.markup(), class_="figure", tabindex=0))]
    parts.append(("Figures", preformatted(*lines)))
    flame = None
    if why:
        parts.append(("Why", paragraphs(*comparison.sentences(why))))
        flame = flame_change(sides, (why.a.units, why.b.units))
    write_page(path, page.several(title, parts, why.a.unit if why else "", flame))


def _numbers(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError("a run has at least one worker")
    return numbers


def _scaling(args: argparse.Namespace) -> None:
    """Speed-up, efficiency, and where the lost part went."""
    from cutaway.drawing import files
    from cutaway.drawing.markup import paragraphs, preformatted, tag
    from cutaway.reports import page, scaling, scaling_figure
    from cutaway.reports.digests import digest_at
    from cutaway.reports.printer import Printer

    if len(args.runs) < 2:
        raise UsageError(
            "--scaling needs two or more runs with different numbers of workers."
        )
    told = args.workers or [None] * len(args.runs)
    if len(told) != len(args.runs):
        raise UsageError("--workers needs one number for each run.")
    digests = {path: digest_at(path) for path in args.runs}
    unit = args.per or (
        "step" if all(d.pace.steps for d in digests.values()) else "iteration"
    )
    names = _names(args.runs)
    points = []
    for (path, digest), count in zip(digests.items(), told, strict=True):
        points.append(scaling.point(names[path], digest, unit, count))
    runs = scaling.scaled(points)
    picture = scaling_figure.drawn(runs)
    for figure in args.figure:
        files.write(figure, picture)
    lines = [*textwrap.wrap(scaling.sentence(runs), 78), "", *scaling.table(runs)]
    if args.output:
        parts = [
            ("", paragraphs(scaling.sentence(runs))),
            ("Speed-up", tag("div", picture.markup(), class_="figure", tabindex=0)),
            ("Figures", preformatted(*scaling.table(runs))),
        ]
        write_page(args.output, page.several("Cutaway: scaling", parts, unit, None))
    if args.json:
        print(json.dumps(scaling.as_json(runs), indent=1))
        return
    lines += [f"wrote {path}" for path in (*args.figure, args.output) if path]
    lines.append(f"next: cutaway diff {args.runs[0]} {args.runs[-1]}")
    printer = Printer(sys.stdout)
    printer.print(*map(printer.line, lines))


def _names(paths: list[Path]) -> dict[Path, str]:
    """The names of the folders, or their whole paths if two have the same name."""
    names = {path: path.name.removesuffix(".cutaway") or str(path) for path in paths}
    if len(set(names.values())) < len(names):
        return {path: str(path) for path in paths}
    return names
