"""SQL over the tables of a run. DuckDB gets copies of the tables and nothing else: no files, no network."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from cutaway.analysis.renamed import COLUMNS
from cutaway.analysis.renamed import TABLES as OLD_TABLES
from cutaway.analysis.table import Table
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_NAMES = "processes threads operations cells transitions kernels counters samples iterations waits callsites".split()
TABLES: dict[str, Callable[[Run], Table]] = {
    name: methodcaller(name) for name in _NAMES
}
"""The tables a query may use: methods of a run of the same name, and `cells`."""
TABLES["cells"] = methodcaller(
    "breakdown", by=("process", "thread", "phase", "operation", "layer", "resource")
)


def query(run: Run, sql: str, memory: str = "1GB") -> Table:
    """The answer to one SELECT over the tables of a run.

    >>> query(run, "SELECT count(*) AS n FROM processes")["n"].tolist()
    [3]
    """
    words = re.findall(r"\w+", sql.lower())
    asked = {OLD_TABLES.get(word, word) for word in words}
    named = TABLES.keys() & asked
    with duckdb.connect(":memory:") as database:
        database.execute(f"SET memory_limit = '{memory}'")
        database.execute(
            "SET temp_directory = ''"
        )  # else files in ./.tmp could be read and written
        load(
            database, run, sorted(named or TABLES)
        )  # SHOW TABLES names none and means all
        _add_old_names(database, words)
        for setting in (
            "enable_progress_bar",
            "python_enable_replacements",
            "enable_external_access",
        ):
            database.execute(f"SET {setting} = false")
        database.execute("SET lock_configuration = true")
        try:
            return _answer(database, sql, memory)
        except duckdb.Error as error:
            reason = str(error).strip().splitlines()[0]
            raise CutawayError(
                f"The query failed: {reason}; the tables are {', '.join(TABLES)}."
            ) from None


def _add_old_names(database: duckdb.DuckDBPyConnection, words: list[str]) -> None:
    """Gives tables and columns that a query calls by their old names these names, too."""
    for old, new in COLUMNS.items():
        for table in tables_with(database, new) if old in words else ():
            database.execute(f"ALTER TABLE {table} ADD COLUMN {old} DOUBLE")
            database.execute(f"UPDATE {table} SET {old} = {new}")
    for old, new in OLD_TABLES.items():
        if old in words:
            database.execute(f"CREATE VIEW {old} AS SELECT * FROM {new}")


def tables_with(database: duckdb.DuckDBPyConnection, column: str) -> list[str]:
    """The tables that have a column."""
    asked = "SELECT table_name FROM duckdb_columns() WHERE column_name = ?"
    return [name for (name,) in database.execute(asked, [column]).fetchall()]


def load(database: duckdb.DuckDBPyConnection, run: Run, names: Iterable[str]) -> None:
    """Makes tables of a run in a database."""
    for name in names:
        table = TABLES[name](run)
        columns = {
            column: np.ascontiguousarray(table[column]) for column in table.columns
        }
        chosen = ", ".join(
            f'{_expression(name, values)} AS "{name}"'
            for name, values in columns.items()
        )
        database.register("_columns", columns)
        database.execute(f"CREATE TABLE {name} AS SELECT {chosen} FROM _columns")
        database.unregister("_columns")


def _expression(name: str, values: np.ndarray[Any, Any]) -> str:
    """A column as SQL: positions among objects become text, and what is unknown (NaN) is NULL."""
    if values.dtype.kind == "O":
        return f'"{name}"::VARCHAR'
    if values.dtype.kind == "f":
        return f"nullif(\"{name}\", 'NaN'::DOUBLE)"
    return f'"{name}"'


def _answer(database: duckdb.DuckDBPyConnection, sql: str, memory: str) -> Table:
    statements = database.extract_statements(sql)
    allowed = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    # Older versions of DuckDB take these for a SELECT.
    other = re.match(r"\s*(pragma|call)\b", sql, re.IGNORECASE)
    if len(statements) != 1 or statements[0].type not in allowed or other:
        raise CutawayError("A query must be one SELECT; it cannot change the run.")
    result = database.execute(statements[0])
    names = [str(column[0]) for column in result.description or []]
    counts = [names[: i + 1].count(name) for i, name in enumerate(names)]
    number, prefix, binary = re.match(
        r"([\d.]+)\s*([kmgt])(i?)b", memory.lower()
    ).groups()  # type: ignore[union-attr]
    left = int(float(number) * (1024 if binary else 1000) ** ("kmgt".index(prefix) + 1))
    rows: list[tuple[Any, ...]] = []
    while part := result.fetchmany(2048):
        left -= sum(
            64 + sum(map(sys.getsizeof, row)) for row in part
        )  # a tuple, and its values
        if left < 0:
            raise CutawayError(
                "The answer is larger than --memory allows; ask for less, e.g. with LIMIT 1000."
            )
        rows += part
    # Names that occur twice get a number.
    return Table.from_rows(
        [n if c == 1 else f"{n}_{c}" for n, c in zip(names, counts, strict=True)], rows
    )
