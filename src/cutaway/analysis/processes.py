"""Processes and threads of a run, and what their logs say: meters, losses, how recordings ended, tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.sweep import Swept, select
from cutaway.analysis.table import Table
from cutaway.trace.log import Call, Log
from cutaway.trace.reader import ProcessTrace, Trace
from cutaway.vocabulary import PROCESS_METERS

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

FOREVER = (1 << 63) - 1
UNKNOWN = -1
HELPER = "helper"
SNIPPET_NS = 1_000_000_000
"""`python -c …` that ends sooner asked the machine something (which display, which library): it is no part of the training."""
FOR_EVER = 1 << 63
"""The role of processes that do nothing for the training."""


def process_table(run: Run) -> Table:
    """`Run.processes`: one row for each process."""
    trace = run.trace
    swept = run.swept
    table = threads(run)
    parents = parents_of(run.trace)
    sampled = meters(trace)
    # What parents saw; that of the first process is `cutaway run`.
    waited: dict[Any, dict[str, Any]] = {
        (p.host, p.pid): trace.ended for p in trace.processes[:1]
    }
    for parent in trace.processes:
        for child in parent.log.children:
            waited[parent.host, child.get("pid")] = child
    rows = []
    for index, process in enumerate(trace.processes):
        own = table["process"] == index
        seen = swept.devices.seen[index]
        counts = ("events", "damaged", "implausible", "disordered")
        events, *bad = (int(swept.threads[name][own].sum()) for name in counts)
        ended = process.log.exit or {}
        if "code" not in ended and "signal" not in ended:
            ended = waited.get((process.host, process.pid), ended)
        if "signal" in ended:
            exit = f"signal {ended['signal']}"
        else:
            exit = str(ended.get("code", ""))
        name = str(process.log.process.get("name") or "")
        role = _role(swept, index, parents)
        about = (
            index,
            process.pid,
            parents[index],
            name,
            role,
            *life(swept, index),
            exit,
        )
        metered = sum(used for used, _ in sampled[index].values())
        # Threads that never ran Python (a pool of PyTorch's) are known from samples only.
        cpu = max(int(table["cpu_ns"][own].sum()), metered)
        lost = process.losses.total + sum(bad)
        rows.append(
            (*about, int(own.sum()), cpu, events + seen.calls + seen.works, lost)
        )
    names = (
        "process pid parent name role start_ns end_ns exit threads cpu_ns events lost"
    )
    return Table.from_rows(names.split(), rows)


def parents_of(trace: Trace) -> list[int]:
    """The position of each process's parent, -1 where that is outside the run."""
    positions = trace.positions()
    return [
        UNKNOWN
        if p.parent_pid == p.pid
        else positions.get((p.host, p.parent_pid), UNKNOWN)
        for p in trace.processes
    ]


def _role(swept: Swept, index: int, parents: list[int]) -> str:
    process = swept.trace.processes[index]
    own = swept.operations["process"] == index
    names = set(swept.names.texts(swept.operations["operation"][own]).tolist())
    return role_of(
        process.log, names, root=parents[index] == UNKNOWN, roots=parents.count(UNKNOWN)
    )


def role_of(log: Log, operations: set[str], *, root: bool, roots: int) -> str:
    """The role a process was given; else what follows from the operations it opened, yours among them. The program itself is
    not a worker of anybody, even if it simulates. `root`: its parent is not part of the run; `roots`: how many of these there are."""
    given = str(log.process.get("role") or "")
    if (
        given and given != "env worker"
    ):  # which the recorder guesses from what frameworks do
        return given
    if root and roots == 1:
        worker = ""
    else:
        worker = "env worker"
    if "backpropagation" in operations:
        return "learner"
    if "simulation" in operations:
        if "inference" in operations:
            return "actor"
        return worker
    found = next(
        (role for role in ("inference", "evaluation") if role in operations),
        given and worker,
    )
    stranger = root and roots > 1
    return found or (HELPER if _helps(log, operations, root, stranger) else "")


def _helps(log: Log, operations: set[str], root: bool, stranger: bool) -> bool:
    """Whether a process without a role is no part of the training: `python -c …`, a resource tracker, a service of Ray, what
    multiprocessing started for a program that is no part of the run (Ray's dashboard)."""
    name = str(log.process.get("name") or "")
    program = str(log.process.get("program") or "")
    if any(operations):
        return False
    if stranger and program == "-c" and name not in ("", "-c"):
        return True
    of_ray = "/ray/" in program
    snippet = not root and name == "-c"
    if (
        snippet and _life_ns(log) < SNIPPET_NS
    ):  # it may have sent its parent what it found
        return True
    serves = of_ray or snippet or (not root and "resource_tracker" in name)
    return serves and not log.feeds


def _life_ns(log: Log) -> int:
    """How long a process lived; one that has not ended lives for ever."""
    ended = (log.exit or {}).get("t")
    begun = log.process.get("t")
    if ended and begun:
        return int(ended - begun)
    return FOR_EVER


