"""Where Python spends its time: the exact time of each cell, divided by the sampled stacks found in it.

A cell is known to the nanosecond; a sample only says where inside it the thread was. So the parts add up to the cell exactly, and
the error of a part is that of a share estimated from so many samples. Time in a native call is known for each call site and is
divided by the stacks that led to it. Time that no sample fell into stays whole, with the call site alone where there is one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutaway.analysis.breakdown import correct
from cutaway.analysis.names import NO_CALL
from cutaway.analysis.sites import CELL, call_times
from cutaway.analysis.sweep import Columns, select
from cutaway.analysis.table import Table, totals
from cutaway.trace.log import Log
from cutaway.vocabulary import THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

Cell = tuple[int, int, int]  # thread, operation, layer
_Calls = dict[Cell, dict[int, int]]  # raw nanoseconds of each call
_Known = dict[int, tuple[str, tuple["Place", ...]]]  # of a call: its name and place
_Stacks = dict[
    tuple[int, int, int, int], dict[int, int]
]  # of a cell and a call: samples of each frame
COLUMNS = (
    *("process", "operation", "layer", "native", "function", "file", "line"),
    *("your_function", "your_file", "your_line", "ns", "samples", "error_ns"),
)


class Place(NamedTuple):
    """One Python frame of a stack."""

    function: str
    file: str
    line: int


class Part(NamedTuple):
    """A part of a cell: who, in which native call ("": in Python itself), on which stack (outermost first), how long."""

    process: int
    thread: int
    operation: str
    layer: str
    native: str
    stack: tuple[Place, ...]
    ns: int
    samples: int
    error_ns: int


def stacks(run: Run) -> list[Part]:
    """Every cell divided by the Python stacks sampled in it. The parts of a cell add up to it.

    >>> sum(part.ns for part in run.stacks()), int(run.breakdown(by="layer")["ns"].sum())
    (9000, 9000)
    """
    return _divided(run, _cells(run), _samples(run.rows(run.swept.samples)))


def coarse_stacks(run: Run, names: Sequence[str], least: float) -> list[Part]:
    """The same, but native calls with less than this share of the time, added up over processes of the same name, have no name:
    those of a cell that are made in one place are one part. Sampled calls and those of an accelerator stay."""
    return _divided(
        run, _cells(run), _samples(run.rows(run.swept.samples)), names, least
    )


def main_stacks(run: Run, process: int) -> list[Part]:
    """The same for one process; of the others, only the cells with samples in them."""
    found = _samples(run.rows(run.swept.samples))
    of = run.swept.threads["process"].tolist()
    sampled = {key[:3] for key in found}
    cells = {
        cell: ns
        for cell, ns in _cells(run).items()
        if of[cell[0]] == process or cell in sampled
    }
    return _divided(run, cells, found)


def _divided(
    run: Run,
    cells: dict[Cell, int],
    found: _Stacks,
    names: Sequence[str] = (),
    least: float = 0,
) -> list[Part]:
    times = call_times(run, {thread for thread, _, _ in cells})
    known = _known(run)
    if least:
        wide = _wide(run, times, cells, names, least)
        times = _join_narrow(run, times, {key[3] for key in found}, wide, known)
    calls = _by_cell(times)
    out: list[Part] = []
    for cell, ns in cells.items():
        out += _parts(run, cell, _by_call(ns, calls.get(cell, {})), known, found)
    return out


def _parts(
    run: Run, cell: Cell, calls: dict[int, int], known: _Known, found: _Stacks
) -> Iterator[Part]:
    thread, operation, layer = cell
    process = run.swept.thread_names[thread].process
    log = run.trace.processes[process].log
    name = run.swept.names.text(operation)
    for call, time in calls.items():
        native, place = known.get(call, ("", ()))
        who = process, thread, name, THREAD_LAYERS[layer], native
        stacks = found.get((*cell, call))
        if not stacks:
            yield Part(*who, place, time, 0, time)
            continue
        total = sum(stacks.values())
        shares = divide(time, list(stacks.values()))
        for (frame, count), share in zip(stacks.items(), shares, strict=True):
            yield Part(
                *who, stack_of(log, frame), share, count, _error(time, count, total)
            )


def _cells(run: Run) -> dict[Cell, int]:
    """Corrected nanoseconds by thread, operation and layer, of the threads that processes are summarised by."""
    cells = run.rows(run.swept.cells)
    cells = select(cells, run.swept.summary_threads[cells["thread"]])
    keys = zip(
        *(cells[name].tolist() for name in ("thread", "operation", "layer")),
        strict=True,
    )
    found = totals(zip(keys, correct(cells, run.costs).ns.tolist(), strict=True))
    return {cell: max(ns, 0) for cell, ns in found.items()}


def divide(ns: int, weights: list[int]) -> list[int]:
    """Shares of `ns` in proportion to `weights`, in whole nanoseconds that add up to it.

    >>> divide(100, [1, 1, 1])
    [34, 33, 33]
    """
    if len(weights) == 1:
        return [ns]
    total = max(1, sum(weights))
    exact = [ns * weight // total for weight in weights]
    rest = sorted(range(len(weights)), key=lambda i: -(ns * weights[i] % total))
    for i in rest[: ns - sum(exact)]:
        exact[i] += 1
    return exact


@lru_cache(1 << 14)
def is_library(file: str) -> bool:
    """True for code the user did not write: installed packages, the standard library, code made by them.

    >>> is_library("/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py"), is_library("/home/me/train.py")
    (True, False)
    """
    if "__autograph_generated_file" in file:  # made by TensorFlow
        return True
    if file.startswith("<"):
        return not file.startswith(("<stdin>", "<ipython"))
    return any(
        part in file
        for part in (
            "/site-packages/",
            "/dist-packages/",
            "/lib/python3",
            "/cutaway/record/",
        )
    )


def package_of(file: str) -> tuple[str, str]:
    """The package that a Python file belongs to, and the file by a short name.

    >>> package_of("/usr/lib/python3.11/site-packages/torch/optim/adam.py")
    ('torch', 'torch/optim/adam.py')
    >>> package_of("/home/me/agents/train.py")
    ("the program's own code", 'agents/train.py')
    """
    _, installed, inside = file.rpartition("-packages/")
    if installed:
        return inside.split("/")[0].removesuffix(".py"), inside
    if not file.startswith("/"):
        return ("the program's own code" if file else "not sampled"), file
    standard = re.search(r"/lib/python3[^/]*/", file)
    return "Python's own library" if standard else "the program's own code", "/".join(
        file.split("/")[-2:]
    )


def your_place(stack: tuple[Place, ...]) -> Place | None:
    """The innermost frame that is the user's own."""
    return next(
        (place for place in reversed(stack) if not is_library(place.file)), None
    )


