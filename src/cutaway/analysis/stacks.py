"""Where Python spends its time: the exact time of each cell, divided by the sampled stacks found in it.

A cell is known to the nanosecond; a sample only says where inside it the thread was. So the parts add up to the cell exactly, and
the error of a part is that of a share estimated from so many samples. Time in a native call is known for each call site and is
divided by the stacks that led to it. Time that no sample fell into stays whole, with the call site alone where there is one.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cutaway.analysis.breakdown import correct
from cutaway.analysis.sites import call_of
from cutaway.analysis.sweep import Columns, select
from cutaway.analysis.table import Table, totals
from cutaway.trace.log import Call, Log
from cutaway.vocabulary import THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

NO_CALL = 0xFFFFFFFF
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/cutaway/record/")


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
    return list(_parts(run, None))


def main_stacks(run: Run, process: int) -> list[Part]:
    """The same for one process; of the others, only the cells with samples in them."""
    return list(_parts(run, process))


def _parts(run: Run, main: int | None) -> Iterator[Part]:
    swept, processes = run.swept, run.swept.threads["process"].tolist()
    cells = run.rows(swept.cells)
    cells = select(cells, swept.summary_threads[cells["thread"]])
    keys = zip(*(cells[name].tolist() for name in ("thread", "operation", "layer")), strict=True)
    spent = totals(zip(keys, correct(cells, run.costs).ns.tolist(), strict=True))
    samples = _nested(run.rows(swept.samples), "thread", "operation", "layer", "call", "frame", "count")
    sites = _nested(run._sites.where(run._sites["ns"] > 0), "thread", "operation_id", "to", "call_id", "ns")
    sampled = {key[:3] for key in samples}
    for cell, ns in spent.items():
        thread, operation, layer = cell
        process = processes[thread]
        if main not in (None, process) and cell not in sampled:
            continue
        log = run.trace.processes[process].log
        calls = sites.get((thread, operation, THREAD_LAYERS[layer])) or Counter([NO_CALL])
        for call, time in zip(calls, divide(max(ns, 0), list(calls.values())), strict=True):
            known = call_of(run.trace, process, call) if call != NO_CALL else Call()
            who = process, thread, log.name(operation), THREAD_LAYERS[layer], known.fn
            frames = samples.get((*cell, call))
            if not frames:
                site = (Place(known.func, known.file, known.line),) if known.file else ()
                yield Part(*who, site, time, 0, time)
                continue
            total, shares = sum(frames.values()), divide(time, list(frames.values()))
            for (frame, count), share in zip(frames.items(), shares, strict=True):
                # Half the 95 % interval of a share; with the rule of succession, so that one of one sample is not certain.
                p = (count + 1) / (total + 2)
                error = round(1.96 * time * math.sqrt(p * (1 - p) / (total + 3)))
                yield Part(*who, stack_of(log, frame), share, count, error)


def _nested(columns: Columns | Table, *names: str) -> dict[tuple[Any, ...], Counter[int]]:
    """The last column added up by the one before it, for each combination of the others."""
    out: defaultdict[tuple[Any, ...], Counter[int]] = defaultdict(Counter)
    for *key, inner, value in zip(*(columns[name].tolist() for name in names), strict=True):
        out[tuple(key)][inner] += value
    return out


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
    return any(part in file for part in _LIBRARIES)


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
    return "Python's own library" if standard else "the program's own code", "/".join(file.split("/")[-2:])


def stack_of(log: Log, frame: int) -> tuple[Place, ...]:
    """The frames from the outermost to `frame`."""
    out: list[Place] = []
    while frame in log.frames and len(out) < 1024:
        up, code, line = log.frames[frame]
        known = log.codes.get(code)
        out.append(Place(known.func if known else "?", known.file if known else "", line))
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
    nowhere = Place("", "", 0)
    rows: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for part in divided:
        inner = part.stack[-1] if part.stack else nowhere
        yours = next((place for place in reversed(part.stack) if not is_library(place.file)), nowhere)
        if by == "function":
            inner, yours = inner._replace(line=0), yours._replace(line=0)
        key = (part.process, part.operation, part.layer, part.native, *inner, *yours)
        row = rows[key]
        row[:] = row[0] + part.ns, row[1] + part.samples, row[2] + part.error_ns**2
    found = [(*key, ns, count, round(squares**0.5)) for key, (ns, count, squares) in rows.items()]
    names = "process operation layer native function file line your_function your_file your_line ns samples error_ns"
    return Table.from_rows(names.split(), found).sort("ns", descending=True)
