"""Recordings of small programs, and what they wrote, as text that a test can compare."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cutaway import _recorder
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import Kind, numbers

PROLOGUE = "import os, sys, threading, time\nfrom cutaway import _recorder as recorder\nfolder = sys.argv[1]\n"


NAMES = {number: name.lower() for name, number in numbers(Kind).items()}


class Event(NamedTuple):
    """One record."""

    time: int
    kind: int
    id: int
    value: int


@contextmanager
def recording(folder: Path, **options: Any) -> Iterator[None]:
    """Records this very process."""
    _recorder.start(str(folder), **options)
    try:
        yield
    finally:
        _recorder.stop()


def run(
    program: str, folder: Path, *args: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own; it finds `recorder` and `folder` defined."""
    command = [
        sys.executable,
        "-c",
        PROLOGUE + textwrap.dedent(program),
        str(folder),
        *args,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, **options
    )


def only_process(folder: Path) -> ProcessTrace:
    """The one process of a run."""
    (process,) = read_run(folder).processes
    return process


def array_of(process: ProcessTrace, thread: int) -> np.ndarray[Any, Any]:
    """All records of a thread."""
    parts = list(process.records(thread))
    return np.concatenate(parts) if parts else np.zeros(0)


def events(process: ProcessTrace, thread: int = 0) -> list[Event]:
    """All records of a thread, taken apart."""
    records = array_of(process, thread)
    if not len(records):
        return []
    rows = zip(
        *(records[name].tolist() for name in ("time", "tag", "value")), strict=True
    )
    return [Event(time, tag & 0xFF, tag >> 8, value) for time, tag, value in rows]


def thread_named(process: ProcessTrace, name: str) -> int:
    """The id of the thread with this name."""
    (found,) = (id for id, info in process.log.threads.items() if info.name == name)
    return found


def outline(process: ProcessTrace, thread: int = 0) -> str:
    """The stream of a thread in words: `a(` opens operation a, `a)` closes it; times are left out, and native calls with what they
    give or take: other tests in this process may have patched some."""
    words = []
    for event in events(process, thread):
        name = process.log.name(event.id)
        match event.kind:
            case Kind.OP_ENTER:
                words.append(f"{name}(")
            case Kind.OP_EXIT:
                words.append(f"{name})")
            case Kind.PHASE:
                words.append(f"phase:{name}")
            case Kind.ITERATION | Kind.STEP:
                words.append(f"{NAMES[event.kind]}:{event.value}")
            case Kind.CALL | Kind.ENTER | Kind.EXIT | Kind.FEED | Kind.TAKE:
                continue
            case Kind.PAUSE:
                words.append(f"pause:{event.id}")
            case Kind.RESUME:
                words.append(f"resume:{event.value}" if event.value else "resume")
            case _:
                words.append(NAMES[event.kind])
    return " ".join(words)