def stack_of(log: Log, frame: int) -> tuple[Place, ...]:
    """The frames from the outermost to `frame`."""
    out: list[Place] = []
    while frame in log.frames and len(out) < 1024:
        up, code, line = log.frames[frame]
        known = log.codes.get(code)
        out.append(
            Place(known.func if known else "?", known.file if known else "", line)
        )
        frame = up
    return tuple(reversed(out))


def lines(run: Run, by: str = "line") -> Table:
    """Time by Python line (or `by="function"`), with the native call made there and your own line above it.

    >>> run.lines().select("operation", "layer", "native", "your_line", "ns").head(2)
    operation  layer  native   your_line    ns
               wait   os.read         40  2430
               wait   os.read         40  1860
    """
    return places(run.stacks(), by=by)


def places(divided: list[Part], *, by: str) -> Table:
    """Time by line or by function: the innermost Python frame, the native call made there, and the user's own frame above."""
    rows: dict[tuple[Any, ...], list[float]] = {}
    for part in divided:
        if part.stack:
            inner = part.stack[-1]
        else:
            inner = Place("", "", 0)
        yours = your_place(part.stack) or Place("", "", 0)
        if by == "function":
            inner = inner._replace(line=0)
            yours = yours._replace(line=0)
        key = part.process, part.operation, part.layer, part.native, *inner, *yours
        row = rows.setdefault(key, [0, 0, 0])
        row[:] = row[0] + part.ns, row[1] + part.samples, row[2] + part.error_ns**2
    found = [
        (*key, int(ns), int(count), round(squares**0.5))
        for key, (ns, count, squares) in rows.items()
    ]
    return Table.from_rows(COLUMNS, found).sort("ns", descending=True)


