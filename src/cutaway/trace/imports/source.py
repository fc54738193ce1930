"""Opens a foreign file, and hands out its bytes unpacked, or chosen parts of its JSON as columns.

Limits are checked while reading: a small file that unpacks to terabytes costs a second, not the machine.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cutaway import _imports
from cutaway.errors import CutawayError
from cutaway.trace.imports.columns import (
    MISSING,
    Columns,
    Ints,
    Mapping,
    fields_of,
    paths_of,
)

CHUNK = 1 << 20
_TEXT_BYTES = 4096  # of a name; the rest is cut off
_TAKE_ROWS = 1 << 16

Progress = Callable[
    [int], None
]  # called with the number of bytes of the file that have been read


@dataclass(frozen=True)
class Limits:
    """Limits above which a file is refused. Raise a limit only for files you trust."""

    ratio: int = 200  # unpacked size over packed size; JSON traces reach about 40
    size: int = 64 << 30  # unpacked bytes
    events: int = 20_000_000  # each costs about 350 bytes of memory
    names: int = 256 << 20  # bytes of distinct names
    depth: int = 64  # nesting of a JSON document


def is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def read_chunks(
    path: Path, limits: Limits, progress: Progress, size: int = CHUNK
) -> Iterator[bytes]:
    """The content of a file in parts of this size, unpacked if it is gzip."""
    try:
        packed = is_gzip(path)
        with path.open("rb") as file:
            content: Any = gzip.GzipFile(fileobj=file) if packed else file
            unpacked = 0
            while chunk := content.read(size):
                unpacked += len(chunk)
                if unpacked > limits.size:
                    raise CutawayError(
                        f"{path} is larger than {limits.size >> 20} MB; if you trust it, raise --max-size."
                    )
                if unpacked > 64 * CHUNK and unpacked > file.tell() * limits.ratio:
                    raise CutawayError(
                        f"{path} unpacks to more than {limits.ratio} times its size; "
                        "if you trust it, raise --max-ratio."
                    )
                yield chunk
                progress(file.tell())
    except EOFError:
        raise CutawayError(
            f"{path} is cut off: its gzip data ends early; copy it again."
        ) from None
    except (zlib.error, gzip.BadGzipFile):
        raise CutawayError(
            f"{path} is damaged: its gzip data cannot be unpacked; copy it again."
        ) from None
    except OSError as error:
        raise CutawayError(
            f"{path} cannot be read: {error.strerror or error}."
        ) from None


def total_size(paths: list[Path]) -> int:
    """Bytes of all files together, for a progress bar."""
    return sum(p.stat().st_size for p in paths if p.is_file())


@dataclass(frozen=True)
class Spec:
    """One table of a JSON file: where its rows lie, and which columns are wanted, by kind.

    Paths are written with slashes; `[]` stands for any element of an array and `0`, `1` … for a certain one. Kinds: text
    (numbered), int, micro (decimal µs as ns), raw (the JSON of a list or object, as a text), outer (a number beside the rows).
    """

    rows: tuple[str, ...]
    text: Mapping = field(default_factory=dict)
    int: Mapping = field(default_factory=dict)
    micro: Mapping = field(default_factory=dict)
    raw: Mapping = field(default_factory=dict)
    outer: Mapping = field(default_factory=dict)


def read_tables(
    path: Path, specs: list[Spec], limits: Limits, progress: Progress
) -> tuple[list[Columns], list[str]]:
    """The columns of every table, and the texts that columns of kind text refer to. Memory depends on the rows alone."""
    parser = _imports.JsonTables(limits.depth, _TEXT_BYTES, limits.names)
    for spec in specs:
        kinds = ("text", "int", "micro", "raw", "outer")
        wanted = []
        for kind in kinds:
            wanted += [(path, kind) for path in paths_of(getattr(spec, kind))]
        parser.add_table(
            [_keys(p) for p in spec.rows], [(_keys(p), kind) for p, kind in wanted]
        )
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
        raise CutawayError(
            f"{path} is not a complete trace ({error}); write or copy it again."
        ) from None
    tables = []
    for table, (spec, part) in enumerate(zip(specs, parts, strict=True)):
        part.append(parser.take(table))
        # Each part of a column is given up as soon as it has been copied.
        joined = []
        for _ in range(len(part[0])):
            joined.append(np.concatenate([columns.pop() for columns in part]))
        named = spec.text | spec.int | spec.micro | spec.raw | spec.outer
        tables.append(fields_of(named, joined[::-1]))
    return tables, parser.take_strings()


def _keys(path: str) -> list[str]:
    if path:
        return path.split("/")
    return []


def rows_of(columns: Columns, texts: list[str], *named: str) -> list[dict[str, Any]]:
    """A small table as dictionaries without what is missing; the columns in `named` are texts."""
    found = []
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        row = zip(columns, values, strict=True)
        found.append(
            {
                n: texts[v] if n in named else v
                for n, v in row
                if n in named or v != MISSING
            }
        )
    return found
