"""From a run to a digest: asks the analysis for its tables and keeps what reports need. No arithmetic of its own
beyond adding up, no printing."""

from __future__ import annotations

import os
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.breakdown import summary_threads
from cutaway.errors import CutawayError

from . import facts
from .model import Cell, Correction, Digest, Hotspot, Line, Process, Transition, Wait

MOST_HOTSPOTS = 200


def gather(path: str | os.PathLike[str], raw: bool = False) -> Digest:
    """The digest of a run on disk."""
    return digest(open_run(path, raw=raw))


def open_run(path: str | os.PathLike[str], raw: bool = False) -> Run:
    """Open a run that holds something to show."""
    from cutaway.analysis import open

    run = open(path)
    if not run.trace.processes:
        raise CutawayError(f"{path} is empty: no process of it recorded anything; see `cutaway doctor`.")
    if raw:
        run.costs = None
    return run


def digest(run: Run) -> Digest:
    """Everything the reports say about a run. Figures are of the steady state; start-up is told apart."""
    steady = run.steady()
    processes = _processes(run, steady)
    iterations = list(steady.iterations())
    main = _main(processes, iterations)
    own = [r for r in iterations if r["process"] == main.id]
    pace = facts.pace(run, main, own)
    cells = _cells(steady, main)
    about = run.trace.about
    return Digest(
        path=facts.nearby(run.trace.path),
        program=facts.program(run),
        command=facts.command(run),
        title=facts.title(run),
        created=facts.created(about.get("created")),
        host=str(about.get("host") or ""),
        python=str(facts.first(run, "python")),
        clock=str(facts.first(run, "clock")),
        source=str(about.get("source") or ""),
        versions=facts.versions(run),
        facts=run.trace.facts,
        state=facts.state(run),
        processes=processes,
        main=main,
        devices=facts.devices(run),
        startup_ns=pace.startup_ns,
        steady_ns=pace.steady_ns,
        unit=pace.unit,
        units=pace.units,
        iterations=pace.iterations,
        steps=pace.steps,
        cells=cells,
        device_cells=_device_ns(steady, main),
        machine=facts.machine(steady),
        waits=_waits(steady, processes),
        hotspots=_hotspots(steady),
        transitions=_transitions(steady, main, pace.units),
        correction=_correction(run, cells),
        losses=facts.losses(run),
        stopped=facts.stopped(run),
        hangs=facts.hangs(run),
        notes=facts.notes(run),
        events=sum(p.events for p in processes),
        lines=_lines(steady, main),
        failure=facts.failure(run),
        tokens=steady.tokens(),
    )


def _processes(run: Run, steady: Run) -> tuple[Process, ...]:
    operations: dict[int, dict[str, int]] = {}
    layers: dict[int, dict[str, int]] = {}
    for row in steady.breakdown(by=("process", "operation", "layer")):
        for sums, key in ((operations, row["operation"]), (layers, row["layer"])):
            own = sums.setdefault(row["process"], {})
            # Waiting is no part of what a process is busy with.
            own[key] = own.get(key, 0) + (0 if sums is operations and row["layer"] == "wait" else row["ns"])
    return tuple(
        Process(
            id=r["process"],
            pid=r["pid"],
            parent=r["parent"],
            name=r["name"] or f"pid {r['pid']}",
            role=r["role"],
            start_ns=r["start_ns"],
            end_ns=r["end_ns"],
            exit=facts.ended(run, r),
            threads=r["threads"],
            cpu_ns=r["cpu_ns"],
            events=r["events"],
            lost=r["lost"],
            operations=operations.get(r["process"], {}),
            layers=layers.get(r["process"], {}),
        )
        for r in run.processes()
    )


def _main(processes: tuple[Process, ...], iterations: list[dict[str, Any]]) -> Process:
    """The process the summary is about: the learner, else the one that counts iterations, else the busiest."""
    counted: dict[int, int] = {}
    for row in iterations:
        counted[row["process"]] = counted.get(row["process"], 0) + 1

    def rank(p: Process) -> tuple[bool, int, int, int]:
        named = sum(ns for name, ns in p.operations.items() if name)
        return p.role == "learner", counted.get(p.id, 0), named, p.cpu_ns

    return max(processes, key=rank)


