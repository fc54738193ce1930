"""Reads a run whose parts stay on the nodes that recorded them.

    cutaway show ray://head:6379/home/me/train.cutaway

Each node sweeps what it recorded, as a Ray task. What travels is its logs and the state of its sweep (`cutaway.trace.past`), not its
events, so the tables are those of a run in one folder. The parts are not changed. In full come processes with device work, damaged
ones, and runs without a second iteration.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from cutaway.analysis.progress import bins
from cutaway.analysis.stages import end_of_run, find_beginning, last_work_of
from cutaway.cluster.gather import Ask, local_of, nodes
from cutaway.errors import CutawayError
from cutaway.keep import Keeper
from cutaway.record.storage import HOST
from cutaway.trace import past as past_file
from cutaway.trace.reader import Trace, read_run

SCHEME = "ray://"
Piece = tuple[
    str, int, bytes
]  # of a file: its path in a part, where it begins, the bytes
Edges = tuple[int, list[tuple[bool, int]]]
"""When the first process became steady, and of each the end of its last work (`last_work_of`)."""


@contextmanager
def local_view(path: str, say: Callable[[str], None]) -> Iterator[str]:
    """A folder that can be read like a run, for as long as it is needed; any other path is handed on."""
    if not path.startswith(SCHEME):
        yield path
        return
    address, _, rest = path.removeprefix(SCHEME).partition("/")
    run = next(
        (
            found
            for found in (Path("/", rest), Path(rest))
            if (found / "run.json").is_file()
        ),
        None,
    )
    if not address or run is None:
        remedy = "write ray://HOST:PORT/PATH with the folder NAME.cutaway that `cutaway run --ray` made here"
        raise CutawayError(f"{path} names no run; {remedy}.")
    with tempfile.TemporaryDirectory(prefix="cutaway-") as folder:
        view = Path(folder, run.name)
        with nodes(local_of(run), address) as (asks, missing):
            _bring(view, run, asks)
        for sentence in missing:
            say(sentence)
        yield str(view)


def _bring(view: Path, run: Path, asks: dict[str, Ask]) -> None:
    """Fills a folder with everything that can be read without the events."""
    shutil.copytree(run, view)  # what it is, and what was gathered already
    for host, ask in asks.items():
        _write(view / (HOST + host), ask(logs))
    trace = read_run(view)
    shifts = {
        host: trace.hosts[host].shift_ns if host in trace.hosts else 0 for host in asks
    }
    found = [_edges(trace), *(ask(edges, shifts[host]) for host, ask in asks.items())]
    steady = min((since for since, _ in found if since), default=0)
    over = end_of_run(list(chain.from_iterable(lasts for _, lasts in found)))
    for host, ask in asks.items():
        _write(
            view / (HOST + host),
            ask(summary, shifts[host], steady, over, bins(trace).start),
        )


def _write(part: Path, pieces: list[Piece]) -> None:
    for name, at, piece in pieces:
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(at)
            file.write(piece)


def logs(part: Path) -> list[Piece]:
    """On a node: what its processes are, without what they did."""
    return [_piece(path) for path in part.glob("p*-*/log.jsonl")]


def edges(part: Path, shift: int) -> Edges:
    """On a node: where the steady state of its processes begins and ends, on the clock of the run."""
    return _edges(_moved(part, shift))


def _edges(trace: Trace) -> Edges:
    return find_beginning(trace).second_iteration, [
        last_work_of(process) for process in trace.processes
    ]


def summary(part: Path, shift: int, steady: int, over: int, origin: int) -> list[Piece]:
    """On a node: of each of its processes the state of its sweep, and the little that is not in it."""
    trace = _moved(part, shift)
    keeper = Keeper(trace, 0, steady, origin)
    pieces = []
    for process in trace.processes:
        whole = (
            not keeper.steady_ns
            or len(process.device_sources)
            or process.losses.total
            or process.past
        )
        last = last_work_of(process)
        until = min((t for t in (over, last[1]) if t), default=1 << 62)
        if whole:
            past = None
        else:
            past = keeper.fold(process, until)
        if past:
            state = past_file.to_bytes(replace(past, last_work=last))
            pieces.append((f"{process.folder.name}/{past_file.NAME}", 0, state))
        for path in process.folder.iterdir():
            if path.name != "log.jsonl":
                pieces.append(
                    _piece(
                        path, past.offset if past and path.name == "events.bin" else 0
                    )
                )
    return pieces


def _moved(part: Path, shift: int) -> Trace:
    trace = Trace(part, {})
    trace.refresh()
    for process in trace.processes if shift else ():
        process.move_clock(shift)
    return trace


def _piece(path: Path, at: int = 0) -> Piece:
    with path.open("rb") as file:
        file.seek(at)
        return f"{path.parent.name}/{path.name}", at, file.read()