def life(swept: Swept, index: int) -> tuple[int, int]:
    """From when to when a process is known to have lived."""
    own = (swept.threads["process"] == index) & (swept.threads["end"] > 0)
    start, end = known_life(swept.trace.processes[index])
    start = start or min(swept.threads["first"][own].tolist(), default=0)
    return start, max(
        start, end, *swept.threads["end"][own].tolist(), swept.devices.seen[index].end
    )


def known_life(process: ProcessTrace) -> tuple[int, int]:
    """What the log alone says about it: its records may go on for a while."""
    start = process.log.process.get("t", 0)
    return start, max(
        start,
        *(
            entry.get("t") or 0
            for entry in (process.log.exit or {}, *process.log.samples[-1:])
        ),
    )


def threads(run: Run) -> Table:
    """The threads of all processes. Those that do not carry operations are helpers. `traced_ns` is the traced life of a thread
    without pauses.

    >>> run.threads().select("process", "thread", "name", "carries_operations", "traced_ns")
    process  thread  name        carries_operations  traced_ns
          0       0  MainThread  True                     3000
          0       1  logger      False                      50
          1       2  MainThread  True                     3000
          2       3  MainThread  True                     3000
    """
    swept = run.swept
    metered = meters(run.trace)
    names = ("carries", "first", "end", "traced_ns", "has_cpu", "cpu_ns")
    found = zip(
        swept.thread_names,
        *(swept.threads[name].tolist() for name in names),
        strict=True,
    )
    rows = []
    for index, (name, carries, *times, has_cpu, measured) in enumerate(found):
        cpu, runqueue = metered[name.process].get(name.tid, (0, 0))
        if has_cpu:
            cpu = max(cpu, measured)
        rows.append(
            (
                name.process,
                index,
                name.tid,
                name.name,
                bool(carries),
                *times,
                cpu,
                runqueue,
            )
        )
    columns = "process thread tid name carries_operations start_ns end_ns traced_ns cpu_ns runqueue_ns"
    return Table.from_rows(columns.split(), rows)


def stragglers(run: Run) -> Table:
    """Siblings with one parent and one role by how long they worked (were not waiting): the slowest holds the others up.
    `behind` compares each with the mean of the others.

    >>> run.stragglers().select("process", "busy_ns", "behind")
    process  busy_ns  behind
          2     1140       2
          1      570     0.5
    """
    busy = busy_ns(run)
    families: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for index, (process, parent) in enumerate(
        zip(run.trace.processes, parents_of(run.trace), strict=True)
    ):
        families[parent, str(process.log.process.get("role") or "")].append(index)
    rows: list[tuple[Any, ...]] = []
    for (parent, role), members in families.items():
        for index in members if parent != UNKNOWN and len(members) > 1 else ():
            others = np.mean([busy[i] for i in members if i != index])
            if others:
                behind = float(busy[index] / others)
            else:
                behind = float("nan")
            rows.append((index, parent, role, int(busy[index]), len(members), behind))
    names = ("process", "parent", "role", "busy_ns", "siblings", "behind")
    return Table.from_rows(names, rows).sort("busy_ns", descending=True)


def busy_ns(run: Run) -> NDArray[np.int64]:
    """How long the threads that summarise each process were not blocked."""
    cells = run.rows(run.swept.cells)
    cells = select(
        cells, (cells["blocked"] == 0) & run.swept.summary_threads[cells["thread"]]
    )
    out = np.zeros(len(run.trace.processes), np.int64)
    np.add.at(out, run.swept.threads["process"][cells["thread"]], cells["ns"])
    return out


def losses(run: Run) -> dict[str, int]:
    """What is missing in all processes, by kind: dropped, damaged, torn.

    >>> sum(run.losses().values())
    0
    """
    own = [process.losses for process in run.trace.processes]
    threads = run.swept.threads
    damaged = sum(
        lost.damaged_blocks + sum(lost.damaged_device_blocks.values()) for lost in own
    )
    return {
        "events": sum(lost.dropped_events for lost in own),
        "damaged blocks": damaged + int(threads["damaged"].sum()),
        "missing segments": sum(lost.missing_segments for lost in own),
        "log lines": sum(lost.bad_lines for lost in own),
        "records out of order": int(threads["disordered"].sum()),
        "records of no time": int(threads["implausible"].sum()),
        "late device records": sum(lost.late_device_records for lost in own),
    }


def stops(run: Run) -> Table:
    """Processes in which recording stopped early, when and why (disk full, size limit, …). Everything after that is missing.

    >>> len(run.stops())
    0
    """
    rows = [
        (i, p.stop.t, p.stop.why) for i, p in enumerate(run.trace.processes) if p.stop
    ]
    return Table.from_rows(("process", "t_ns", "why"), rows)


