"""A SQLite file that may be anything, as columns of integers; and the texts it refers to.

Only real tables are read, only columns that are there, and only values that are integers: views and virtual tables could
compute without end.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.imports.recorded import MISSING, Columns, Ints, translate
from cutaway.trace.imports.source import Limits

_VERSION = re.compile(r"_v\d+(_pt[ds]\w)?$")
_SERIAL = re.compile(r"(, (op_id|seq|sizes|input_op_ids) = .*)$", re.DOTALL)


class Names:
    """The texts of a file, numbered; 0 is the empty text."""

    def __init__(self) -> None:
        self.texts = [""]
        self._numbers = {"": 0}
        self._strings: dict[int, int] = {}

    def add(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def load(self, database: Database, columns: list[Ints]) -> None:
        """Loads those texts of StringIds that these columns refer to; the table may hold millions of
        others."""
        wanted = set(np.unique(np.concatenate(columns)).tolist())
        for key, text in database.texts("StringIds", "id", "value"):
            if key in wanted:
                self._strings[key] = self.add(clean(text))

    def look_up(self, column: Ints) -> Ints:
        """The numbers of texts given as StringIds."""
        return translate(column, self._strings)


def clean(text: str) -> str:
    """Without what makes every occurrence different: version suffixes, serial numbers of operators."""
    return _SERIAL.sub("", _VERSION.sub("", text))


class Database:
    """A database that may be anything: answers are columns of integers, or a CutawayError."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path, self._limits, self._rows = path, limits, 0
        self.skipped = 0
        try:
            uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True)
            self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            self._connection.execute("PRAGMA trusted_schema = OFF")
            query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            self.tables = {str(name) for (name,) in self._connection.execute(query)}
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def close(self) -> None:
        self._connection.close()

    def columns(self, table: str, names: tuple[str, ...], text: str = "", intern: Any = None) -> Columns:
        """These columns of a table, MISSING where the schema or the row has none; empty without the table.
        Rows whose `start` or `end` is no integer are counted and left out. The column `text` is put through
        `intern`, which gives a number."""
        rows = list(self._select(table, names, text, intern))
        wanted = (*names, text) if text else names
        array = np.array(rows, np.int64).reshape(len(rows), len(wanted))
        return {name: array[:, i].copy() for i, name in enumerate(wanted)}

    def texts(self, table: str, key: str, value: str) -> Iterator[tuple[int, str]]:
        """Pairs of an integer and a text; texts are cut at 4096 characters."""
        if {key, value} <= self._known(table):
            only = f"typeof(\"{key}\") = 'integer'"
            query = f'SELECT "{key}", substr("{value}", 1, 4096) FROM "{table}" WHERE {only}'
            for number, text in self._run(query):
                if isinstance(text, str):
                    yield number, text

    def _known(self, table: str) -> set[str]:
        if table not in self.tables:
            return set()
        return {str(row[1]) for row in self._run(f'PRAGMA table_info("{table}")')}

    def _select(
        self, table: str, names: tuple[str, ...], text: str, intern: Any
    ) -> Iterator[tuple[int, ...]]:
        known = self._known(table)
        if not known:
            return
        if not {"start", "end"} & set(names) <= known:
            raise CutawayError(
                f"{self._path}: table {table} has no column start or end; export it again with nsys."
            )
        parts = [
            f'CASE typeof("{n}") WHEN \'integer\' THEN "{n}" ELSE :missing END' if n in known else ":missing"
            for n in names
        ]
        if text:
            parts.append(f'substr("{text}", 1, 4096)' if text in known else "NULL")
        for row in self._run(f'SELECT {", ".join(parts)} FROM "{table}"', {"missing": MISSING}):
            if "start" in names and MISSING in row[:2]:
                self.skipped += 1
            elif text:
                yield (*row[:-1], intern(row[-1]) if isinstance(row[-1], str) else 0)
            else:
                yield row

    def _run(self, query: str, values: dict[str, int] | None = None) -> Iterator[tuple[Any, ...]]:
        try:
            for row in self._connection.execute(query, values or {}):
                self._rows += 1
                if self._rows > self._limits.events:
                    raise CutawayError(
                        f"{self._path} has more than {self._limits.events} rows; "
                        "if you trust it, raise --max-events."
                    )
                yield row
        except (sqlite3.Error, OverflowError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> CutawayError:
        return CutawayError(
            f"{self._path} cannot be read as a database ({error}); export it again with nsys."
        )
