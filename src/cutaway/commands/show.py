"""cutaway show: what bounds a run and where its time goes, in the terminal."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace

from cutaway.commands import UsageError, say

RUN = "folder NAME.cutaway, or ray://HOST:PORT/PATH to leave its parts on the nodes of a Ray cluster"
HELP = "show what limits a run and where its time goes"
BY = (
    "process",
    "operation",
    "layer",
    "line",
    "function",
    "callsite",
    "kernel",
    "counter",
    "transition",
    "memory",
    "device-memory",
    "wait",
    "rollout",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help=RUN)
    add("--by", choices=BY, help="print this table instead of the summary")
    below = "with --by line or function: list what each spends its time on, native calls among it"
    add("--calls", action="store_true", help=below)
    add(
        "--why",
        action="store_true",
        help="who named each operation: you, a framework, a rule",
    )
    add(
        "--over-time",
        action="store_true",
        help="print the pace and the operations from start to end",
    )
    # What 0.1 called it.
    add("--over", choices=("time",), dest="over_time", help=argparse.SUPPRESS)
    add(
        "--slowest",
        action="store_true",
        help="print the slowest iterations and what was different in them",
    )
    add(
        "--brief",
        action="store_true",
        help="at most 60 plain lines, for coding agents; with --json the same",
    )
    add("--json", action="store_true", help="for scripts; docs/show.md describes it")
    add("--raw", action="store_true", help="do not remove the recorder's own cost")


def chosen_view(args: argparse.Namespace) -> str | None:
    """The view to show instead of the summary, if one was asked for."""
    if args.why:
        return "why"
    if args.by:
        return str(args.by)
    if args.over_time:
        return "time"
    if args.slowest:
        return "slowest"
    return None


def run(args: argparse.Namespace) -> None:
    from cutaway.cluster.in_place import local_view
    from cutaway.reports import brief, decisions, digests, progress, tables, terminal
    from cutaway.reports.digest import SCHEMA
    from cutaway.reports.printer import Printer

    if args.calls and args.by not in ("line", "function"):
        raise UsageError("--calls goes with --by line or --by function.")
    view = chosen_view(args)
    if args.brief and view:
        raise UsageError(
            "--brief is a summary of its own; leave out --by, --why, --over-time and --slowest."
        )
    printer = Printer(sys.stdout)
    with local_view(args.path, say) as path:
        opened = digests.open_run(path, raw=args.raw)
        digest = digests.digest_of(opened)
        if path != args.path:
            digest = replace(digest, program=replace(digest.program, path=args.path))
        if args.brief:
            found = brief.brief(opened, digest)
            print(
                json.dumps(found, indent=1)
                if args.json
                else "\n".join(brief.lines(found))
            )
        elif args.json:
            if view == "time":
                rows = [asdict(stretch) for stretch in digest.stretches]
            elif view == "slowest":
                rows = progress.slowest_rows(opened, digest)
            elif view:
                rows = tables.VIEWS[view].rows(opened.steady(), digest)
            if view:
                found = {"schema": SCHEMA, "by": view, "rows": rows}
            else:
                found = digest.plain()
            json.dump(found, sys.stdout, indent=1)
            print()
        elif view == "time":
            progress.print_over_time(printer, digest)
        elif view == "slowest":
            progress.print_slowest(printer, opened, digest)
        elif view:
            tables.print_view(printer, opened.steady(), digest, view, args.calls)
            if args.why:
                decisions.print_decisions(printer, opened)
        else:
            terminal.print_summary(digest, sys.stdout, raw=args.raw)
