"""Figures as a file in Prometheus' text format, for node_exporter's textfile collector or any scraper of files."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

from cutaway.reports.metrics import HELP, Figure


class Writer:
    """Replaces the file as a whole, so that nobody reads half of it."""

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run = path, run
        path.parent.mkdir(parents=True, exist_ok=True)
        self([])

    def __call__(self, figures: list[Figure]) -> None:
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}")  # a collector reads *.prom
        new.write_text(exposition(figures, self._run), encoding="utf-8")
        new.replace(self._path)


def exposition(figures: list[Figure], run: str) -> str:
    """The text; every line carries the name of the run.

    >>> print(exposition([Figure("share", 0.5, (("operation", 'my "own"'),))], "pong"), end="")
    # HELP cutaway_share Share of the time of the processes of a role that goes into an operation.
    # TYPE cutaway_share gauge
    cutaway_share{run="pong",operation="my \\"own\\""} 0.5
    """
    lines = []
    for name, same in groupby(sorted(figures, key=lambda figure: figure.name), lambda figure: figure.name):
        lines += [f"# HELP cutaway_{name} {HELP[name]}", f"# TYPE cutaway_{name} gauge"]
        lines += [f"cutaway_{name}{{{_labels(figure, run)}}} {figure.value!r}" for figure in same]
    return "".join(line + "\n" for line in lines)


def _labels(figure: Figure, run: str) -> str:
    return ",".join(f'{key}="{_escape(value)}"' for key, value in (("run", run), *figure.labels))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
