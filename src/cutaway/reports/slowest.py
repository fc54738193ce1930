"""`cutaway show --slowest`: the slowest iterations of the main process, and what was different in them."""

from __future__ import annotations

from typing import Any

from cutaway.analysis import Run

from . import text
from .digest import Digest
from .printer import Printer, grid

MOST_CELLS = 3
WORTH_NAMING = 0.02  # of the iteration
Rows = list[dict[str, Any]]


def slowest_rows(run: Run, digest: Digest) -> Rows:
    """The slowest iterations, the worst first; `cells` has every cell, the one that grew most first."""
    origin = min(p.start_ns for p in digest.processes)
    found: dict[int, dict[str, Any]] = {}
    for row in run.slowest().where(process=digest.main_process):
        about = {key: row[key] for key in ("iteration", "start_ns", "end_ns", "steps")}
        about |= {"at_ns": row["start_ns"] - origin, "took_ns": row["end_ns"] - row["start_ns"], "cells": []}
        cells = found.setdefault(row["iteration"], about)["cells"]
        cells.append({key: row[key] for key in ("operation", "layer", "ns", "usual_ns")})
    return list(found.values())


def print_slowest(p: Printer, run: Run, digest: Digest) -> None:
    """A row for each slow iteration: when, how long, and the cells that made it long."""
    rows = slowest_rows(run, digest)
    if not rows:
        remedy = "they are marked by cutaway.iteration() or by a framework that is known"
        p.print(p.text(f"No slow iterations in {digest.path}: too few were recorded; {remedy}."))
        return
    usual = {name: int(values[digest.main_process]) for name, values in run.swept.durations.items()}
    right = [(title, "right") for title in ("iteration", "at", "took")]
    table = grid(p, [*right, ("what was different", "left")])
    for row in rows:
        least = WORTH_NAMING * row["took_ns"]
        grown = [c for c in row["cells"] if c["ns"] - c["usual_ns"] > least][:MOST_CELLS]
        times = (text.duration(row[key]) for key in ("at_ns", "took_ns"))
        for i, cell in enumerate(grown or [None]):
            head = (str(row["iteration"]), *times) if not i else ("", "", "")
            table.add_row(*map(p.text, head), p.text(_difference(cell)))
    middle, most = (text.duration(usual[key]) for key in ("median_ns", "p99_ns"))
    p.print(
        p.text(f"{digest.program}: the slowest of {text.plural(usual['timed'], 'iteration')}", "bold"),
        p.text(f"median {middle}; 99 of 100 take at most {most}"),
        table,
        p.line(f"every cell: cutaway show {digest.path} --slowest --json", "dim"),
    )


def _difference(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "nothing stands out: a little more of everything"
    where = f"{text.operation(cell['operation'])} in {text.layer(cell['layer'])}"
    return f"{where}: {text.duration(cell['ns'])}, usually {text.duration(cell['usual_ns'])}"
