"""Where Python spends its time: the exact time of each cell, divided by the sampled stacks found in it.

A cell is known to the nanosecond; a sample only says where inside it the thread was. So the parts add up to the cell exactly, and
the error of a part is that of a share estimated from so many samples. Time in a native call is known for each call site and is
divided by the stacks that led to it. Time that no sample fell into stays whole, with the call site alone where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.hotspots import call_of
from cutaway.analysis.sweep import Columns, Swept
from cutaway.analysis.table import Table
from cutaway.trace.log import Call, Log
from cutaway.trace.reader import Trace
from cutaway.vocabulary import THREAD_LAYERS

Mask = NDArray[np.bool_]
Cell = tuple[int, int, int]  # thread, operation, layer
NO_CALL = 0xFFFFFFFF
COLUMNS = (
    *("process", "operation", "layer", "native", "function", "file", "line"),
    *("your_function", "your_file", "your_line"),
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


def parts(trace: Trace, swept: Swept, cells: dict[Cell, int], keep_sites: Mask, keep: Mask) -> Iterator[Part]:
    """Divides each cell's time. `cells` holds corrected nanoseconds; the masks say which call sites and samples count."""
    sites = _sites(trace, swept, keep_sites)
    found = _samples(swept.samples, keep)
    for cell, ns in cells.items():
        thread, operation, layer = cell
        process = int(swept.threads["process"][thread])
        log = trace.processes[process].log
        for call, time in _by_call(ns, sites.get(cell, {})).items():
            known = call_of(trace, process, call) if call != NO_CALL else Call()
            who = process, thread, log.name(operation), THREAD_LAYERS[layer], known.fn
            stacks = found.get((*cell, call), {})
            if not stacks:
                yield Part(*who, _site(known), time, 0, time)
            total = sum(stacks.values())
            for (frame, count), share in zip(
                stacks.items(), divide(time, list(stacks.values())), strict=True
            ):
                yield Part(*who, stack_of(log, frame), share, count, _error(time, count, total))


def divide(ns: int, weights: list[int]) -> list[int]:
    """Shares of `ns` in proportion to `weights`, in whole nanoseconds that add up to it.

    >>> divide(100, [1, 1, 1])
    [34, 33, 33]
    """
    total = max(1, sum(weights))
    exact = [ns * weight // total for weight in weights]
    rest = sorted(range(len(weights)), key=lambda i: -(ns * weights[i] % total))
    for i in rest[: ns - sum(exact)]:
        exact[i] += 1
    return exact


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
        part in file for part in ("/site-packages/", "/dist-packages/", "/lib/python3", "/cutaway/record/")
    )


def your_place(stack: tuple[Place, ...]) -> Place | None:
    """The innermost frame that is the user's own."""
    return next((place for place in reversed(stack) if not is_library(place.file)), None)


def stack_of(log: Log, frame: int) -> tuple[Place, ...]:
    """The frames from the outermost to `frame`."""
    out: list[Place] = []
    while frame in log.frames and len(out) < 1024:
        up, code, line = log.frames[frame]
        known = log.codes.get(code)
        out.append(Place(known.func if known else "?", known.file if known else "", line))
        frame = up
    return tuple(reversed(out))


def places(divided: list[Part], *, by: str) -> Table:
    """Time by line or by function: the innermost Python frame, the native call made there, and the user's own frame above."""
    rows: dict[tuple[Any, ...], list[float]] = {}
    for part in divided:
        inner = part.stack[-1] if part.stack else Place("", "", 0)
        yours = your_place(part.stack) or Place("", "", 0)
        if by == "function":
            inner, yours = inner._replace(line=0), yours._replace(line=0)
        key = part.process, part.operation, part.layer, part.native, *inner, *yours
        row = rows.setdefault(key, [0, 0, 0])
        row[0] += part.ns
        row[1] += part.samples
        row[2] += part.error_ns**2
    table: dict[str, Any] = {name: _column([key[i] for key in rows]) for i, name in enumerate(COLUMNS)}
    for i, name in enumerate(("ns", "samples")):
        table[name] = np.array([int(row[i]) for row in rows.values()], np.int64)
    table["error_ns"] = np.array([round(row[2] ** 0.5) for row in rows.values()], np.int64)
    return Table(table).sort("ns", descending=True)


def _error(ns: int, count: int, total: int) -> int:
    """Half the 95 % interval of a share; with the rule of succession, so that one of one sample is not certain."""
    share = (count + 1) / (total + 2)
    return round(1.96 * ns * float(np.sqrt(share * (1 - share) / (total + 3))))


def _by_call(ns: int, sites: dict[int, int]) -> dict[int, int]:
    """A cell's corrected time over its call sites, in proportion to their raw time."""
    if not sum(sites.values()):
        return {NO_CALL: ns}
    return dict(zip(sites, divide(ns, list(sites.values())), strict=True))


def _sites(trace: Trace, swept: Swept, keep: Mask) -> dict[Cell, dict[int, int]]:
    out: dict[Cell, dict[int, int]] = {}
    rows = swept.sites
    for i in np.flatnonzero(keep & (rows["ns"] > 0)).tolist():
        thread, call = int(rows["thread"][i]), int(rows["call"][i])
        layer = call_of(trace, int(swept.threads["process"][thread]), call).layer
        calls = out.setdefault((thread, int(rows["operation"][i]), THREAD_LAYERS.index(layer)), {})
        calls[call] = calls.get(call, 0) + int(rows["ns"][i])
    return out


def _samples(rows: Columns, keep: Mask) -> dict[tuple[int, int, int, int], dict[int, int]]:
    out: dict[tuple[int, int, int, int], dict[int, int]] = {}
    columns = ("thread", "operation", "layer", "call")
    for i in np.flatnonzero(keep).tolist():
        thread, operation, layer, call = (int(rows[name][i]) for name in columns)
        frames = out.setdefault((thread, operation, layer, call), {})
        frame = int(rows["frame"][i])
        frames[frame] = frames.get(frame, 0) + int(rows["count"][i])
    return out


def _site(call: Call) -> tuple[Place, ...]:
    return (Place(call.func, call.file, call.line),) if call.file else ()


def _column(values: list[Any]) -> NDArray[Any]:
    if all(isinstance(value, (int, np.integer)) for value in values):
        return np.array(values, np.int64)
    out = np.empty(len(values), object)
    out[:] = values
    return out
