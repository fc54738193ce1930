"""Runs that other tools recorded: `formats.py` lists them, a file here reads each."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

from cutaway.errors import CutawayError
from cutaway.trace.imports.formats import detect
from cutaway.trace.imports.other_devices import note_other_devices
from cutaway.trace.imports.recorded import Recorded, write
from cutaway.trace.imports.source import Limits, Progress
from cutaway.trace.writer import RunWriter

__all__ = ["Limits", "detect", "import_files"]


def import_files(
    files: list[Path],
    output: Path,
    limits: Limits | None = None,
    progress: Progress = lambda read: None,
) -> list[str]:
    """Makes a run from trace files; returns the format of each. Nothing is left behind when it fails."""
    if output.exists():
        raise CutawayError(f"{output} already exists; choose another folder with -o.")
    formats = [detect(path) for path in files]
    recorded: list[Recorded] = []
    done = 0
    for path, kind in zip(files, formats, strict=True):
        reader = importlib.import_module(f"cutaway.trace.imports.{kind}")
        recorded += reader.read(
            path, limits or Limits(), lambda read, before=done: progress(before + read)
        )
        done += path.stat().st_size
    note_other_devices(recorded)
    command = " ".join(path.name for path in files)
    source = "+".join(sorted(set(formats)))
    used: set[int] = set()
    try:
        with RunWriter(output, command=command, source=f"import:{source}") as run:
            for process in recorded:
                pid = process.pid
                while pid in used:  # ranks in containers often share a process id
                    pid += 1 << 22
                used.add(pid)
                write(run, process, pid)
    except BaseException:
        shutil.rmtree(output, ignore_errors=True)
        raise
    return formats
