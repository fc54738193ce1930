"""From a run to its digest: asks the analysis for tables and keeps what reports need. Nothing is printed here."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.analysis import Run, Table
from cutaway.analysis.noise import versions
from cutaway.analysis.processes import samples_in
from cutaway.analysis.stacks import Part, main_stacks, places
from cutaway.analysis.table import totals
from cutaway.analysis.utilisation import usage
from cutaway.errors import CutawayError
from cutaway.trace.hosts import HostClock

from . import text
from .course import kept_notes, stretches
from .digest import Cell, Correction, Digest, Hotspot, Machine, Process, Rows, Verdict, Wait
from .evidence import evidence
from .verdict import judge

MOST_HOTSPOTS = 200
FIRST_VERSIONS = "torch jax tensorflow stable_baselines3 stable-baselines3 gymnasium ray numpy".split()
LONG_NS = 1_000_000_000  # a call that lasted this long when its process was killed is worth a note
READS = ("_to_np_array_did_copy", ".__buffer__", ".__array__", "._value")  # of JAX
LEAVING_NS = 10_000_000_000  # between a parent's end and that of its daemons
STALE_S = 15.0  # a run whose files have not grown for this long is not being recorded
RECORDED_HERE = "cutaway run"
UNJUDGED = Verdict("", "", "", "", None, "", "", "")


def gather(path: str | os.PathLike[str]) -> Digest:
    """The digest of a run on disk."""
    return digest(open_run(path))


def open_run(path: str | os.PathLike[str], raw: bool = False) -> Run:
    """Open a run that holds something to show."""
    from cutaway.analysis import open

    run = open(path)
    if not run.trace.processes:
        raise CutawayError(f"{path} is empty: no process recorded anything; see `cutaway doctor`.")
    if raw:
        run.costs = None
    return run


def digest(run: Run) -> Digest:
    """Everything the reports say about a run. Figures are of the steady state; start-up stands apart."""
    steady, about, now = run.steady(), run.trace.about, state(run)
    used = usage(steady)
    processes = _processes(run, steady)
    main = processes[run.leader]
    pace = _pace(run, processes, main)
    cells, parts = _cells(steady), main_stacks(steady, main.id)
    lines = places(parts, by="line")
    hangs, stopped = _hangs(run, processes), _stopped(run, processes)
    command = about.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else str(command or "").split()

    def first(key: str) -> str:
        return next((str(p.log.process[key]) for p in run.trace.processes if p.log.process.get(key)), "")

    found = Digest(
        path=text.nearby(run.trace.path),
        program=Path(first("program")).name or run.trace.path.name,
        command=shlex.join(words) if isinstance(command, list) else str(command or ""),
        title=_title(words) or run.trace.path.name,
        created=_local_time(about.get("created")),
        host=str(about.get("host") or ""),
        python=first("python"),
        clock=first("clock"),
        source=str(about.get("source") or ""),
        versions=_versions(run),
        facts=run.trace.facts,
        state=now,
        failure=_failure(run, processes, now),
        devices=_devices(run, used),
        **pace,
        tokens=steady.tokens(),
        processes=processes,
        main_process=main.id,
        cells=cells,
        device_time=tuple(steady.device_time().where(process=main.id).group(("operation", "layer"), ["ns"])),
        machine=_machine(steady, used),
        waits=_waits(steady, processes),
        hotspots=_hotspots(steady, lines),
        transitions=_transitions(steady, pace["units"] or 1),
        lines=_lines(lines, main),
        packages=_packages([part for part in parts if part.process == main.id and part.samples]),
        correction=_correction(run, cells),
        losses=run.losses(),
        stopped=stopped,
        hangs=hangs,
        notes=_notes(run, now, hangs, stopped),
        events=sum(p.events for p in processes),
        stretches=stretches(run, processes, main),
        verdict=UNJUDGED,
    )
    return replace(found, verdict=judge(evidence(found)))


def _processes(run: Run, steady: Run) -> tuple[Process, ...]:
    table, rows = list(steady.breakdown(by=("process", "operation", "layer"))), list(run.processes())
    busy: list[Counter[str]] = [Counter() for _ in rows]
    layers: list[Counter[str]] = [Counter() for _ in rows]
    for r in table:
        layers[r["process"]][r["layer"]] += r["ns"]
        busy[r["process"]][r["operation"]] += r["ns"] * (r["layer"] != "wait")
    kept = ("pid", "parent", "role", "start_ns", "end_ns", "threads", "cpu_ns", "events", "lost")
    return tuple(
        Process(
            id=r["process"],
            name=r["name"] or f"pid {r['pid']}",
            exit=_ended(r, rows[r["parent"]] if r["parent"] >= 0 else None),
            operations=dict(busy[r["process"]]),
            layers=dict(layers[r["process"]]),
            host=run.trace.processes[r["process"]].host,
            **{key: r[key] for key in kept},
        )
        for r in rows
    )


def _pace(run: Run, processes: tuple[Process, ...], main: Process) -> dict[str, Any]:
    """What per-unit figures are divided by: iterations when there are any, else environment steps, else the whole run."""
    iterations = list(run.steady().iterations())
    own = [row for row in iterations if row["process"] == main.id]
    shutdown = _shutdown(run, main, own)
    units = sum(row["recorded"] * row["count"] for row in own)
    if units:
        start = min(row["start_ns"] for row in own)
        return {
            "unit": "iteration",
            "units": units,
            "iterations": sum(row["count"] for row in own),
            "steps": _steps(run, processes, main, iterations),
            "startup_ns": max(0, start - min(t for t in (main.start_ns, start) if t)),
            "steady_ns": sum(row["end_ns"] - row["start_ns"] for row in own),
            "shutdown_ns": shutdown,
        }
    edge, made = run.swept.steady_ns, run.swept.steps - run.swept.steps_startup
    steps = int(made[main.id] or made.sum())
    unit = {"unit": "step" if steps else "run", "units": steps or 1, "iterations": 0, "steps": steps}
    startup = min(max(0, edge - main.start_ns), main.life_ns) if edge else 0
    steady = main.life_ns - startup - shutdown
    return {**unit, "startup_ns": startup, "steady_ns": steady, "shutdown_ns": shutdown}


def _shutdown(run: Run, main: Process, own: list[dict[str, Any]]) -> int:
    """How long the main process lived after the last step or update."""
    over = max(row["end_ns"] for row in own) if own else run.swept.over_ns
    return max(0, main.end_ns - over) if over else 0


def _steps(run: Run, processes: tuple[Process, ...], main: Process, iterations: list[dict[str, Any]]) -> int:
    """Steps in the steady state: of the main process and its fellow ranks, else of the processes that step for it."""
    counted = totals((row["process"], row["steps"]) for row in iterations)
    if counted.get(main.id):
        return sum(n for id, n in counted.items() if processes[id].role == main.role)
    made = {p.id for p in processes if run.swept.steps[p.id]}
    # Environments in processes of their own are counted by who steps them, too.
    outer = [p.id for p in processes if p.id in made and p.parent not in made]
    return int((run.swept.steps - run.swept.steps_startup)[outer].sum())


def _cells(steady: Run) -> tuple[Cell, ...]:
    table = steady.breakdown().where(process=steady.leader)
    table = table.where(table["raw_ns"] > 0).select(*(field.name for field in fields(Cell)))
    return tuple(Cell(**row) for row in table)


def _waits(steady: Run, processes: tuple[Process, ...]) -> tuple[Wait, ...]:
    """Of the threads that carry operations: a helper thread that idles waits for nobody the user cares about."""
    names, table = steady.threads()["name"], steady.waits()
    table = table.where(steady.swept.summary_threads[table["thread"].astype(int)])
    by = ("process", "for_process", "operation", "on", "among", "for_thread")
    waits = []
    for row in table.group(by, ["ns", "count"]).sort("ns", descending=True):
        thread, ends = row.pop("for_thread"), tuple(int(i) for i in row.pop("among").split(",") if i)
        name = (str(names[thread]) if thread >= 0 else "") or "another thread"
        own = row["for_process"] == row["process"]
        partner = f"its thread {name}" if own else _partner([processes[i] for i in ends])
        waits.append(Wait(**row, among=ends, partner=partner))
    return tuple(waits)


def _partner(ends: list[Process]) -> str:
    roles = {p.role or "process" for p in ends}
    if len(ends) < 2:
        return ends[0].name if ends else ""
    return f"one of {len(ends)} {roles.pop()}s" if len(roles) == 1 else f"one of {len(ends)} processes"


def _lines(lines: Table, main: Process) -> Rows:
    # Reading a result may wait for a compiled update: the line that launched it is the one to change.
    reads = [one["operation"] == "backpropagation" and one["native"].endswith(READS) for one in lines]
    own = lines.where((lines["your_file"] != "") & ~np.array(reads, bool), process=main.id)
    own = own.group(("operation", "layer", "your_function", "your_file", "your_line"), ["ns"])
    longest = own.sort("ns", descending=True).head(MOST_HOTSPOTS)
    return tuple({key.removeprefix("your_"): value for key, value in row.items()} for row in longest)


def _hotspots(steady: Run, lines: Table) -> tuple[Hotspot, ...]:
    yours: dict[tuple[str, str, str, int], tuple[str, int]] = {}
    for r in lines:  # the longest first
        if r["native"] and r["samples"] and r["your_file"]:
            key = r["operation"], r["native"], r["file"], r["line"]
            yours.setdefault(key, (r["your_file"], r["your_line"]))
    spots = []
    for r in steady.hotspots().sort("ns", descending=True).head(MOST_HOTSPOTS):
        file, line = yours.get((r["operation"], r["function"], r["file"], r["line"]), ("", 0))
        spots.append(Hotspot(**r, your_file=file, your_line=line))
    return tuple(spots)


def _packages(parts: list[Part]) -> dict[str, float]:
    """Installed packages on the stack, by their share of the sampled time: one that runs the training loop has nearly all."""
    files = [({_package(place.file) for place in part.stack} - {""}, part.ns) for part in parts]
    found = totals((name, ns) for names, ns in files for name in names)
    whole = max(1, sum(part.ns for part in parts))
    return {name: ns / whole for name, ns in sorted(found.items(), key=lambda kv: -kv[1])}


def _package(file: str) -> str:
    _, mark, inside = file.rpartition("/site-packages/")
    names = inside.split("/")
    return ".".join(names[:2] if names[0] == "ray" else names[:1]).removesuffix(".py") if mark else ""


def _transitions(steady: Run, units: float) -> Rows:
    table = steady.transitions().where(process=steady.leader).group(("operation", "from", "to"), ["count"])
    rows = table.sort("count", descending=True)
    names = ("operation", "origin", "target", "count", "per_unit")
    return tuple(dict(zip(names, (*r.values(), r["count"] / units), strict=True)) for r in rows)


def _correction(run: Run, cells: tuple[Cell, ...]) -> Correction | None:
    raw = sum(c.raw_ns for c in cells)
    if not raw or run.costs is None:
        return None
    own = sum(p.log.samples[-1].get("own", 0) for p in run.trace.processes if p.log.samples)
    measured = run.calibration.measured if run.calibration else None
    return Correction(
        removed=(raw - sum(c.ns for c in cells)) / raw,
        error=sum(c.high_ns - c.low_ns for c in cells) / 2 / raw,
        units=measured.units if measured else 0,
        short=sum(c.short_ns for c in cells) / raw,
        background=own / max(1, run.span[1] - run.span[0]),
    )


def _machine(steady: Run, used: dict[str, Any]) -> Machine:
    """Cores and devices in the steady state, as sampled; what was not sampled stays None."""
    span = max(1, used["span_ns"])
    devices = list(used["devices"].values())
    copied = totals((row["device"], row["ns"]) for row in steady.device_time() if row["layer"] == "memcpy")
    return Machine(
        cores=used["cpus"] or os.cpu_count() or 1,
        cores_busy=used["cores_busy"],
        foreign=used["foreign_cores"],
        runqueue_share=used["runqueue_share"],
        runnable=None if used["cpu_ns"] is None else (used["cpu_ns"] + used["runqueue_ns"]) / span,
        device_busy=max((d["busy"] for d in devices), default=None),
        nvidia_smi=max((d["nvidia_smi"]["1/6 s"] for d in devices), default=None),
        device_copies=max(copied.values(), default=0) / span,
        watts=_watts(steady),
    )


def _watts(steady: Run) -> float | None:
    """Mean of the sampled power of GPUs and CPUs together, over all processes that sampled any."""
    powers = [power for _, sample in samples_in(steady) if isinstance(power := sample.get("power"), dict)]
    sums = [sum(v for v in power.values() if isinstance(v, (int, float))) for power in powers]
    watts = [float(total) for total in sums if total > 0]
    return sum(watts) / len(watts) if watts else None


def _title(words: list[str]) -> str:
    if words and Path(words[0]).name.startswith("python"):
        words = words[1:]
    return " ".join([Path(words[0]).name, *words[1:]]) if words else ""


def _local_time(created: Any) -> str:
    if isinstance(created, int):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(created / 1e9))
    return str(created or "")


def _versions(run: Run) -> dict[str, str]:
    """Versions of all processes, those that matter most first."""
    found = versions(run)
    known = [name for name in FIRST_VERSIONS if name in found]
    return {name: found[name] for name in [*known, *sorted(set(found) - set(known))]}


def _devices(run: Run, used: dict[str, Any]) -> tuple[str, ...]:
    names = [str(d.get("name") or "accelerator") for p in run.trace.processes for d in p.log.devices]
    return tuple(dict.fromkeys(names or [f"device {number}" for number in used["devices"]]))


def state(run: Run) -> str:
    """complete, stopped, recording or killed."""
    path = run.trace.path
    if (path / "exit.json").is_file() or all(p.log.exit is not None for p in run.trace.processes):
        return "stopped" if len(run.stops()) else "complete"
    if not _recorded_here(run):
        return "complete"
    newest = max((f.stat().st_mtime for f in path.rglob("*") if f.is_file()), default=0.0)
    alive = any(_alive(p.pid) for p in run.trace.processes if p.log.exit is None)
    return "recording" if alive and time.time() - newest < STALE_S else "killed"


def _recorded_here(run: Run) -> bool:
    return str(run.trace.about.get("source") or RECORDED_HERE) == RECORDED_HERE


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0


def exit_text(exit: str) -> str:
    """How a process ended, as people say it.

    >>> exit_text("0"), exit_text("signal 9"), exit_text("3"), exit_text("")
    ('ok', 'SIGKILL', 'code 3', '')
    """
    if exit.startswith("signal "):
        try:
            return signal.Signals(int(exit.removeprefix("signal "))).name
        except ValueError:
            return exit
    return {"0": "ok", "": ""}.get(exit, f"code {exit}")


def _ended(row: dict[str, Any], parent: dict[str, Any] | None) -> str:
    """Daemon workers are ended by their parent as it leaves: that is normal."""
    well = parent is not None and parent["exit"] in ("0", "")
    leaving = parent is not None and abs(parent["end_ns"] - row["end_ns"]) < LEAVING_NS
    return "by parent" if row["exit"] == "signal 15" and well and leaving else exit_text(row["exit"])


def _failure(run: Run, processes: tuple[Process, ...], now: str) -> str:
    """How the program, or else a process of it, failed or was killed; empty if all is well."""
    if not _recorded_here(run) or now == "recording":
        return ""
    first = _failed("The program", processes[0].exit or ("killed" if now == "killed" else ""))
    others = [sentence for p in processes[1:] if (sentence := _failed(p.name, p.exit))]
    if not first and not others:
        return ""
    more = f" {len(others) - 1} more processes failed." if not first and len(others) > 1 else ""
    return f"{first or others[0]}{more} The figures cover the time until then."


def _failed(who: str, how: str) -> str:
    if how in ("", "ok", "by parent"):
        return ""
    if how == "killed":
        return f"{who} was killed."
    if how == "SIGINT":
        return f"{who} was interrupted (Ctrl-C)."
    return f"{who} was killed by {how}." if how.startswith("SIG") else f"{who} failed with exit {how}."


def _stopped(run: Run, processes: tuple[Process, ...]) -> Rows:
    return tuple(
        {
            "process": process.id,
            "name": process.name,
            "why": stop["why"],
            "kept_ns": max(0, stop["t_ns"] - process.start_ns),
            "missed_ns": max(0, process.end_ns - stop["t_ns"]),
        }
        for stop in run.stops()
        for process in [processes[stop["process"]]]
    )


def _hangs(run: Run, processes: tuple[Process, ...]) -> Rows:
    """What the main threads of killed processes, or of those still being recorded, are in the middle of. A worker that its
    parent ends when it leaves was waiting for work."""
    found = []
    for row in run.unfinished():
        process, ns = processes[row["process"]], row["until_ns"] - row["since_ns"]
        if row["tid"] == process.pid and ns >= LONG_NS and process.exit != "by parent":
            place = text.place(row["file"], row["line"])
            where = f"{row['function']}{f' ({place})' if place else ''}" if row["function"] else "Python code"
            found.append({"process": process.id, "name": process.name, "where": where, "ns": ns})
    return tuple(sorted(found, key=lambda hang: -hang["ns"]))


def _host_clocks(hosts: dict[str, HostClock]) -> str:
    """How well the clocks of several hosts are known."""
    errors = {name: clock.error_ns for name, clock in sorted(hosts.items())}
    known = [
        f"{name} by the wall clocks only" if error is None else f"{name} ± {text.duration(error)}"
        for name, error in errors.items()
        if error != 0
    ]
    reference = next((name for name, clock in hosts.items() if clock.error_ns == 0), "one host")
    return f"{len(hosts)} hosts on the clock of {reference}: {', '.join(known)}."


def _notes(run: Run, now: str, hangs: Rows, stopped: Rows) -> tuple[str, ...]:
    """What a reader must know before believing the figures, one sentence each."""
    out: list[str] = []
    if now == "recording":
        watch = f"watch it with `cutaway top {text.nearby(run.trace.path)}`"
        out.append(f"This run is still recording. You see its figures so far; {watch}.")
    when = "so far" if now == "recording" else "when it ended"
    for hang in hangs[:3]:
        out.append(
            "{name} was still inside {where}, for ".format(**hang) + f"{text.duration(hang['ns'])} {when}."
        )
    for stop in stopped[:3]:
        allow = " To keep a later part, raise --max-size or start later with --after."
        kept, missed = (text.duration(stop[key]) for key in ("kept_ns", "missed_ns"))
        out.append(
            f"Recording of {stop['name']} stopped after {kept} ({stop['why']}): the {missed} after that are "
            f"missing.{allow if 'size limit' in stop['why'] else ''}"
        )
    if len(stopped) > 3:
        out.append(f"Recording stopped early in {len(stopped) - 3} more processes.")
    lost = ", ".join(f"{n} {name}" for name, n in run.losses().items() if n)
    if lost:
        out.append(f"Data is missing ({lost}), so counts are too low and some native time counts as Python.")
    if run.trace.hosts:
        out.append(_host_clocks(run.trace.hosts))
    out += kept_notes(run)
    written = dict.fromkeys(note for p in run.trace.processes for note in p.log.notes)
    return (*out, *list(written)[:5])
