"""cutaway report: the page, one HTML file that needs nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

from cutaway.commands import write_page

HELP = "write a run as one HTML page that works offline"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help="folder NAME.cutaway")
    add("-o", "--output", metavar="FILE", help="where to write it (default: NAME.html)")
    add("--source", action="store_true", help="quote the source lines of the hotspots")


def run(args: argparse.Namespace) -> int:
    from cutaway.reports.page.data import build_page
    from cutaway.reports.text import size

    path = Path(args.output) if args.output else Path(args.path.rstrip("/")).with_suffix(".html")
    write_page(path, build_page(args.path, source=args.source))
    print(f"wrote {path} ({size(path.stat().st_size)}); open it in any browser, no network needed")
    return 0
