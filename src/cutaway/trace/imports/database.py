"""A SQLite file that may be anything, as columns of integers; and the texts it refers to.

Only real tables are read, only columns that are there, and only values that are integers: views and virtual tables could
compute without end.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.imports.columns import (
    MISSING,
    Columns,
    Mapping,
    fields_of,
    paths_of,
    translate,
)
from cutaway.trace.imports.source import Limits

_VERSION = re.compile(r"_v\d+(_pt[ds]\w)?$")
_SERIAL = re.compile(r"(, (op_id|seq|sizes|input_op_ids) = .*)$", re.DOTALL)


class Database:
    """A database that may be anything, as columns of integers, or a CutawayError; texts are numbered, 0 is the empty one."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._rows = 0
        self.skipped = 0
        self.texts = [""]
        self._numbers = {"": 0}
        try:
            uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True)
            self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            self._connection.execute("PRAGMA trusted_schema = OFF")
            query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            self._tables = {str(name) for (name,) in self._connection.execute(query)}
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def close(self) -> None:
        self._connection.close()

    def number(self, text: Any, *, clean: bool = False) -> int:
        """The number of a text; 0 if it is not a text. `clean` leaves out what makes every occurrence different: version suffixes,
        serial numbers of operators."""
        if not isinstance(text, str):
            return 0
        if clean:
            text = _SERIAL.sub("", _VERSION.sub("", text))
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def columns(
        self, table: str, mapping: Mapping, text: str = "", *, clean: bool = False
    ) -> Columns:
        """These columns of a table, MISSING where the schema or the row has none; empty without the table. Rows whose start or
        end is no integer are counted and left out. The column `text` holds texts: their numbers."""
        names = paths_of(mapping)
        known = self._known(table)
        if known and not {"start", "end"} & set(names) <= known:
            raise CutawayError(
                f"{self._path}: table {table} has no column start or end; write or export it again."
            )
        parts = [
            f'CASE typeof("{n}") WHEN \'integer\' THEN "{n}" ELSE :missing END'
            if n in known
            else ":missing"
            for n in names
        ]
        if text:
            parts.append(f'substr("{text}", 1, 4096)' if text in known else "NULL")
            mapping = {**mapping, text: text}
        rows = []
        query = f'SELECT {", ".join(parts)} FROM "{table}"'
        for row in self._run(query, missing=MISSING) if known else ():
            if "start" in names and MISSING in row[:2]:
                self.skipped += 1
            else:
                rows.append(
                    (*row[:-1], self.number(row[-1], clean=clean)) if text else row
                )
        array = np.array(rows, np.int64).reshape(len(rows), len(parts))
        return fields_of(mapping, [column.copy() for column in array.T])

    def suffixes(self, prefix: str) -> list[str]:
        """What follows the prefix in the names of the tables that begin with it.

        Tables of rocprofv3 carry the id of their run there."""
        return sorted(
            name.removeprefix(prefix)
            for name in self._tables
            if name.startswith(prefix)
        )

    def values(
        self, table: str, keys: tuple[str, ...], value: str
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of whole numbers and one number; rows with anything else are counted and left out."""
        if not {*keys, value} <= self._known(table):
            return
        columns = ", ".join(f'"{name}"' for name in (*keys, value))
        for row in self._run(f'SELECT {columns} FROM "{table}"'):
            if all(isinstance(key, int) for key in row[:-1]) and isinstance(
                row[-1], (int, float)
            ):
                yield row
            else:
                self.skipped += 1

    def look_up(self, tables: list[Columns]) -> None:
        """Gives the columns `name` and `short`, which refer to StringIds, the numbers of their texts. StringIds may hold millions of
        other texts."""
        pairs = itertools.product(tables, ("name", "short"))
        named = [(table, key) for table, key in pairs if key in table]
        wanted = set(
            np.unique(np.concatenate([table[key] for table, key in named])).tolist()
        )
        strings: dict[int, int] = {}
        if {"id", "value"} <= self._known("StringIds"):
            query = "SELECT id, substr(value, 1, 4096) FROM StringIds WHERE typeof(id) = 'integer'"
            strings = {
                key: self.number(text, clean=True)
                for key, text in self._run(query)
                if key in wanted
            }
        for table, key in named:
            table[key] = translate(table[key], strings)

    def _known(self, table: str) -> set[str]:
        if table not in self._tables:
            return set()
        return {str(row[1]) for row in self._run(f'PRAGMA table_info("{table}")')}

    def _run(self, query: str, **values: int) -> Iterator[tuple[Any, ...]]:
        try:
            for row in self._connection.execute(query, values):
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
            f"{self._path} cannot be read as a database ({error}); write or export it again."
        )
