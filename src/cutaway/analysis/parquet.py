"""Writes the tables of a run, and its events one by one, as Parquet files in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from cutaway.analysis.query import TABLES, load
from cutaway.analysis.run import Run
from cutaway.errors import CutawayError
from cutaway.trace.exports.timeline import RL_NAMES, processes
from cutaway.trace.reader import Trace

_EVENT_COLUMNS = (
    "process INTEGER, kind VARCHAR, row VARCHAR, tid BIGINT, time_ns BIGINT, type VARCHAR, name VARCHAR"
)


def write(trace: Trace, folder: Path) -> int:
    """Writes every table of `cutaway query`, and `events`; returns the number of rows of the latter."""
    try:
        folder.mkdir(parents=True)
        # On disk, so that a run of any size fits: DuckDB keeps in memory only what it works on.
        with duckdb.connect(str(folder / "work.duckdb")) as database:
            database.execute("SET memory_limit = '1GB'; SET enable_progress_bar = false")
            load(database, Run(trace), TABLES)
            database.execute(
                "ALTER TABLE operations ADD COLUMN opentelemetry VARCHAR; UPDATE operations SET opentelemetry = "
                + _case("operation")
            )
            rows = _events(database, trace)
            for table in (*TABLES, "events"):
                path = str(folder / f"{table}.parquet").replace("'", "''")
                database.execute(f"COPY {table} TO '{path}' (FORMAT parquet)")
        (folder / "work.duckdb").unlink()
        (folder / "work.duckdb.wal").unlink(missing_ok=True)
    except (OSError, duckdb.Error) as error:
        shutil.rmtree(folder, ignore_errors=True)
        reason = str(error).strip().splitlines()[0]
        raise CutawayError(f"{folder} cannot be written: {reason}.") from None
    return rows


def _case(column: str) -> str:
    whens = " ".join(f"WHEN '{ours}' THEN '{theirs}'" for ours, theirs in RL_NAMES.items())
    return f"CASE {column} {whens} END"


def _events(database: duckdb.DuckDBPyConnection, trace: Trace) -> int:
    database.execute(f"CREATE TABLE events ({_EVENT_COLUMNS})")
    rows = 0
    for index, process in enumerate(processes(trace)):
        for track in process.tracks():
            for slices in track.blocks:
                distinct, where = np.unique(slices.label, return_inverse=True)
                names = np.array([process.text(label) for label in distinct.tolist()], object)
                types = np.array(["", "begin", "end", "instant"], object)
                columns: dict[str, Any] = {
                    "time": slices.time,
                    "type": types[slices.type],
                    "name": names[where],
                }
                database.register("_block", columns)
                database.execute(
                    "INSERT INTO events SELECT ?, ?, ?, ?, time, type, name FROM _block",
                    [index, track.kind, track.title, track.tid],
                )
                database.unregister("_block")
                rows += len(slices.time)
    return rows
