"""A run in the formats of other tools."""

from __future__ import annotations

import os
from pathlib import Path

from cutaway.analysis import parquet
from cutaway.analysis.run import Run
from cutaway.errors import CutawayError
from cutaway.trace.exports import chrome, perfetto, speedscope
from cutaway.trace.reader import read_run

FORMATS = {"perfetto": ".pftrace", "chrome": ".json", "speedscope": ".speedscope.json", "parquet": ""}
"""The formats and the endings of their files; parquet is a folder."""


def export(run: Path, format: str, output: Path) -> int:
    """Writes a run in another format; returns the number of slices, or of rows for Parquet."""
    if output.exists():
        raise CutawayError(f"{output} exists already; give another name with -o.")
    trace = read_run(run)
    if format == "parquet":
        return parquet.write(trace, output)
    partial = output.with_name(output.name + ".part")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            if format == "speedscope":
                count = speedscope.write(trace, file, flames(Run(trace)))
            else:
                count = {"perfetto": perfetto.write, "chrome": chrome.write}[format](trace, file)
        partial.rename(output)
    except OSError as error:
        raise CutawayError(f"{output} cannot be written: {error.strerror or error}.") from None
    finally:
        if partial.exists():
            partial.unlink()
    return count


def flames(run: Run) -> list[speedscope.Flame]:
    """For each process: operation, Python frames, native call, with the corrected time of each such stack."""
    names = {row["process"]: row["name"] or f"pid {row['pid']}" for row in run.processes()}
    found: dict[int, dict[tuple[str, ...], int]] = {}
    for part in run.stacks():
        frames = (f"{p.function} ({p.file}:{p.line})" for p in part.stack)
        stack = (part.operation or "(none)", *frames, *([part.native] if part.native else []))
        total = found.setdefault(part.process, {})
        total[stack] = total.get(stack, 0) + part.ns
    return [
        (f"{names[process]}: all its time by stack", [(list(stack), ns) for stack, ns in total.items() if ns])
        for process, total in found.items()
    ]
