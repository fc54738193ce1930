"""Columns of foreign tables under our names, whatever file they come from: what is missing, what does not fit, when it was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _imports
from cutaway.trace.format import Structured

Ints = NDArray[np.int64]
Columns = dict[str, Ints]
Mapping = dict[str, str | tuple[str, ...]]
"""Our names of columns, and the columns of a foreign table they come from: one, or three for a shape."""

MISSING: int = _imports.MISSING  # in a column of a reader: the record did not say
LAST_TIME = 1 << 62  # times beyond this, or below 0, are invalid


def paths_of(mapping: Mapping) -> list[str]:
    """All foreign columns of a mapping, in order."""
    found: list[str] = []
    for paths in mapping.values():
        found += [paths] if isinstance(paths, str) else paths
    return found


def fields_of(mapping: Mapping, columns: list[Ints]) -> Columns:
    """The columns of `paths_of` under our names; those of a shape become one."""
    rest = iter(columns)
    found = {}
    for name, paths in mapping.items():
        if isinstance(paths, str):
            found[name] = next(rest)
        else:
            found[name] = np.stack([next(rest) for _ in paths], axis=1)
    return found


def records(dtype: np.dtype[Any], rows: Columns, **known: Any) -> Structured:
    """Records of those columns that the dtype has, and of columns or single values that are `known`; what is missing or does
    not fit becomes 0."""
    out = np.zeros(len(rows["start"]), dtype)
    for name, column in {**rows, **known}.items():
        if name in dtype.fields:  # type: ignore[operator]
            values = np.asarray(column)
            top = min(np.iinfo(dtype[name].base).max, np.iinfo(np.int64).max)
            out[name] = np.where((values < 0) | (values > top), 0, values)
    return out


def matching(pattern: re.Pattern[str], texts: list[str]) -> NDArray[np.bool_]:
    """In which texts a pattern is found."""
    return np.array([bool(pattern.search(text)) for text in texts], bool)


def translate(column: Ints, table: dict[int, int]) -> Ints:
    """Each number mapped by a table; 0 where the table has no entry."""
    distinct, where = np.unique(column, return_inverse=True)
    return np.array([table.get(i, 0) for i in distinct.tolist()], np.int64)[where]


@dataclass
class Clock:
    """Places rows with a start and an end in time, and counts those that cannot be placed."""

    epoch: int = 0
    negative: int = 0
    unusable: int = 0

    def place(self, rows: Columns) -> Columns:
        """The rows with a usable time, on our clock."""
        start = rows["start"]
        end = rows["end"]
        fine = (start >= 0) & (end >= 0) & (start < LAST_TIME - self.epoch)
        fine[fine] = end[fine] - start[fine] < LAST_TIME
        if fine.all():
            placed = rows
        else:
            placed = {name: column[fine] for name, column in rows.items()}
        self.negative += int((placed["end"] < placed["start"]).sum())
        self.unusable += int((~fine).sum())
        ends = np.maximum(placed["start"], placed["end"])
        return {
            **placed,
            "start": placed["start"] + self.epoch,
            "end": ends + self.epoch,
        }