def _cells(steady: Run, main: Process) -> tuple[Cell, ...]:
    table = steady.breakdown(by=("process", "operation", "layer", "resource"))
    return tuple(
        Cell(
            *(
                r[k]
                for k in (
                    "operation",
                    "layer",
                    "resource",
                    "ns",
                    "raw_ns",
                    "low_ns",
                    "high_ns",
                    "calls",
                    "short_ns",
                )
            )
        )
        for r in table
        if r["process"] == main.id and r["raw_ns"] > 0
    )


def _device_ns(steady: Run, main: Process) -> dict[tuple[str, str], int]:
    """Busy time of the devices by launching operation and kind of work."""
    total: dict[tuple[str, str], int] = {}
    for row in steady.device_time():
        if row["process"] == main.id:
            key = row["operation"], row["layer"]
            total[key] = total.get(key, 0) + row["ns"]
    return total


def _waits(steady: Run, processes: tuple[Process, ...]) -> tuple[Wait, ...]:
    """Of the threads that carry operations: a helper thread that idles waits for nobody the user cares about."""
    threads = steady.threads()
    carries = summary_threads(steady.trace, steady.swept)
    total: dict[tuple[int, int, str, str, str, int], list[int]] = {}
    for r in steady.waits():
        if carries[r["thread"]]:
            key = (r["process"], r["for_process"], r["operation"], r["on"], r["among"], r["for_thread"])
            sums = total.setdefault(key, [0, 0])
            sums[0] += r["ns"]
            sums[1] += r["count"]
    waits = []
    for (process, whom, operation, on, among, thread), (ns, count) in total.items():
        ends = tuple(int(i) for i in among.split(",") if i)
        name = str(threads["name"][thread] or "another thread") if thread >= 0 else "another thread"
        partner = f"its thread {name}" if whom == process else _partner([processes[i] for i in ends])
        waits.append(Wait(process, whom, operation, on, ns, count, ends, partner))
    return tuple(sorted(waits, key=lambda w: -w.ns))


def _partner(ends: list[Process]) -> str:
    roles = {p.role or "process" for p in ends}
    if len(ends) < 2:
        return ends[0].name if ends else ""
    return f"one of {len(ends)} {roles.pop()}s" if len(roles) == 1 else f"one of {len(ends)} processes"


def _lines(steady: Run, main: Process) -> tuple[Line, ...]:
    total: dict[tuple[str, str, str, str, int], int] = {}
    for r in steady.lines():
        if r["process"] == main.id and r["your_file"]:
            key = (r["operation"], r["layer"], r["your_function"], r["your_file"], r["your_line"])
            total[key] = total.get(key, 0) + r["ns"]
    found = sorted((Line(*key, ns) for key, ns in total.items()), key=lambda line: -line.ns)
    return tuple(found[:MOST_HOTSPOTS])


def _hotspots(steady: Run) -> tuple[Hotspot, ...]:
    table = steady.hotspots().sort("ns", descending=True).head(MOST_HOTSPOTS)
    names = ("operation", "layer", "function", "file", "line", "caller", "ns", "count", "transitions")
    yours: dict[tuple[str, str, str, int], tuple[str, int]] = {}
    for r in steady.lines():  # the longest first
        if r["native"] and r["samples"] and r["your_file"]:
            key = r["operation"], r["native"], r["file"], r["line"]
            yours.setdefault(key, (r["your_file"], r["your_line"]))
    spots = []
    for r in table:
        file, line = yours.get((r["operation"], r["function"], r["file"], r["line"]), ("", 0))
        spots.append(Hotspot(**{k: r[k] for k in names}, your_file=file, your_line=line))
    return tuple(spots)


def _transitions(steady: Run, main: Process, units: float) -> tuple[Transition, ...]:
    total: dict[tuple[str, str, str], int] = {}
    for r in steady.transitions():
        if r["process"] == main.id:
            key = r["operation"], r["from"], r["to"]
            total[key] = total.get(key, 0) + r["count"]
    found = (Transition(*key, count, count / (units or 1)) for key, count in total.items())
    return tuple(sorted(found, key=lambda t: -t.count))


def _correction(run: Run, cells: tuple[Cell, ...]) -> Correction | None:
    raw = sum(c.raw_ns for c in cells)
    if not raw or run.costs is None:
        return None
    removed = raw - sum(c.ns for c in cells)
    measured = run.calibration.measured if run.calibration else None
    return Correction(
        removed / raw,
        sum(c.high_ns - c.low_ns for c in cells) / 2 / raw,
        measured.units if measured else 0,
        sum(c.short_ns for c in cells) / raw,
        facts.background(run),
    )
