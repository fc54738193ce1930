"""Writes a run for other tools: one file here for each format, all made from the tracks of timeline.py.

To add a format: NAME.py beside this file, and its row in `FORMATS`.
"""

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    """A format: its title, the ending of its files (a folder has none), what to do with them, and who writes them.

    `writer` is MODULE:FUNCTION; it is given a run and an open file (a folder's path, where there is no ending), and returns how
    many slices or rows it wrote.
    """

    title: str
    ending: str
    open_with: str
    writer: str


_HERE = "cutaway.trace.exports"
_ANALYSED = "cutaway.analysis.exports"
FORMATS = {
    "perfetto": Format(
        "Perfetto",
        ".pftrace",
        "open it at https://ui.perfetto.dev (nothing is uploaded)",
        f"{_HERE}.perfetto:write",
    ),
    "chrome": Format(
        "Chrome",
        ".json",
        "open it in chrome://tracing or https://ui.perfetto.dev",
        f"{_HERE}.chrome:write",
    ),
    "speedscope": Format(
        "speedscope",
        ".speedscope.json",
        "open it at https://www.speedscope.app (nothing is uploaded)",
        f"{_ANALYSED}:write_speedscope",
    ),
    "pprof": Format(
        "pprof",
        ".pb.gz",
        "open it with go tool pprof -http=:8080, or a viewer in your editor",
        f"{_ANALYSED}:write_pprof",
    ),
    "parquet": Format(
        "Parquet",
        "",
        "read the files with DuckDB, Polars or pandas",
        f"{_ANALYSED}:write_parquet",
    ),
}
