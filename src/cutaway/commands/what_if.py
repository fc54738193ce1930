"""`cutaway what-if`: what a change would gain, before anybody makes it."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from cutaway.commands import write_page
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.whatif.changes import Change
    from cutaway.analysis.whatif.compositions import Wish
    from cutaway.analysis.whatif.predict import Prediction, WhatIf
    from cutaway.analysis.whatif.sizes import Second

HELP = "predict what a change would gain, from one recording"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help="folder NAME.cutaway")
    change = (
        "NAME=2x or NAME=0 (an operation, layer, process, function or FILE:LINE), overlap=A[,B], "
        "composition=, gpus=, recorded=, gpu=NAME, cores=, envs=, workers=, actors=, batch=, minibatch= or threads=N[,N…]"
    )
    add(
        "changes",
        metavar="CHANGE",
        nargs="*",
        help=f"{change}; all together; without any: what each is worth",
    )
    add(
        "--second",
        metavar="RUN",
        help="another recording, for batch=, minibatch= and threads=",
    )
    add(
        "--sizes",
        metavar="N,N",
        help="what that setting was in RUN and in the second run",
    )
    add(
        "--machine",
        metavar="NAME",
        help="on another machine: dgx1, dgx-a100, desktop or a TOML file",
    )
    add("-o", "--output", metavar="FILE", type=Path, help="write an HTML page")
    add("--json", action="store_true", help="for scripts; docs/what-if.md describes it")


def run(args: argparse.Namespace) -> None:
    """Replay the run, then with the changes."""
    from cutaway.analysis.whatif import compositions
    from cutaway.analysis.whatif.predict import WhatIf
    from cutaway.analysis.whatif.words import named, parse_all
    from cutaway.reports import digests, whatif, whatif_page
    from cutaway.reports.printer import Printer

    if asked := compositions.wish(args.changes):
        if args.machine:
            raise CutawayError("Say composition= and gpus=, or --machine, not both.")
        if args.output:
            raise CutawayError("There is no page of composition= and gpus=.")
        _compose(args, asked)
        return
    parsed = parse_all(args.changes)
    second = _second(args)
    known = WhatIf(digests.open_run(args.path, raw=False))
    single = [
        word
        for word, changes in zip(args.changes, parsed, strict=True)
        if len(changes) == 1
    ]
    common, on = _machine(args.machine)
    single += on
    curve = []
    for changes in parsed:
        if len(changes) == 1:
            common += changes
        else:
            curve += changes
    points = [([*common, one], [*single, named(one)]) for one in curve]
    if common and not points:
        points = [(common, single)]
    found = _predicted(known, points, second)
    worth = [] if found else known.worth()
    if args.output:
        write_page(args.output, whatif_page.page(known, found, worth))
    if args.json:
        print(json.dumps(whatif.plain(known, found, worth), indent=1))
        return
    printer = Printer(sys.stdout)
    if found:
        lines = whatif.predictions(known, found)
    else:
        lines = whatif.table(known, worth)
    if args.output:
        lines += ["", f"wrote {args.output}"]
    wrapped = []
    for line in lines:
        wrapped += textwrap.wrap(line, 79) or [""]
    printer.print(*map(printer.line, wrapped))


def _machine(name: str | None) -> tuple[list[Change], list[str]]:
    """The change, and how it is written."""
    from cutaway.analysis.whatif.changes import Elsewhere
    from cutaway.machines import machine

    if not name:
        return [], []
    return [Elsewhere(machine.load(name))], [f"--machine {name}"]


def _predicted(
    known: WhatIf,
    points: list[tuple[list[Change], list[str]]],
    second: Second | None,
) -> list[Prediction]:
    """A point of a curve that is refused becomes a note, as long as another is predicted."""
    found = []
    refused = []
    for changes, words in points:
        try:
            found.append(known.predict(changes, " ".join(words), second))
        except CutawayError as error:
            refused.append(error)
    if refused and not found:
        raise refused[0]
    known.graph.notes.extend(map(str, refused))
    return found


def _compose(args: argparse.Namespace, asked: Wish) -> None:
    """Of a language model: nothing is replayed."""
    from dataclasses import asdict

    from cutaway.analysis.whatif import compositions
    from cutaway.reports import digests

    run = digests.open_run(args.path, raw=False)
    found = compositions.predictions(run, asked)
    if args.json:
        shown = [{**asdict(one), "speedup": one.speedup} for one in found]
        known = compositions.as_recorded(run, asked)
        divided = {}
        for name, all_of in compositions.divided(known, asked).items():
            divided[name] = [asdict(one) for one in all_of]
        out = {"schema": 1, "predictions": shown, "divisions": divided}
        print(json.dumps(out, indent=1))
        return
    for line in compositions.lines(run, asked, found):
        print("\n".join(textwrap.wrap(line, 79)) if line else "")


def _second(args: argparse.Namespace) -> Second | None:
    from cutaway.analysis.whatif.sizes import Second
    from cutaway.reports import digests

    if not args.second and not args.sizes:
        return None
    sizes = (args.sizes or "").split(",")
    numbers = [int(text) for text in sizes if text.isdecimal() and int(text)]
    if not args.second or len(numbers) != 2 or len(sizes) != 2:
        raise CutawayError(
            "A second run needs both: --second RUN --sizes FIRST,SECOND."
        )
    return Second(digests.open_run(args.second, raw=False), *numbers)
