"""A run in the formats of other tools."""

from __future__ import annotations

import importlib
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import duckdb
import numpy as np

from cutaway.analysis.query import TABLES, load
from cutaway.analysis.run import Run
from cutaway.analysis.stacks import Part
from cutaway.errors import CutawayError
from cutaway.trace.exports import FORMATS, pprof, speedscope
from cutaway.trace.exports.timeline import RL_NAMES, processes
from cutaway.trace.reader import Trace, read_run


def export(run: Path, format: str, output: Path) -> int:
    """Writes a run in another format; returns the number of slices, or of rows."""
    if output.exists():
        raise CutawayError(f"{output} already exists; choose another name with -o.")
    chosen = FORMATS[format]
    module, _, function = chosen.writer.partition(":")
    write = getattr(importlib.import_module(module), function)
    trace = read_run(run)
    if not chosen.ending:
        return int(write(trace, output))
    return _write_file(write, trace, output)


def _write_file(
    write: Callable[[Trace, BinaryIO], int], trace: Trace, output: Path
) -> int:
    """Leaves a whole file or none."""
    partial = output.with_name(output.name + ".part")
    try:
        with open_private(partial) as file:
            count = write(trace, file)
        partial.rename(output)
    except OSError as error:
        raise CutawayError(
            f"{output} cannot be written: {error.strerror or error}."
        ) from None
    finally:
        if partial.exists():
            partial.unlink()
    return count


def open_private(path: Path) -> BinaryIO:
    """A new file that only its owner can read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def write_speedscope(trace: Trace, file: BinaryIO) -> int:
    """The slices of all threads, and a flame graph for each process."""
    return speedscope.write(trace, file, flames(Run(trace)))


def write_pprof(trace: Trace, file: BinaryIO) -> int:
    """All stacks of a run, with their corrected time."""
    run = Run(trace)
    rows = run.processes()
    names = {row["process"]: row["name"] or f"pid {row['pid']}" for row in rows}
    start, stop = run.span
    made = (_pprof_stack(part, names[part.process]) for part in run.stacks())
    return pprof.write(made, file, start, stop - start)


def _pprof_stack(part: Part, process: str) -> pprof.Stack:
    """A stack below its operation, so that a flame graph shows operations first."""
    frames = [pprof.Frame(part.operation or "(none)", "", 0)]
    frames += [pprof.Frame(p.function, p.file, p.line) for p in part.stack]
    if part.native:
        frames.append(pprof.Frame(part.native, "", 0))
    return pprof.Stack(tuple(frames), part.ns, part.operation, process)


def flames(run: Run) -> list[speedscope.Flame]:
    """For each process: operation, Python frames, native call, with the corrected time of each such stack."""
    names = {
        row["process"]: row["name"] or f"pid {row['pid']}" for row in run.processes()
    }
    found: defaultdict[int, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for part in run.stacks():
        frames = (f"{p.function} ({p.file}:{p.line})" for p in part.stack)
        stack = (
            part.operation or "(none)",
            *frames,
            *([part.native] if part.native else []),
        )
        found[part.process][stack] += part.ns
    profiles = []
    for process, total in found.items():
        weighted = [(list(stack), ns) for stack, ns in total.items() if ns]
        profiles.append((f"{names[process]}: all its time by stack", weighted))
    return profiles


def write_parquet(trace: Trace, folder: Path) -> int:
    """Writes every table of `cutaway query`, and `events`; returns the number of rows of the latter."""
    cases = " ".join(
        f"WHEN '{ours}' THEN '{theirs}'" for ours, theirs in RL_NAMES.items()
    )
    try:
        folder.mkdir(parents=True)
        # On disk, so that a run of any size fits: DuckDB keeps in memory only what it works on.
        with duckdb.connect(str(folder / "work.duckdb")) as database:
            database.execute(
                "SET memory_limit = '1GB'; SET enable_progress_bar = false"
            )
            load(database, Run(trace), TABLES)
            database.execute("ALTER TABLE operations ADD COLUMN opentelemetry VARCHAR")
            database.execute(
                f"UPDATE operations SET opentelemetry = CASE operation {cases} END"
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


def _events(database: duckdb.DuckDBPyConnection, trace: Trace) -> int:
    about = "process INTEGER, kind VARCHAR, row VARCHAR, tid BIGINT"
    database.execute(
        f"CREATE TABLE events ({about}, time_ns BIGINT, type VARCHAR, name VARCHAR)"
    )
    rows = 0
    types = np.array(["", "begin", "end", "instant"], object)
    for index, process in enumerate(processes(trace)):
        for track in process.tracks():
            where = [index, track.kind, track.title, track.tid]
            for slices in track.blocks:
                distinct, which = np.unique(slices.label, return_inverse=True)
                names = np.array(
                    [process.text(label) for label in distinct.tolist()], object
                )[which]
                columns = {
                    "time": slices.time,
                    "type": types[slices.type],
                    "name": names,
                }
                database.register("_block", columns)
                database.execute(
                    "INSERT INTO events SELECT ?, ?, ?, ?, time, type, name FROM _block",
                    where,
                )
                database.unregister("_block")
                rows += len(slices.time)
    return rows
