"""`cutaway export`: a run in the format of another tool."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write a run for other tools: Perfetto, Chrome, speedscope, pprof, Parquet"

_NEXT = {
    "perfetto": "open it at https://ui.perfetto.dev (nothing is uploaded)",
    "chrome": "open it in chrome://tracing or https://ui.perfetto.dev",
    "speedscope": "open it at https://www.speedscope.app (nothing is uploaded)",
    "pprof": "open it with go tool pprof -http=:8080, or a viewer in your editor",
    "parquet": "read the files with DuckDB, Polars or pandas",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", type=Path, help="folder NAME.cutaway")
    what = "format of the output (default: perfetto)"
    where = "file or folder to write (default: NAME with the usual ending)"
    add("-f", "--format", choices=sorted(_NEXT), default="perfetto", help=what)
    add("-o", "--output", type=Path, metavar="FILE", help=where)


def run(args: argparse.Namespace) -> None:
    from cutaway.analysis.exports import FORMATS, export

    stem = args.path.resolve().name.removesuffix(".cutaway")
    output = args.output or Path(stem + (FORMATS[args.format] or ".parquet"))
    count = export(args.path, args.format, output)
    print(f"Wrote {count:,} events to {output}.\nNext: {_NEXT[args.format]}")