def _error(ns: int, count: int, total: int) -> int:
    return round(ns * error_of(count, total))


def error_of(count: int, total: int) -> float:
    """Half the 95 % interval of a share; with the rule of succession, so that one of one sample is not certain."""
    share = (count + 1) / (total + 2)
    return 1.96 * math.sqrt(share * (1 - share) / (total + 3))


def _by_call(ns: int, sites: dict[int, int]) -> dict[int, int]:
    """A cell's corrected time over its call sites, in proportion to their raw time."""
    if not sum(sites.values()):
        return {NO_CALL: ns}
    return dict(zip(sites, divide(ns, list(sites.values())), strict=True))


def _known(run: Run) -> _Known:
    found: _Known = {}
    for number, made in enumerate(run.swept.calls.made):
        call = made.call
        place: tuple[Place, ...] = ()
        if call.file:
            place = (Place(call.func, call.file, call.line),)
        found[number] = call.fn, place
    return found


def _join_narrow(
    run: Run, times: Table, sampled: set[int], wide: set[int], known: _Known
) -> Table:
    """Calls that are neither wide nor sampled, nor those of an accelerator, become one for each
    place, without a name."""
    made = run.swept.calls.made
    joined = np.arange(len(made))
    places: dict[tuple[int, str, str], int] = {}
    for number in np.unique(times["call"]).tolist():
        process, call, is_api = made[number]
        if number in wide or number in sampled or is_api:
            continue
        place = process, call.func, call.file
        joined[number] = NO_CALL + 1 + places.setdefault(place, len(places))
        known.setdefault(int(joined[number]), ("", known[number][1]))
    times = times.with_columns({"call": joined[times["call"]]})
    return times.group((*CELL, "call"), ["ns"])


def _wide(
    run: Run, times: Table, cells: dict[Cell, int], names: Sequence[str], least: float
) -> set[int]:
    """Calls of functions with at least this share of the time, over processes of one name."""
    first, of = times.groups(CELL)
    keys = zip(*(times[name][first].tolist() for name in CELL), strict=True)
    corrected = np.array([cells.get(key, 0) for key in keys])
    scale = corrected / np.maximum(np.bincount(of, times["ns"]), 1)
    numbers: dict[tuple[str, str], int] = {}
    function = [
        numbers.setdefault((names[made.process], made.call.fn), len(numbers))
        for made in run.swept.calls.made
    ]
    of_call = np.array(function, int)
    total = np.bincount(of_call[times["call"]], times["ns"] * scale[of], len(numbers))
    wide = total >= least * sum(cells.values())
    return set(np.flatnonzero(wide[of_call]).tolist())


def _by_cell(times: Table) -> _Calls:
    """By cell, the raw time of each call."""
    out: _Calls = {}
    columns = (times[name].tolist() for name in (*CELL, "call", "ns"))
    for thread, operation, layer, call, ns in zip(*columns, strict=True):
        out.setdefault((thread, operation, layer), {})[call] = ns
    return out


def _samples(rows: Columns) -> _Stacks:
    out: _Stacks = {}
    names = ("thread", "operation", "layer", "call", "frame", "count")
    for *key, frame, count in zip(
        *(rows[name].tolist() for name in names), strict=True
    ):
        thread, operation, layer, call = key
        frames = out.setdefault((thread, operation, layer, call), {})
        frames[frame] = frames.get(frame, 0) + count
    return out
