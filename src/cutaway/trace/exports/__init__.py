"""A run in the formats of other tools."""

from __future__ import annotations

import importlib
from pathlib import Path

from cutaway.errors import CutawayError
from cutaway.trace.reader import read_run

FORMATS = {"perfetto": ".pftrace", "chrome": ".json", "speedscope": ".speedscope.json", "parquet": ""}
"""The formats and the endings of their files; parquet is a folder."""


def export(run: Path, format: str, output: Path) -> int:
    """Writes a run in another format; returns the number of slices, or of rows for Parquet."""
    if output.exists():
        raise CutawayError(f"{output} exists already; give another name with -o.")
    module = importlib.import_module(f"cutaway.trace.exports.{format}")
    trace = read_run(run)
    if format == "parquet":
        written: int = module.write(trace, output)
        return written
    partial = output.with_name(output.name + ".part")
    try:
        with partial.open("wb") as file:
            count: int = module.write(trace, file)
        partial.rename(output)
    except OSError as error:
        raise CutawayError(f"{output} cannot be written: {error.strerror or error}.") from None
    finally:
        if partial.exists():
            partial.unlink()
    return count
