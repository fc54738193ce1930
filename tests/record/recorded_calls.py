"""For the tests of the native layers: record a block, and read its calls back as a list."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cutaway import _recorder
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import Kind

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Seen:
    """One recorded native call."""

    layer: str
    fn: str
    file: str
    line: int
    func: str
    on: str
    peer: str
    start: int
    end: int
    parents: tuple[str, ...]  # names of the calls around it, outermost first
    pid: int
    thread: int


@contextlib.contextmanager
def recording(folder: Path, call_sites: bool = True) -> Iterator[Path]:
    """Records into `folder`; what has been patched before or inside the block is recorded."""
    _recorder.start(str(folder), call_sites=call_sites)
    try:
        yield folder
    finally:
        _recorder.restore()
        _recorder.stop()


def calls(folder: Path, layer: str | None = None) -> list[Seen]:
    """Every call of every thread, in the order in which they began."""
    (folder / "run.json").write_text("{}") if not (
        folder / "run.json"
    ).exists() else None
    found = [
        seen for process in read_run(folder).processes for seen in _of_process(process)
    ]
    found.sort(key=lambda seen: (seen.pid, seen.thread, seen.start, -seen.end))
    return [seen for seen in found if layer in (None, seen.layer)]


def names(folder: Path, layer: str | None = None) -> list[str]:
    return [seen.fn for seen in calls(folder, layer)]


def _of_process(process: ProcessTrace) -> Iterator[Seen]:
    for thread in process.threads:
        open_calls: list[tuple[int, int]] = []
        for records in process.records(thread):
            for time, value, tag in records.tolist():
                kind, id = tag & 0xFF, tag >> 8
                if kind == Kind.ENTER:
                    open_calls.append((id, time))
                elif kind == Kind.EXIT:
                    entered, start = open_calls.pop()
                    assert entered == id, "calls must nest"
                    yield _seen(process, thread, id, start, time, open_calls)
                elif kind == Kind.CALL:
                    yield _seen(process, thread, id, time, time + value, open_calls)


def _seen(
    process: ProcessTrace,
    thread: int,
    id: int,
    start: int,
    end: int,
    around: list[tuple[int, int]],
) -> Seen:
    call = process.log.calls[id]
    parents = tuple(process.log.calls[outer].fn for outer, _ in around)
    return Seen(
        *call, start=start, end=end, parents=parents, pid=process.pid, thread=thread
    )
