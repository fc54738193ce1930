"""A table: named NumPy columns of equal length, and the few operations a report needs. `totals` sums without a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway.analysis.renamed import COLUMNS, renamed

K = TypeVar("K")
N = TypeVar("N", int, float)
_SHOWN_ROWS = 20
_SHOWN_WIDTH = 40
_SMALL = 1 << 16  # a range of numbers that needs no sorting


class Table:
    """Named columns. Numbers are NumPy numbers, text is an object column.

    >>> table = Table({"operation": ["inference", "simulation"], "ns": [30, 70]})
    >>> len(table), table["ns"].sum().item()
    (2, 100)
    >>> for row in table.sort("ns", descending=True):
    ...     print(row["operation"], row["ns"])
    simulation 70
    inference 30
    >>> table
    operation   ns
    inference   30
    simulation  70
    """

    def __init__(self, columns: Mapping[str, ArrayLike]) -> None:
        self._columns = {name: _column(values) for name, values in columns.items()}
        lengths = {len(values) for values in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        if lengths:
            self._length = lengths.pop()
        else:
            self._length = 0

    @classmethod
    def from_rows(cls, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
        """A table from tuples, one a row."""
        if not rows:
            return cls({name: [] for name in names})
        columns = {}
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            columns[name] = list(values)
        return cls(columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name in COLUMNS and name not in self._columns:
            name = renamed(COLUMNS, name, "the column ")
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lists = [values.tolist() for values in self._columns.values()]
        for row in zip(*lists, strict=True):
            yield dict(zip(self._columns, row, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def row(self, index: int) -> dict[str, Any]:
        """One row."""
        return {
            name: values[index : index + 1].tolist()[0]
            for name, values in self._columns.items()
        }

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns as lists of plain Python values, ready for JSON: what is not known (NaN) is None."""
        lists = {name: values.tolist() for name, values in self._columns.items()}
        return {name: _without_nan(values) for name, values in lists.items()}

    def select(self, *names: str) -> Table:
        """Only these columns, in this order."""
        return Table({name: self._columns[name] for name in names})

    def with_columns(self, columns: Mapping[str, ArrayLike]) -> Table:
        """The same with more columns, or others in the place of those of the same name."""
        return Table({**self._columns, **columns})

    def where(self, mask: NDArray[np.bool_] | None = None, **equal: Any) -> Table:
        """The rows where `mask` is true and each named column has the given value."""
        if mask is None:
            keep = np.ones(self._length, bool)
        else:
            keep = np.asarray(mask, bool)
        for name, value in equal.items():
            keep = keep & (self._columns[name] == value)
        return Table({name: values[keep] for name, values in self._columns.items()})

    def sort(self, *names: str, descending: bool = False) -> Table:
        """Rows ordered by these columns; equal rows keep their order."""
        order = np.arange(self._length)
        for name in reversed(names):
            values = self._columns[name][order]
            keys = np.unique(values, return_inverse=True)[1]
            order = order[np.argsort(-keys if descending else keys, kind="stable")]
        return Table({name: values[order] for name, values in self._columns.items()})

    @classmethod
    def concat(cls, tables: Sequence[Table]) -> Table:
        """Tables of the same columns, one below the other."""
        names = tables[0].columns
        filled = [table for table in tables if len(table)] or tables[:1]
        columns = {}
        for name in names:
            columns[name] = np.concatenate([table[name] for table in filled])
        return cls(columns)

    def head(self, n: int) -> Table:
        """The first `n` rows."""
        return Table({name: values[:n] for name, values in self._columns.items()})

    def group(self, by: Sequence[str], sums: Sequence[str]) -> Table:
        """One row for each combination of `by`, in order of first appearance, with `sums` added up."""
        first, inverse = self.groups(by)
        out: dict[str, NDArray[Any]] = {name: self._columns[name][first] for name in by}
        for name in sums:
            values = self._columns[name]
            totals = np.zeros(len(first), values.dtype)
            np.add.at(totals, inverse, values)
            out[name] = totals
        return Table(out)

    def groups(self, by: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first row of each combination of `by`, in order of appearance; and the combination of each row."""
        code = np.zeros(self._length, np.int64)
        size = 1
        for name in by:
            keys = _codes(self._columns[name])
            most = int(keys.max(initial=0)) + 1
            code = code * most + keys
            size = size * most
            if size > _SMALL + 4 * self._length:
                code = np.unique(code, return_inverse=True)[1]
                size = int(code.max(initial=0)) + 1
        rows = np.arange(self._length)
        seen = np.full(size, -1)
        seen[code[::-1]] = rows[
            ::-1
        ]  # of equal ones the last that is written stays: the first row
        first = np.sort(seen[seen >= 0])
        seen[code[first]] = rows[: len(first)]
        return first, seen[code]

    def __repr__(self) -> str:
        shown = self.head(_SHOWN_ROWS)
        cells = [[name, *map(_text, shown[name].tolist())] for name in self.columns]
        for column, name in zip(cells, self.columns, strict=True):
            width = max(map(len, column))
            number = np.issubdtype(self[name].dtype, np.number)
            column[:] = [
                cell.rjust(width) if number else cell.ljust(width) for cell in column
            ]
        lines = ["  ".join(row).rstrip() for row in zip(*cells, strict=True)]
        more = self._length - _SHOWN_ROWS
        return "\n".join([*lines, f"… {more} more rows"] if more > 0 else lines)


def _without_nan(values: list[Any]) -> list[Any]:
    return [None if value != value else value for value in values]


def totals(pairs: Iterable[tuple[K, N]]) -> dict[K, N]:
    """Adds up values by key.

    >>> totals([("a", 1), ("b", 2), ("a", 3)])
    {'a': 4, 'b': 2}
    """
    out: dict[K, N] = {}
    for key, value in pairs:
        if key in out:
            out[key] = out[key] + value
        else:
            out[key] = value
    return out


def _column(values: ArrayLike) -> NDArray[Any]:
    if isinstance(values, np.ndarray) and values.dtype.kind != "U":
        return values
    listed = list(values)  # type: ignore[arg-type]
    if listed and all(isinstance(v, (int, float, np.number, np.bool_)) for v in listed):
        return np.asarray(listed)
    return objects([str(v) if isinstance(v, np.str_) else v for v in listed])


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """A column of texts."""
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _codes(values: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each distinct value; looking texts up is faster than sorting them; small numbers are used directly."""
    if values.dtype.kind in "ui" and len(values):
        low = int(values.min())
        high = int(values.max())
        if high - low < _SMALL and high < 1 << 62:
            return values.astype(np.int64) - low
    if values.dtype != object:
        return np.unique(values, return_inverse=True)[1]
    known: dict[Any, int] = {}
    codes = []
    for value in values.tolist():
        codes.append(known.setdefault(value, len(known)))
    return np.array(codes, np.int64)


def _text(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = str(value)
    if len(text) <= _SHOWN_WIDTH:
        return text
    return text[: _SHOWN_WIDTH - 1] + "…"
