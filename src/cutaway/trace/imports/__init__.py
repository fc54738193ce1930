"""Runs recorded by others: Kineto JSON, Nsight Systems SQLite, XPlane, rocprofv3 JSON."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

from cutaway.errors import CutawayError
from cutaway.trace.imports.build import build
from cutaway.trace.imports.recorded import Recorded
from cutaway.trace.imports.source import Limits, Progress, detect

__all__ = ["Limits", "detect", "import_files"]


def import_files(
    files: list[Path], output: Path, limits: Limits | None = None, progress: Progress = lambda read: None
) -> list[str]:
    """Makes a run from trace files; returns the format of each. Nothing is left behind when it fails."""
    limits = limits or Limits()
    if output.exists():
        raise CutawayError(f"{output} already exists; choose another folder with -o.")
    formats = [detect(path) for path in files]
    recorded: list[Recorded] = []
    done = 0
    for path, kind in zip(files, formats, strict=True):
        reader = importlib.import_module(f"cutaway.trace.imports.{kind}")
        recorded += reader.read(path, limits, lambda read, before=done: progress(before + read))
        done += path.stat().st_size
    sources = "+".join(sorted(set(formats)))
    try:
        build(recorded, output, " ".join(path.name for path in files), f"import:{sources}")
    except BaseException:
        shutil.rmtree(output, ignore_errors=True)
        raise
    return formats
