"""`cutaway export`: a run in the format of another tool."""

from __future__ import annotations

import argparse
from pathlib import Path

from cutaway.trace.exports import FORMATS

HELP = "write a run for other tools: " + ", ".join(
    format.title for format in FORMATS.values()
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", type=Path, help="folder NAME.cutaway")
    what = "format of the output (default: perfetto)"
    where = "file or folder to write (default: NAME with the usual ending)"
    add("-f", "--format", choices=sorted(FORMATS), default="perfetto", help=what)
    add("-o", "--output", type=Path, metavar="FILE", help=where)


def run(args: argparse.Namespace) -> None:
    from cutaway.analysis.exports import export

    stem = args.path.resolve().name.removesuffix(".cutaway")
    chosen = FORMATS[args.format]
    output = args.output or Path(stem + (chosen.ending or f".{args.format}"))
    count = export(args.path, args.format, output)
    print(f"Wrote {count:,} events to {output}.\nNext: {chosen.open_with}")