def unfinished(run: Run) -> Table:
    """The calls that threads were in when their process was killed: which call, from which line, since when. `function`
    is empty outside recorded calls.

    >>> len(run.unfinished())
    0
    """
    rows = []
    for index, process in enumerate(run.trace.processes):
        for thread, open in process.unfinished.items():
            info = process.log.threads.get(thread)
            call = process.log.calls.get(open.call, Call())
            if info:
                who = (index, info.tid, info.name)
            else:
                who = (index, 0, "")
            rows.append(
                (
                    *who,
                    call.fn,
                    call.layer,
                    call.file,
                    call.line,
                    open.since,
                    open.until,
                )
            )
    names = (
        "process",
        "tid",
        "thread",
        "function",
        "layer",
        "file",
        "line",
        "since_ns",
        "until_ns",
    )
    return Table.from_rows(names, rows)


def tokens(run: Run) -> int:
    """How many tokens language models generated, without prompts and padding.

    >>> run.tokens()
    0
    """
    at, made = token_points(run)
    first, end = run.edges
    return int(made[(at >= first) & (at < end)].sum())


def token_points(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When tokens were generated in the whole run, in order, and how many each time."""
    logged = chain.from_iterable(p.log.others for p in run.trace.processes)
    points = []
    for entry in logged:
        if entry["k"] == "tokens":
            start = int(entry["t"])
            # One call alone has no list of its own.
            for after, made in entry.get("at", [[0, entry["n"]]]):
                points.append((start + int(after), int(made)))
    found = np.array(sorted(points), np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def samples(run: Run) -> Table:
    """The sampled meters, one row for each thread that ran since the sample before.

    >>> run.samples().select("process", "tid", "cpu_ns", "runqueue_ns")
    process  tid  cpu_ns  runqueue_ns
          0   10       0            0
          0   10    1500          300
    """
    rows = []
    for index, sample in samples_in(run):
        of_process = [
            sample.get(meter.key, 0 if meter.whole else np.nan)
            for meter in PROCESS_METERS
        ]
        for thread in _thread_samples(sample):
            rows.append((index, *thread, *of_process))
    names = (
        "process",
        "t_ns",
        "tid",
        "cpu_ns",
        "runqueue_ns",
        *(meter.column for meter in PROCESS_METERS),
    )
    return Table.from_rows(names, rows)


def samples_in(run: Run) -> Iterator[tuple[int, dict[str, Any]]]:
    """The samples of this part of a run as the logs hold them, and the positions of their processes."""
    first, last = run.edges
    for index, process in enumerate(run.trace.processes):
        for sample in process.log.samples:
            if (t := sample.get("t")) is not None and first <= t <= last:
                yield index, sample


def _thread_samples(sample: dict[str, Any]) -> Iterator[tuple[int, int, int, int]]:
    """(time, tid, CPU ns, run-queue ns) of one sample; entries that make no sense are left out."""
    for tid, values in (
        (sample.get("threads") or {}).items() if sample.get("t") is not None else ()
    ):
        fine = (
            isinstance(values, list)
            and len(values) == 2
            and all(isinstance(v, int) for v in values)
        )
        if fine and str(tid).isdecimal():
            yield sample["t"], int(tid), values[0], values[1]


def meters(
    trace: Trace, span: tuple[int, int] = (0, FOREVER)
) -> list[dict[int, tuple[int, int]]]:
    """For each process and tid, the CPU and run-queue time while it was recorded; of a part of the run, from the last
    sample before it to the last one in it. The system counts from the start of a thread; only the first process of
    a run had lived before it was recorded."""
    out = []
    known = trace.positions()
    for process in trace.processes:
        root = (process.host, process.parent_pid) not in known
        first: dict[int, tuple[int, int]] = {}
        last: dict[int, tuple[int, int]] = {}
        rows = chain.from_iterable(map(_thread_samples, process.log.samples))
        for t, tid, cpu, runqueue in rows:
            first.setdefault(
                tid, (cpu, runqueue) if root and tid == process.pid else (0, 0)
            )
            if t <= span[0]:
                first[tid] = cpu, runqueue
            if t <= span[1]:
                last[tid] = cpu, runqueue
        out.append(
            {
                tid: (last[tid][0] - first[tid][0], last[tid][1] - first[tid][1])
                for tid in last
            }
        )
    return out


def cpu_over_time(
    samples: list[dict[str, Any]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When samples were taken, and the CPU time of all threads together since the first one, which names every thread. The
    others name only those that ran since the one before; a thread that ended keeps what it used."""
    known: dict[int, int] = {}
    used: dict[int, int] = {}
    total = 0
    for t, tid, cpu, _ in chain.from_iterable(map(_thread_samples, samples)):
        first = t == next(iter(used), t)
        total += max(0, cpu - known.get(tid, cpu if first else 0))
        known[tid], used[t] = cpu, total
    return np.array(list(used), np.int64), np.array(list(used.values()), np.int64)
