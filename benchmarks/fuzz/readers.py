"""Everything that reads a run, held against runs that are wrong."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import cutaway
from benchmarks.fuzz.mutate import mutate
from benchmarks.fuzz.seed import write_seed
from cutaway.analysis.exports import export
from cutaway.analysis.query import TABLES, query
from cutaway.commands import main
from cutaway.errors import CutawayError

MOST_BYTES = 512 << 20
MOST_SECONDS = 60
FORMATS = ("perfetto", "chrome", "speedscope", "parquet")


@dataclass
class Found:
    """What went wrong: (case, what was changed, where it failed)."""

    failures: list[tuple[int, str, str]] = field(default_factory=list)
    peak: int = 0  # bytes this process had at most


def fuzz(place: Path, cases: Iterable[int]) -> Found:
    """Case by case: a fresh run, a few changes, all readers. The same number is always the same case."""
    found = Found()
    write_seed(place / "seed")
    for number in cases:
        chance = random.Random(number)
        folder = place / "case.cutaway"
        shutil.copytree(place / "seed", folder)
        try:
            told = mutate(folder, chance)
            for read in readers(chance):
                if failure := failure_of(read, folder, place):
                    found.failures.append((number, told, failure))
        finally:
            shutil.rmtree(folder)
    found.peak = _peak_bytes()
    return found


def _peak_bytes() -> int:
    """Of this program alone: ru_maxrss also counts the parent's memory, which a child has until it executes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return (
        next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10
    )


def readers(chance: random.Random) -> Iterator[Callable[[Path, Path], object]]:
    """All tables each time; the summary, a view, an export, SQL and the page by turns."""
    yield _tables
    by = chance.choice(
        (
            "process",
            "operation",
            "layer",
            "callsite",
            "kernel",
            "transition",
            "wait",
            "line",
            "function",
        )
    )
    kind, table = chance.choice(FORMATS), chance.choice(list(TABLES))
    turns: tuple[Callable[[Path, Path], object], ...] = (
        lambda run, _: _quiet("show", str(run)),
        lambda run, _: _quiet("show", str(run), "--by", by),
        lambda run, _: _quiet("show", str(run), "--json"),
        lambda run, place: _export(run, kind, place),
        lambda run, place: _quiet("report", str(run), "-o", str(place / "page.html")),
        lambda run, _: query(cutaway.open(run), f"SELECT * FROM {table}"),
    )
    yield chance.choices(turns, (3, 2, 2, 3, 1, 1))[0]


def failure_of(read: Callable[[Path, Path], object], folder: Path, place: Path) -> str:
    """Where a reader failed, in a line; empty if it gave an answer or a sentence."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(MOST_SECONDS)
    try:
        read(folder, place)
    except CutawayError as error:
        return "" if "\n" not in str(error) else f"more than a sentence: {error}"
    except Exception as error:
        ours = [
            f
            for f in traceback.extract_tb(error.__traceback__)
            if "/cutaway/" in f.filename
        ]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        return f"{type(error).__name__} at {where}: {str(error)[:200]}"
    finally:
        signal.alarm(0)
    return ""


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {MOST_SECONDS} s")


def _tables(folder: Path, place: Path) -> None:
    run = cutaway.open(folder)
    for make in TABLES.values():
        make(run)
    run.steady().breakdown(by="iteration")
    for answer in (
        run.losses,
        run.stops,
        run.unfinished,
        run.launch_waits,
        run.stragglers,
        run.energy,
        run.utilisation,
    ):
        answer()
    for answer in (run.device_time, run.timeline, run.device_timeline, run.summary):
        answer()


def _quiet(*words: str) -> None:
    """A command as a user would call it, its output thrown away; anything but a sentence comes through."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        main([*words])


def _export(run: Path, kind: str, place: Path) -> None:
    target = place / "export"
    try:
        export(run, kind, target)
    finally:
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
