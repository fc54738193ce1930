"""cutaway top: watch a run while it trains."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HELP = "watch a run while it trains"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "path",
        nargs="?",
        metavar="RUN",
        help="folder NAME.cutaway (default: the newest one here)",
    )
    add(
        "--once",
        action="store_true",
        help="print the view once and exit (always so in a pipe)",
    )


def run(args: argparse.Namespace) -> None:
    from cutaway.reports.live import LiveRun, newest_run
    from cutaway.reports.screen import print_once, watch

    live = LiveRun(Path(args.path) if args.path else newest_run(Path()))
    if args.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        print_once(live, sys.stdout)
    else:
        watch(live)
        if live.judge.busy:  # before 3.14 Python aborts when a thread in native code outlives the interpreter
            sys.stdout.flush()
            os._exit(0)
