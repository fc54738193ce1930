"""From a run to its digest: asks the analysis for tables and keeps what reports need. Nothing is printed here."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter, defaultdict
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.analysis import Run, Table
from cutaway.analysis.counters import device_use
from cutaway.analysis.gil import gil_in_calls
from cutaway.analysis.noise import queued_shares, versions, work_in_halves
from cutaway.analysis.passes import unrecorded
from cutaway.analysis.processes import samples_in
from cutaway.analysis.stacks import Part, main_stacks, places
from cutaway.analysis.table import totals
from cutaway.analysis.utilisation import nvidia, usage
from cutaway.errors import CutawayError
from cutaway.record.frameworks import cards

from . import endings, text
from .decisions import questions
from .digest import (
    CallSite,
    Cell,
    Correction,
    Digest,
    Machine,
    Process,
    Rows,
    Verdict,
    Wait,
)
from .evidence import evidence
from .memory import gather_memory
from .progress import kept_notes, steppers, stretches
from .replayed import replayed
from .threads import working_threads
from .verdict import judge

MOST_CALLSITES = 200
READS = ("_to_np_array_did_copy", ".__buffer__", ".__array__", "._value")  # of JAX
LEAVING_NS = 10_000_000_000  # between a parent's end and that of its daemons
UNJUDGED = Verdict("", "", "", "", None, "", "", "")


def gather(path: str | os.PathLike[str]) -> Digest:
    """The digest of a run on disk."""
    return digest(open_run(path))


def open_run(path: str | os.PathLike[str], raw: bool = False) -> Run:
    """Open a run that holds something to show."""
    from cutaway.analysis import open

    run = open(path)
    if not run.trace.processes:
        raise CutawayError(
            f"{path} is empty: no process recorded anything; see `cutaway doctor`."
        )
    if raw:
        run.costs = None
    return run


def digest(run: Run) -> Digest:
    """Everything the reports say about a run. Figures are of the steady state; start-up stands apart."""
    steady = run.steady()
    now = endings.state(run)
    used = usage(run.steady())
    device_time = steady.device_time()
    processes = _processes(run, steady)
    main = processes[run.main_process]
    pace = _pace(run, processes, main)
    table = steady.breakdown().where(process=main.id)
    table = table.where(table["raw_ns"] > 0).select(
        *(field.name for field in fields(Cell))
    )
    cells = tuple(Cell(**row) for row in table)
    parts = main_stacks(steady, main.id)
    lines = places(parts, by="line")
    hangs = endings.hangs(run, processes)
    stopped = endings.stopped(run, processes)
    logged = chain.from_iterable(p.log.devices for p in run.trace.processes)
    devices = [str(device.get("name") or "accelerator") for device in logged]
    each_s = (
        pace["steady_ns"] / pace["units"] / 1e9 if pace["unit"] == "iteration" else 0.0
    )
    memory = gather_memory(run, [process.name for process in processes], each_s)
    unjudged = Digest(
        **_program(run),
        facts=run.trace.facts,
        state=now,
        failure=endings.failure(run, processes, now, memory),
        devices=tuple(
            dict.fromkeys(devices or [f"device {number}" for number in used["devices"]])
        ),
        **pace,
        tokens=steady.tokens(),
        processes=processes,
        main_process=main.id,
        threads=working_threads(steady, main.id, pace["steady_ns"]),
        cells=cells,
        gil_in_calls_ns=gil_in_calls(steady),
        device_time=tuple(
            device_time.where(process=main.id).group(("operation", "layer"), ["ns"])
        ),
        machine=_machine(steady, used, device_time),
        waits=_waits(steady, processes),
        callsites=_callsites(steady, lines),
        transitions=_transitions(steady, pace["units"]),
        lines=_lines(lines, main),
        packages=_packages(
            [part for part in parts if part.process == main.id and part.samples]
        ),
        correction=_correction(run, cells),
        losses=run.losses(),
        stopped=stopped,
        hangs=hangs,
        notes=_notes(run, now, hangs, stopped),
        events=sum(p.events for p in processes),
        stretches=stretches(run, processes, main),
        memory=memory,
        verdict=UNJUDGED,
    )
    judged = judge(evidence(unjudged))
    return replace(unjudged, verdict=replayed(run, unjudged, judged))


def _program(run: Run) -> dict[str, Any]:
    """What was run, where and with what."""
    path = run.trace.path
    about = run.trace.about
    found = versions(run)
    command = about.get("command")
    created = about.get("created")
    words = (
        [str(word) for word in command]
        if isinstance(command, list)
        else str(command or "").split()
    )
    script = words[1:] if words and Path(words[0]).name.startswith("python") else words
    known = [name for name in _headlines() if name in found]

    def first(key: str) -> str:
        return next(
            (
                str(p.log.process[key])
                for p in run.trace.processes
                if p.log.process.get(key)
            ),
            "",
        )

    if isinstance(created, int):
        created = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(created / 1e9))
    return {
        "path": text.nearby(path),
        "program": Path(first("program")).name or path.name,
        "command": shlex.join(words)
        if isinstance(command, list)
        else str(command or ""),
        "title": " ".join([Path(script[0]).name, *script[1:]]) if script else path.name,
        "created": str(created or ""),
        "host": str(about.get("host") or ""),
        "python": first("python"),
        "clock": first("clock"),
        "source": str(about.get("source") or ""),
        "versions": {
            name: found[name] for name in [*known, *sorted(set(found) - set(known))]
        },
    }


def _headlines() -> list[str]:
    """Packages whose versions stand first: those with a number on their card, by that number, then NumPy."""
    numbered = {
        name: card.headline for name, card in cards.every().items() if card.headline
    }
    first = sorted(numbered, key=lambda name: numbered[name])
    return [*first, "stable-baselines3", "numpy"]


def _processes(run: Run, steady: Run) -> tuple[Process, ...]:
    rows = list(run.processes())
    out = []
    busy: list[Counter[str]] = [Counter() for _ in rows]
    layers: list[Counter[str]] = [Counter() for _ in rows]
    for r in steady.breakdown(by=("process", "operation", "layer")):
        layers[r["process"]][r["layer"]] += r["ns"]
        busy[r["process"]][r["operation"]] += r["ns"] * (r["layer"] != "wait")
    queued = queued_shares(steady)
    work = work_in_halves(steady)
    for id, row in enumerate(rows):
        parent = rows[row["parent"]]
        well = row["parent"] >= 0 and parent["exit"] in ("0", "")
        # Daemon workers are ended by their parent as it leaves: that is normal.
        leaving = well and abs(parent["end_ns"] - row["end_ns"]) < LEAVING_NS
        ended = (
            "by parent"
            if row["exit"] == "signal 15" and leaving
            else endings.exit_text(row["exit"])
        )
        spent = {"operations": dict(busy[id]), "layers": dict(layers[id])}
        named = {"id": id, "name": row["name"] or f"pid {row['pid']}", "exit": ended}
        about = {
            **row,
            **named,
            **spent,
            "host": run.trace.processes[id].host,
            "work_ns": work[id],
            "queued_share": queued[id],
        }
        del about["process"]
        out.append(Process(**about))
    return tuple(out)


def _pace(run: Run, processes: tuple[Process, ...], main: Process) -> dict[str, Any]:
    """What per-unit figures are divided by: iterations when there are any, else environment steps, else the whole run."""
    iterations = run.steady().iterations()
    made = run.swept.steps - run.swept.steps_startup
    own = iterations.where(process=main.id)
    over = (
        int(own["end_ns"].max()) if len(own) else run.stages.over_ns
    )  # of the last step or update
    shutdown = max(0, main.end_ns - over) if over else 0
    units = float((own["recorded"] * own["count"]).sum())
    if units:
        start = int(own["start_ns"].min())
        startup = max(0, start - min(t for t in (main.start_ns, start) if t))
        steady = int((own["end_ns"] - own["start_ns"]).sum())
        counted = {
            row["process"]: row["steps"]
            for row in iterations.group(["process"], ["steps"])
        }
        fellows = [
            n for id, n in counted.items() if processes[id].role == main.role
        ]  # ranks of one role
        steps = (
            sum(fellows)
            if counted.get(main.id)
            else int(made[steppers(run, processes)].sum())
        )
    else:
        start = min(max(main.start_ns, run.stages.steady_ns), main.end_ns)
        startup = start - main.start_ns
        steady = main.life_ns - startup - shutdown
        steps = int(made[main.id] or made.sum())
    # With --after, --for and --window most of the training was not recorded: that is neither start-up nor shut-down.
    before, after = unrecorded(run.swept, main.id, (main.start_ns, main.end_ns))
    return {
        "unit": "iteration" if units else "step" if steps else "run",
        "units": units or steps or 1,
        "iterations": int(own["count"].sum()) if units else 0,
        "steps": steps,
        "startup_ns": max(0, startup - before),
        "shutdown_ns": max(0, shutdown - after),
        "unrecorded_ns": before + after,
        "steady_ns": steady,
    }


def _waits(steady: Run, processes: tuple[Process, ...]) -> tuple[Wait, ...]:
    """Of the threads that carry operations: a helper thread that idles waits for nobody the user cares about."""
    names = steady.threads()["name"]
    table = steady.waits()
    table = table.where(steady.swept.summary_threads[table["thread"].astype(int)])
    sleeps = np.isin(table["function"].astype(str), text.SLEEPS)
    table = table.with_columns({"on": np.where(sleeps, text.SLEEP, table["on"])})
    by = ("process", "for_process", "operation", "on", "among", "for_thread")
    waits = []
    for row in table.group(by, ["ns", "count"]).sort("ns", descending=True):
        thread = row.pop("for_thread")
        among = tuple(int(i) for i in row.pop("among").split(",") if i)
        roles = {processes[i].role or "process" for i in among}
        if row["for_process"] == row["process"]:
            partner = f"its thread {(str(names[thread]) if thread >= 0 else '') or 'another thread'}"
        elif len(among) > 1:
            partner = f"one of {len(among)} {f'{roles.pop()}s' if len(roles) == 1 else 'processes'}"
        else:
            partner = processes[among[0]].name if among else text.blocked_in(row["on"])
        waits.append(Wait(**row, among=among, partner=partner))
    return tuple(waits)


def _lines(lines: Table, main: Process) -> Rows:
    # Reading a result may wait for a compiled update: the line that launched it is the one to change.
    reads = [
        one["operation"] == "backpropagation" and one["native"].endswith(READS)
        for one in lines
    ]
    own = lines.where(
        (lines["your_file"] != "") & ~np.array(reads, bool), process=main.id
    )
    own = own.group(
        ("operation", "layer", "your_function", "your_file", "your_line"), ["ns"]
    )
    longest = own.sort("ns", descending=True).head(MOST_CALLSITES)
    return tuple(map(_without_your, longest))


def _without_your(row: dict[str, Any]) -> dict[str, Any]:
    return {key.removeprefix("your_"): value for key, value in row.items()}


def _callsites(steady: Run, lines: Table) -> tuple[CallSite, ...]:
    yours: dict[tuple[str, str, str, int], tuple[str, int]] = {}
    for r in lines:  # the longest first
        if r["native"] and r["samples"] and r["your_file"]:
            key = r["operation"], r["native"], r["file"], r["line"]
            yours.setdefault(key, (r["your_file"], r["your_line"]))
    spots = []
    for r in steady.callsites().sort("ns", descending=True).head(MOST_CALLSITES):
        file, line = yours.get(
            (r["operation"], r["function"], r["file"], r["line"]), ("", 0)
        )
        spots.append(CallSite(**r, your_file=file, your_line=line))
    return tuple(spots)


def _packages(parts: list[Part]) -> dict[str, float]:
    """Packages on the stack, by their share of the sampled time: one that runs the training loop has nearly all."""
    loops = {card.loop for card in cards.every().values() if card.loop}
    found: defaultdict[str, int] = defaultdict(int)
    for part in parts:
        for name in {_package(place.file, loops) for place in part.stack} - {""}:
            found[name] += part.ns
    whole = max(1, sum(part.ns for part in parts))
    return {
        name: ns / whole for name, ns in sorted(found.items(), key=lambda kv: -kv[1])
    }


def _package(file: str, loops: set[str]) -> str:
    """The package a file belongs to: an installed one, or a framework (`loops`) that runs from a clone of its repository."""
    _, installed, inside = file.rpartition("-packages/")
    if not installed:
        cloned = (name for name in loops if f"/{name.replace('.', '/')}/" in file)
        return next(cloned, "")
    names = inside.split("/")
    return ".".join(names[:2] if names[0] == "ray" else names[:1]).removesuffix(".py")


def _transitions(steady: Run, units: float) -> Rows:
    table = (
        steady.transitions()
        .where(process=steady.main_process)
        .group(("operation", "from", "to"), ["count"])
    )
    rows = table.sort("count", descending=True)
    names = ("operation", "from", "to", "count", "per_unit")
    return tuple(
        dict(zip(names, (*r.values(), r["count"] / units), strict=True)) for r in rows
    )


def _correction(run: Run, cells: tuple[Cell, ...]) -> Correction | None:
    raw = sum(c.raw_ns for c in cells)
    if not raw or run.costs is None:
        return None
    own = sum(
        p.log.samples[-1].get("own", 0) for p in run.trace.processes if p.log.samples
    )
    measured = run.calibration.measured if run.calibration else None
    return Correction(
        removed=(raw - sum(c.ns for c in cells)) / raw,
        error=sum(c.high_ns - c.low_ns for c in cells) / 2 / raw,
        units=measured.units if measured else 0,
        short=sum(c.uncorrected_ns for c in cells) / raw,
        background=own / max(1, run.span[1] - run.span[0]),
    )


def _machine(steady: Run, used: dict[str, Any], device_time: Table) -> Machine:
    """Cores and devices in the steady state, as sampled; what was not sampled stays None."""
    span = max(1, used["span_ns"])
    devices = list(used["devices"].values())
    copied = totals(
        (row["device"], row["ns"]) for row in device_time if row["layer"] == "memcpy"
    )
    powers = [
        power
        for _, sample in samples_in(steady)
        if isinstance(power := sample.get("power"), dict)
    ]
    sums = []
    for power in powers:
        watts = [value for value in power.values() if isinstance(value, (int, float))]
        sums.append(sum(watts))
    watts = [float(total) for total in sums if total > 0]  # of GPUs and CPUs together
    return Machine(
        cores=used["cpus"] or os.cpu_count() or 1,
        cores_busy=used["cores_busy"],
        other_cores=used["other_cores"],
        use=device_use(steady.whole),
        runqueue_share=used["runqueue_share"],
        runnable=None
        if used["cpu_ns"] is None
        else (used["cpu_ns"] + used["runqueue_ns"]) / span,
        device_busy=max((d["busy"] for d in devices), default=None),
        nvidia_smi=max(
            (d["nvidia_smi"]["1/6 s"] for d in devices if nvidia(steady.trace)),
            default=None,
        ),
        device_copies=max(copied.values(), default=0) / span,
        watts=sum(watts) / len(watts) if watts else None,
    )


def _notes(run: Run, now: str, hangs: Rows, stopped: Rows) -> tuple[str, ...]:
    """What a reader must know before believing the figures, one sentence each."""
    out: list[str] = []
    if now == "recording":
        watch = f"watch it with `cutaway top {text.nearby(run.trace.path)}`"
        out.append(f"This run is still recording. You see its figures so far; {watch}.")
    when = "so far" if now == "recording" else "when it ended"
    for hang in hangs[:3]:
        inside = f"{hang['name']} was still inside {hang['where']}"
        out.append(f"{inside}, for {text.duration(hang['ns'])} {when}.")
    for stop in stopped[:3]:
        remedy = " To keep a later part, raise --max-size or start later with --after."
        kept, missed = (text.duration(stop[key]) for key in ("kept_ns", "missed_ns"))
        out.append(
            f"Recording of {stop['name']} stopped after {kept} ({stop['why']}): the {missed} after that are "
            f"missing.{remedy if 'size limit' in stop['why'] else ''}"
        )
    if len(stopped) > 3:
        out.append(f"Recording stopped early in {len(stopped) - 3} more processes.")
    lost = ", ".join(f"{n} {name}" for name, n in run.losses().items() if n)
    if lost:
        out.append(
            f"Data is missing ({lost}), so counts are too low and some native time counts as Python."
        )
    if hosts := run.trace.hosts:
        others = [
            (name, c.error_ns) for name, c in sorted(hosts.items()) if c.error_ns != 0
        ]
        ways = (
            "by the wall clocks only" if e is None else f"± {text.duration(e)}"
            for _, e in others
        )
        known = ", ".join(
            f"{name} {way}" for (name, _), way in zip(others, ways, strict=True)
        )
        reference = next(
            (name for name, clock in hosts.items() if clock.error_ns == 0), "one host"
        )
        out.append(f"{len(hosts)} hosts on the clock of {reference}: {known}.")
    out += kept_notes(run)
    out += questions(run)
    notes = chain.from_iterable(p.log.notes for p in run.trace.processes)
    written = dict.fromkeys(notes)
    return (*out, *list(written)[:5])
