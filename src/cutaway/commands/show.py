"""cutaway show: what bounds a run and where its time goes, in the terminal."""

from __future__ import annotations

import argparse
import json
import sys

HELP = "print what bounds a run and where its time goes"
BY = ("process", "operation", "layer", "line", "function", "callsite", "kernel", "transition", "wait")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", help="folder NAME.cutaway")
    parser.add_argument("--by", choices=BY, help="print this table instead of the summary")
    parser.add_argument(
        "--why", action="store_true", help="who named each operation: you, a framework, a rule"
    )
    parser.add_argument("--json", action="store_true", help="for machines; the schema is in docs/show.md")
    parser.add_argument("--raw", action="store_true", help="do not remove the recorder's own cost")


def run(args: argparse.Namespace) -> int:
    from cutaway.reports import gather, tables, terminal
    from cutaway.reports.digest import SCHEMA
    from cutaway.reports.printer import Printer

    opened = gather.open_run(args.path, raw=args.raw)
    digest = gather.digest(opened)
    by = "why" if args.why else args.by
    if args.json:
        rows = tables.VIEWS[by].rows(opened.steady(), digest) if by else []
        json.dump({"schema": SCHEMA, "by": by, "rows": rows} if by else digest.plain(), sys.stdout, indent=1)
        print()
    elif by:
        tables.print_view(Printer(sys.stdout), opened.steady(), digest, by)
    else:
        terminal.print_summary(digest, sys.stdout, raw=args.raw)
    return 0
