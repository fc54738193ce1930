"""cutaway mcp: a Model Context Protocol server over stdio, for coding agents."""

from __future__ import annotations

import argparse
from pathlib import Path

from cutaway.errors import CutawayError

HELP = "serve runs to coding agents over the Model Context Protocol (stdio)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--folder",
        type=Path,
        default=Path(),
        help="the one folder it may read (default: this one)",
    )
    add(
        "--allow-record",
        action="store_true",
        help="let clients run Python programs in that folder",
    )


def run(args: argparse.Namespace) -> None:
    try:
        from cutaway.agents.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "pydantic"):
            raise
        raise CutawayError(
            "the server needs the package mcp: pip install 'cutaway[mcp]'."
        ) from None
    serve(args.folder, args.allow_record)
