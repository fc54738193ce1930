"""cutaway report: the page, one HTML file that needs nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

from cutaway.commands import say, write_page
from cutaway.commands.show import RUN

HELP = "write a run as one HTML page that works offline"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help=RUN)
    add("-o", "--output", metavar="FILE", help="where to write it (default: NAME.html)")
    add(
        "--source", action="store_true", help="quote the source lines of the call sites"
    )


def run(args: argparse.Namespace) -> None:
    from cutaway.cluster.in_place import SCHEME, local_view
    from cutaway.reports.page.data import build_page
    from cutaway.reports.text import size

    default = Path(args.path.rstrip("/")).with_suffix(".html")
    path = Path(
        args.output or (default.name if args.path.startswith(SCHEME) else default)
    )
    with local_view(args.path, say) as folder:
        page = build_page(folder, source=args.source)
    write_page(path, page)
    print(
        f"wrote {path} ({size(path.stat().st_size)}); open it in any browser, no network needed"
    )
