"""`cutaway import`: makes a run from traces of other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cutaway.errors import CutawayError

HELP = "make a run from traces of other tools (Kineto, Nsight, XPlane, rocprofv3)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        type=Path,
        help="trace files; together they make one run",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="RUN",
        help="folder to write (default: FILE.cutaway)",
    )
    ratio = "refuse files that unpack to more than this many times their size (default: 200)"
    add("--max-ratio", type=int, default=200, help=ratio)
    size = "refuse files larger than this, unpacked (default: 65536)"
    add("--max-size", type=int, default=65536, metavar="MB", help=size)
    events = "refuse files with more events (default: 20000000)"
    add("--max-events", type=int, default=20_000_000, help=events)


def run(args: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from cutaway.trace.imports import Limits, import_files
    from cutaway.trace.imports.source import total_size

    for path in args.files:
        if not path.exists():
            raise CutawayError(f"There is no file {path}; check the path.")
    name = args.files[0].name
    for ending in (".gz", ".json", ".sqlite", ".pb", ".xplane", ".pt.trace"):
        name = name.removesuffix(ending)
    output = args.output or Path(f"{name or 'imported'}.cutaway")
    limits = Limits(
        ratio=args.max_ratio, size=args.max_size << 20, events=args.max_events
    )
    hidden = not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("Reading", total=total_size(args.files))
        formats = import_files(
            args.files, output, limits, lambda read: bar.update(task, completed=read)
        )
    what = ", ".join(
        f"{path.name} ({kind})" for path, kind in zip(args.files, formats, strict=True)
    )
    print(f"Imported {what}.\nNext: cutaway show {output}")
