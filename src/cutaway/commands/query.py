"""`cutaway query`: SQL over the tables of a run."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutaway.commands import UsageError
from cutaway.reports.text import clean

HELP = "query a run with SQL (tables: processes, operations, cells, kernels, …)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", type=Path, help="folder NAME.cutaway")
    add(
        "sql",
        metavar="SQL",
        help='for example "SELECT operation, sum(ns) FROM cells GROUP BY 1"',
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of objects")
    form.add_argument(
        "--csv", action="store_true", help="comma-separated values (default when piped)"
    )
    add(
        "--memory",
        default="1GB",
        help="how much memory the query may use (default: 1GB)",
    )


def run(args: argparse.Namespace) -> None:
    import cutaway
    from cutaway.analysis.query import query
    from cutaway.reports.comparison import plain

    if not re.fullmatch(r"\d+(\.\d+)?\s*[kKmMgGtT]i?[bB]", args.memory):
        raise UsageError(
            f"--memory {args.memory} is not a size; write something like 2GB."
        )
    table = query(cutaway.open(args.path), _text(args.sql), args.memory)
    if args.json:
        print(json.dumps(plain(list(table)), indent=1, default=str))
        return
    rows: Iterable[list[Any]] = (list(row.values()) for row in table)
    terminal = sys.stdout.isatty()
    if terminal:  # Files keep what a trace says; a terminal would obey it.
        rows = (list(map(_harmless, row)) for row in rows)
    if terminal and not args.csv:
        _show(list(table.columns), list(rows))
    else:
        writer = csv.writer(sys.stdout)
        writer.writerow(table.columns)
        writer.writerows(rows)


def _text(argument: str) -> str:
    """What the shell passed, which is UTF-8 also where the locale (`LC_ALL=C`) denies it."""
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("The query is not valid UTF-8.") from None


def _harmless(value: Any) -> Any:
    """A value without anything that could steer a terminal."""
    if isinstance(value, (int, float, type(None))):
        return value
    return clean(str(value))


def _show(names: list[str], rows: list[list[Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(names):
        numeric = all(isinstance(row[index], (int, float, type(None))) for row in rows)
        shown.add_column(
            escape(_harmless(name)),
            justify="right" if numeric else "left",
            overflow="fold",
        )
    for row in rows:
        shown.add_row(
            *(
                escape(f"{v:,}" if isinstance(v, int) and v is not True else str(v))
                for v in row
            )
        )
    Console(highlight=False).print(shown)
