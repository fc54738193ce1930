"""Reads chosen parts of a large JSON file as columns, with memory that depends on the rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cutaway import _imports
from cutaway.errors import CutawayError
from cutaway.trace.imports.recorded import MISSING, Columns, Ints
from cutaway.trace.imports.source import Limits, Progress, read_chunks

_TEXT_BYTES = 4096  # of a name; the rest is cut off
_TAKE_ROWS = 1 << 16


@dataclass(frozen=True)
class Spec:
    """One table: where its rows lie and what is wanted of each.

    Paths are written with slashes; `[]` stands for any element of an array and `0`, `1` … for a certain
    one. A column is called as its path. Kinds: text (numbered), int, micro (decimal µs as ns), raw (the JSON
    of a list or object, as a text).
    """

    rows: tuple[str, ...]
    text: tuple[str, ...] = ()
    int: tuple[str, ...] = ()
    micro: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    outer: tuple[str, ...] = ()

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Path and kind of every column, in order."""
        kinds = ("text", "int", "micro", "raw", "outer")
        return [(path, kind) for kind in kinds for path in getattr(self, kind)]


def read_tables(
    path: Path, specs: list[Spec], limits: Limits, progress: Progress
) -> tuple[list[Columns], list[str]]:
    """The columns of every table, and the texts that columns of kind text refer to."""
    parser = _imports.JsonTables(limits.depth, _TEXT_BYTES, limits.names)
    for spec in specs:
        parser.add_table([_keys(p) for p in spec.rows], [(_keys(p), kind) for p, kind in spec.columns])
    parts: list[list[list[Ints]]] = [[] for _ in specs]
    taken = 0
    try:
        for chunk in read_chunks(path, limits, progress):
            parser.feed(chunk)
            for table, part in enumerate(parts):
                if parser.rows(table) >= _TAKE_ROWS:
                    part.append(parser.take(table))
                    taken += len(part[-1][0])
            if taken > limits.events:
                raise CutawayError(
                    f"{path} has more than {limits.events} events; if you trust it, raise --max-events."
                )
        parser.finish()
    except _imports.ParseError as error:
        raise CutawayError(f"{path} is not a complete trace ({error}); write or copy it again.") from None
    for table, part in enumerate(parts):
        part.append(parser.take(table))
    named = [_join(spec, part) for spec, part in zip(specs, parts, strict=True)]
    return named, parser.take_strings()


def _join(spec: Spec, parts: list[list[Ints]]) -> Columns:
    """Whole columns from parts, each part of a column given up as soon as it has been copied."""
    joined: Columns = {}
    for path, _ in reversed(spec.columns):
        joined[path] = np.concatenate([part.pop() for part in parts])
    return joined


def _keys(path: str) -> list[str]:
    return path.split("/") if path else []


def rows_of(columns: Columns, texts: list[str], text: tuple[str, ...]) -> list[dict[str, int | str]]:
    """A small table as dictionaries without what is missing; the columns named in `text` as texts."""
    found = []
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        row = zip(columns, values, strict=True)
        found.append({n: texts[v] if n in text else v for n, v in row if n in text or v != MISSING})
    return found
