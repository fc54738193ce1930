"""What a reader must know before trusting the figures: the correction, lost events, and notes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from cutaway.analysis import Run

from .. import text
from ..decisions import questions
from ..digest import Cell, Correction, Ending, Process, Trust
from ..progress import notes_of_the_past

MOST = 3  # notes of one kind
MOST_OWN = 5  # notes that the program's processes wrote


def trust(
    run: Run, cells: tuple[Cell, ...], processes: tuple[Process, ...], ending: Ending
) -> Trust:
    """How far the figures can be trusted."""
    return Trust(
        correction=_correction(run, cells),
        losses=run.losses(),
        notes=tuple(_notes(run, ending)),
        events=sum(process.events for process in processes),
    )


def _correction(run: Run, cells: tuple[Cell, ...]) -> Correction | None:
    raw = sum(cell.raw_ns for cell in cells)
    if not raw or run.costs is None:
        return None
    if run.calibration:
        measured = run.calibration.measured
    else:
        measured = None
    own = 0
    for process in run.trace.processes:
        if process.log.samples:
            own += process.log.samples[-1].get("own", 0)
    return Correction(
        removed=(raw - sum(cell.ns for cell in cells)) / raw,
        error=sum(cell.high_ns - cell.low_ns for cell in cells) / 2 / raw,
        units=measured.units if measured else 0,
        short=sum(cell.uncorrected_ns for cell in cells) / raw,
        background=own / max(1, run.span[1] - run.span[0]),
    )


def _notes(run: Run, ending: Ending) -> Iterator[str]:
    """One sentence each."""
    recording = ending.state == "recording"
    if recording:
        watch = f"watch it with `cutaway top {text.nearby(run.trace.path)}`"
        yield f"This run is still recording. You see its figures so far; {watch}."
    yield from _hangs(ending, "so far" if recording else "when it ended")
    yield from _stops(ending)
    lost = ", ".join(f"{n} {name}" for name, n in run.losses().items() if n)
    if lost:
        yield f"Data is missing ({lost}), so counts are too low and some native time counts as Python."
    if run.trace.hosts:
        yield _clocks(run)
    yield from notes_of_the_past(run)
    yield from questions(run)
    written = chain.from_iterable(p.log.notes for p in run.trace.processes)
    yield from list(dict.fromkeys(written))[:MOST_OWN]


def _hangs(ending: Ending, when: str) -> Iterator[str]:
    for hang in ending.hangs[:MOST]:
        inside = f"{hang['name']} was still inside {hang['where']}"
        yield f"{inside}, for {text.duration(hang['ns'])} {when}."


def _stops(ending: Ending) -> Iterator[str]:
    for stop in ending.stopped[:MOST]:
        kept, missed = (text.duration(stop[key]) for key in ("kept_ns", "missed_ns"))
        said = f"Recording of {stop['name']} stopped after {kept} ({stop['why']}): the {missed} after that are missing."
        if "size limit" in stop["why"]:
            said += (
                " To keep a later part, raise --max-size or start later with --after."
            )
        yield said
    more = len(ending.stopped) - MOST
    if more > 0:
        yield f"Recording stopped early in {more} more processes."


def _clocks(run: Run) -> str:
    """How well the clocks of several hosts agree."""
    reference = "one host"
    known = []
    for name, clock in sorted(run.trace.hosts.items()):
        if clock.error_ns == 0:
            reference = name
        elif clock.error_ns is None:
            known.append(f"{name} by the wall clocks only")
        else:
            known.append(f"{name} ± {text.duration(clock.error_ns)}")
    hosts = len(run.trace.hosts)
    return f"{hosts} hosts on the clock of {reference}: {', '.join(known)}."
