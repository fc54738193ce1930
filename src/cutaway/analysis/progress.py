"""How a run went from its beginning to its end: what threads, devices and operations did over time, and the slowest iterations."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import resources
from cutaway.analysis.devices import Busy
from cutaway.analysis.processes import known_life
from cutaway.analysis.sweep import STEADY, Bins, Columns, Lanes, Swept, select, sweep
from cutaway.analysis.table import Table, objects
from cutaway.trace.reader import Trace
from cutaway.vocabulary import THREAD_LAYERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

WIDTH_NS = 1 << 24
"""Of the bins of a run that has just begun; they are joined as it goes on."""
COUNT = 512

_SLOW = (
    "process",
    "iteration",
    "start_ns",
    "end_ns",
    "steps",
    "operation",
    "layer",
    "ns",
    "usual_ns",
)


def bins(trace: Trace) -> Bins:
    """Bins over the whole run, however long it takes."""
    start = min((known_life(process)[0] for process in trace.processes), default=0)
    kept = [process.past.bins[0] for process in trace.processes if process.past]
    return Bins(kept[0] if kept else start, WIDTH_NS, COUNT, grow=True)


def over_time(run: Run, most: int = 60) -> Table:
    """How the run went: steps, iterations and the time of each operation in at most `most` equal stretches.

    A row for each stretch, process and operation of its threads with operations; `steps` and `iterations` are those of the
    process, whatever the operation. `share` is of what was recorded in that stretch.

    >>> run.over_time().where(process=0).select("operation", "ns", "share", "steps", "iterations").head(2)
    operation          ns  share  steps  iterations
    simulation       1200    0.4      6           3
    backpropagation  1200    0.4      6           3
    """
    swept = run.swept
    lanes = run.swept.lanes[0]
    rows = np.flatnonzero(swept.summary_threads[lanes.rows["thread"]])
    ns, edges = _joined(lanes.ns[rows], lanes, most)
    steps, iterations = (
        _joined(counts, lanes, most)[0] for counts in (lanes.steps, lanes.iterations)
    )
    process = swept.threads["process"][lanes.rows["thread"][rows]].astype(np.int64)
    names = swept.names.texts(lanes.rows["operation"][rows])
    recorded = np.zeros(steps.shape, np.int64)
    np.add.at(recorded, process, ns)
    at, stretch = np.nonzero(ns)
    columns = {
        "process": process[at],
        "start_ns": edges[stretch],
        "end_ns": edges[stretch + 1],
        "operation": names[at],
        "ns": ns[at, stretch],
        "share": ns[at, stretch] / recorded[process[at], stretch],
        "steps": steps[process[at], stretch],
        "iterations": iterations[process[at], stretch],
    }
    keys = ("process", "start_ns", "end_ns", "operation", "steps", "iterations")
    return (
        Table(columns)
        .group(keys, ("ns", "share"))
        .sort("ns", descending=True)
        .sort("process", "start_ns")
    )


def _joined(
    counts: NDArray[np.int64], lanes: Lanes, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bins added up to at most `most` stretches that are as long as each other, and where these begin and end."""
    used = int(np.flatnonzero(lanes.ns.any(axis=0)).max(initial=0)) + 1
    each = -(-used // most)
    stretches = -(-used // each)
    padded = np.pad(counts, ((0, 0), (0, max(0, stretches * each - counts.shape[1]))))
    joined = padded[:, : stretches * each].reshape(-1, stretches, each).sum(axis=2)
    return joined, lanes.cut.start + lanes.cut.width * each * np.arange(stretches + 1)


def slowest(run: Run) -> Table:
    """Iterations of the steady state that took longer than 99 of 100, the worst ten: what each process did in them,
    beside what it usually does (`usual_ns`, the mean of all).

    >>> run.slowest().select("iteration", "operation", "layer", "ns", "usual_ns")
    iteration  operation  layer  ns  usual_ns
    """
    swept = run.swept
    found = run.swept.pace.slowest
    longer = (
        found["end"] - found["start"] > swept.pace.durations["p99_ns"][found["process"]]
    )
    slow = select(found, swept.summary_threads[found["thread"]] & longer)
    columns = {
        "process": slow["process"].astype(np.int64),
        "iteration": slow["number"].astype(np.int64),
        "start_ns": slow["start"],
        "end_ns": slow["end"],
        "steps": slow["steps"],
        **_cell_names(swept, slow),
        "ns": slow["ns"],
    }
    table = Table(columns).group(_SLOW[:-2], ("ns",))
    cells_of: defaultdict[tuple[int, ...], dict[tuple[str, str], int]]
    cells_of = defaultdict(dict)
    for row in table:
        which = tuple(row[name] for name in _SLOW[:5])
        cells_of[which][row["operation"], row["layer"]] = row["ns"]
    usual = _usual(swept)
    rows: list[tuple[Any, ...]] = []
    for which, cells in cells_of.items():
        own = usual[which[0]]
        for cell in {**cells, **own}:
            ns = cells.get(cell, 0)
            rows.append((*which, *cell, ns, own.get(cell, 0.0)))
    rows.sort(key=_slowest_first)
    return Table.from_rows(_SLOW, rows)


def _slowest_first(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """By process; the longest iteration first, and in it what takes longest beyond the usual."""
    process, iteration, start, end, _, _, _, ns, usual = row
    return process, start - end, iteration, usual - ns


def _usual(swept: Swept) -> defaultdict[int, dict[tuple[str, str], float]]:
    """For each process, what each of its cells has in an iteration of the steady state, on the average."""
    keep = swept.summary_threads[swept.cells["thread"]] & (
        swept.cells["slice"] == STEADY
    )
    cells = select(swept.cells, keep)
    traced = np.bincount(cells["thread"], cells["ns"], len(swept.thread_names))
    longest = np.zeros(len(swept.pace.steps))
    np.maximum.at(longest, swept.threads["process"], traced)
    timed = swept.pace.durations["timed"]
    timed_ns = swept.pace.durations["timed_ns"]
    per_iteration = timed_ns / np.maximum(timed, 1) / np.maximum(longest, 1)
    process = swept.threads["process"][cells["thread"]].astype(np.int64)
    columns = {
        "process": process,
        **_cell_names(swept, cells),
        "ns": cells["ns"] * per_iteration[process],
    }
    out: defaultdict[int, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in Table(columns).group(("process", "operation", "layer"), ("ns",)):
        out[row["process"]][row["operation"], row["layer"]] = row["ns"]
    return out


def _cell_names(swept: Swept, cells: Columns) -> Columns:
    return {
        "operation": swept.names.texts(cells["operation"]),
        "layer": objects(THREAD_LAYERS)[cells["layer"]],
    }


def timeline(run: Run, bins: int = 1000) -> Table:
    """What each thread did in each of `bins` equal stretches of the run.

    >>> run.timeline(2).select("thread", "start_ns", "operation", "layer", "ns").head(3)
    thread  start_ns  operation        layer             ns
         0         0  simulation       wait             760
         0         0  backpropagation  accelerator_api  200
         0         0  backpropagation  backend          100
    """
    swept = run.swept
    lanes = sweep(run.trace, known=swept, lanes=[Bins.over(*run.span, bins)]).lanes[0]
    at, bin = np.nonzero(lanes.ns)
    rows = select(lanes.rows, at)
    columns = {
        "process": swept.threads["process"][rows["thread"]],
        "thread": rows["thread"],
        "start_ns": lanes.cut.edges[bin],
        "operation": swept.names.texts(rows["operation"]),
        "layer": objects(THREAD_LAYERS)[rows["layer"]],
        "resource": resources(rows["blocked"], rows["busy"]),
    }
    table = Table({**columns, "ns": lanes.ns[at, bin]}).group(list(columns), ["ns"])
    return table.sort("ns", descending=True).sort("thread", "start_ns")


def device_timeline(run: Run, bins: int = 1000) -> Table:
    """How busy each device was in each of `bins` equal stretches of the run.

    >>> run.device_timeline(2)
    device  start_ns   ns
         0         0  300
         0      1500  540
    """
    edges = Bins.over(*run.span, bins).edges
    (found,) = run.swept.devices.busy(Busy(by=("device",), edges=edges))
    found = found.sort("device")
    at, bin = np.nonzero(found["bins"])
    return Table(
        {
            "device": found["device"][at],
            "start_ns": edges[bin],
            "ns": found["bins"][at, bin],
        }
    )
