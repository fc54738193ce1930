"""What a run says about itself beside its times: program, versions, state, losses, notes, the machine."""

from __future__ import annotations

import os
import shlex
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.processes import sampled_in
from cutaway.analysis.utilisation import part_edges

from . import words
from .model import Hang, Machine, Process, Stopped

SHOWN_VERSIONS = (
    "torch",
    "jax",
    "tensorflow",
    "stable_baselines3",
    "stable-baselines3",
    "gymnasium",
    "ray",
    "numpy",
)
LONG_NS = 1_000_000_000  # a call that lasted so long when its process was killed is worth a word
LEAVING_NS = 10_000_000_000  # between a parent's end and that of its daemons
STALE_S = 15.0  # a run whose files have not grown for so long is not being recorded


@dataclass(frozen=True)
class Pace:
    """What per-unit figures are divided by. `units` counts an iteration by the share of it that was recorded."""

    unit: str
    units: float
    iterations: int
    steps: int
    startup_ns: int
    steady_ns: int


def pace(run: Run, main: Process, iterations: list[dict[str, Any]]) -> Pace:
    """Iterations when there are any, else environment steps, else the run as a whole."""
    units = sum(row["recorded"] for row in iterations)
    if units:
        start = min(row["start_ns"] for row in iterations)
        return Pace(
            unit="iteration",
            units=units,
            iterations=len(iterations),
            steps=sum(row["steps"] for row in iterations),
            startup_ns=max(0, start - min(t for t in (main.start_ns, start) if t)),
            steady_ns=sum(row["end_ns"] - row["start_ns"] for row in iterations),
        )
    steps = int(run.swept.steps[main.id]) or int(run.swept.steps.sum())
    return Pace("step" if steps else "run", steps or 1, 0, steps, 0, main.life_ns)


def nearby(path: Path) -> str:
    """A path as one would type it from here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def first(run: Run, key: str) -> Any:
    """The first process's word on something."""
    return next((p.log.process[key] for p in run.trace.processes if p.log.process.get(key)), "")


def command(run: Run) -> str:
    """The command as one would type it."""
    told = run.trace.about.get("command")
    return shlex.join(map(str, told)) if isinstance(told, list) else str(told or "")


def title(run: Run) -> str:
    """The command without the interpreter and the way to the script; the run's name where there is none."""
    told = run.trace.about.get("command")
    given = [str(word) for word in told] if isinstance(told, list) else str(told or "").split()
    if given and Path(given[0]).name.startswith("python"):
        given = given[1:]
    return " ".join([Path(given[0]).name, *given[1:]]) if given else run.trace.path.name


def program(run: Run) -> str:
    """The script's name, or the run's."""
    told = next(
        (p.log.process.get("program") for p in run.trace.processes if p.log.process.get("program")), ""
    )
    return Path(str(told)).name or run.trace.path.name


def created(told: Any) -> str:
    """When the run was started, as local time without a zone."""
    if isinstance(told, int):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(told / 1e9))
    return str(told or "")


def versions(run: Run) -> dict[str, str]:
    """Versions of what matters, from all processes."""
    found: dict[str, str] = {}
    for process in run.trace.processes:
        told = process.log.process.get("versions")
        if isinstance(told, dict):
            found.update({str(k): str(v) for k, v in told.items()})
    known = [name for name in SHOWN_VERSIONS if name in found]
    return {name: found[name] for name in [*known, *sorted(set(found) - set(known))]}


def devices(run: Run) -> tuple[str, ...]:
    """Names of the accelerators."""
    names = [str(d.get("name") or "accelerator") for p in run.trace.processes for d in p.log.devices]
    nameless = [f"device {number}" for number in run.utilisation()["devices"]] if not names else []
    return tuple(dict.fromkeys(names or nameless))


def state(run: Run) -> str:
    """complete, stopped, recording or killed."""
    path = run.trace.path
    if (path / "exit.json").is_file() or all(p.log.exit is not None for p in run.trace.processes):
        return "stopped" if len(run.stops()) else "complete"
    if str(run.trace.about.get("source") or "cutaway run") != "cutaway run":
        return "complete"
    newest = max((f.stat().st_mtime for f in path.rglob("*") if f.is_file()), default=0.0)
    alive = any(_alive(p.pid) for p in run.trace.processes if p.log.exit is None)
    return "recording" if alive and time.time() - newest < STALE_S else "killed"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0


def ending(told: str) -> str:
    """How a process ended, in words.

    >>> ending("0"), ending("signal 9"), ending("3"), ending("")
    ('ok', 'SIGKILL', 'code 3', '')
    """
    if told.startswith("signal "):
        number = told.removeprefix("signal ")
        try:
            return signal.Signals(int(number)).name
        except ValueError:
            return told
    return {"0": "ok", "": ""}.get(told, f"code {told}")


def ended(run: Run, row: dict[str, Any]) -> str:
    """How a process of the table ended, in words. Daemon workers are ended by their parent as it leaves: that is normal."""
    told = str(row["exit"])
    return "by parent" if told == "signal 15" and _parent_left(run, row) else ending(told)


def _parent_left(run: Run, row: dict[str, Any]) -> bool:
    """Whether the parent ended well, and not long before or after."""
    parent = next((r for r in run.processes() if r["process"] == row["parent"]), None)
    if parent is None or parent["exit"] not in ("0", ""):
        return False
    return bool(abs(parent["end_ns"] - row["end_ns"]) < LEAVING_NS)


def failure(run: Run) -> str:
    """How the program, or else a process of it, failed or was killed; empty if all is well."""
    if str(run.trace.about.get("source") or "cutaway run") != "cutaway run":
        return ""
    now = state(run)
    if now == "recording":
        return ""
    rows = [(row, ended(run, row)) for row in run.processes()]
    first = _failed("The program", rows[0][1] or ("killed" if now == "killed" else "")) if rows else ""
    others = [text for row, how in rows[1:] if (text := _failed(row["name"] or f"Process {row['pid']}", how))]
    if not first and not others:
        return ""
    more = f" {len(others) - 1} more processes failed." if not first and len(others) > 1 else ""
    return f"{first or others[0]}{more} What follows describes the time until then."


def _failed(who: str, how: str) -> str:
    if how in ("", "ok", "by parent"):
        return ""
    if how == "killed":
        return f"{who} was killed."
    return f"{who} was killed by {how}." if how.startswith("SIG") else f"{who} failed with exit {how}."


def losses(run: Run) -> dict[str, int]:
    """What is missing, by kind, over all processes."""
    return run.losses()


def stopped(run: Run) -> tuple[Stopped, ...]:
    """Processes whose recorder gave up before they ended."""
    rows = {row["process"]: row for row in run.processes()}
    found = []
    for stop in run.stops():
        row = rows[stop["process"]]
        kept, missed = stop["t_ns"] - row["start_ns"], row["end_ns"] - stop["t_ns"]
        found.append(Stopped(stop["process"], _name(row), stop["why"], max(0, kept), max(0, missed)))
    return tuple(found)


def hangs(run: Run) -> tuple[Hang, ...]:
    """What the main threads of killed processes, or of those still being recorded, are in the middle of."""
    rows = {row["process"]: row for row in run.processes()}
    found = []
    for row in run.unfinished():
        process, ns = rows[row["process"]], row["until_ns"] - row["since_ns"]
        if row["tid"] == process["pid"] and ns >= LONG_NS:
            place = words.place(row["file"], row["line"])
            where = f"{row['function']}{f' ({place})' if place else ''}" if row["function"] else "Python code"
            found.append(Hang(row["process"], _name(process), where, ns))
    return tuple(sorted(found, key=lambda hang: -hang.ns))


def _remedy(why: str) -> str:
    limited = "size limit" in why
    return "; to keep a later part, allow more with --max-size or begin later with --after" if limited else ""


def _name(row: dict[str, Any]) -> str:
    return row["name"] or f"pid {row['pid']}"


def notes(run: Run) -> tuple[str, ...]:
    """What a reader must know before believing the figures, one sentence each."""
    out: list[str] = []
    now = state(run)
    if now == "recording":
        out.append(
            f"This run is still being recorded: figures are up to now; watch it with `cutaway top {nearby(run.trace.path)}`."
        )
    when = "so far" if now == "recording" else "when it ended"
    for hang in hangs(run)[:3]:
        out.append(f"{hang.name} was still inside {hang.where}, for {words.duration(hang.ns)} {when}.")
    for stop in stopped(run)[:3]:
        out.append(
            f"Recording of {stop.name} stopped after {words.duration(stop.kept_ns)} ({stop.why}): "
            f"the {words.duration(stop.missed_ns)} after that are missing{_remedy(stop.why)}."
        )
    if len(stopped(run)) > 3:
        out.append(f"Recording stopped early in {len(stopped(run)) - 3} more processes.")
    lost = {name: n for name, n in losses(run).items() if n}
    if lost:
        told = ", ".join(f"{n} {name}" for name, n in lost.items())
        out.append(
            f"Something is missing ({told}): counts are too low and some native time is booked as Python."
        )
    told_notes = dict.fromkeys(note for p in run.trace.processes for note in p.log.notes)
    return (*out, *list(told_notes)[:5])


def machine(run: Run) -> Machine:
    """Cores and devices in this part of a run, as sampled; what was not sampled stays None."""
    told = run.utilisation()
    span = max(1, told["span_ns"])
    devices = list(told["devices"].values())
    wanted = told["cpu_ns"] + told["runqueue_ns"] if told["cpu_ns"] is not None else None
    return Machine(
        cores=told["cpus"] or os.cpu_count() or 1,
        cores_busy=told["cores_busy"],
        foreign=told["foreign_cores"],
        runqueue_share=told["runqueue_share"],
        runnable=wanted / span if wanted is not None else None,
        device_busy=max((d["busy"] for d in devices), default=None),
        nvidia_smi=max((d["nvidia_smi"]["1/6 s"] for d in devices), default=None),
        device_copies=_copies(run, span) if devices else 0.0,
        watts=_watts(run),
    )


def _copies(run: Run, span: int) -> float:
    """Share of the run in which the device that copies most copied."""
    by: dict[int, int] = {}
    for row in run.device_time():
        if row["layer"] == "memcpy":
            by[row["device"]] = by.get(row["device"], 0) + row["ns"]
    return max(by.values(), default=0) / span


def background(run: Run) -> float:
    """The recorder's own threads (compaction, meters) by their CPU clocks, in cores over the length of the run."""
    own = [p.log.samples[-1].get("own", 0) for p in run.trace.processes if p.log.samples]
    rows = list(run.processes())
    span = max((r["end_ns"] for r in rows), default=0) - min((r["start_ns"] for r in rows), default=0)
    return float(sum(own)) / span if span > 0 else 0.0


def _watts(run: Run) -> float | None:
    """Mean of the sampled power of GPUs and CPUs together, over all processes that sampled any."""
    span = part_edges(run.swept, run.part)
    values = [s.get("power") for p in run.trace.processes for s in p.log.samples if sampled_in(s, span)]
    totals = [
        sum(v for v in value.values() if isinstance(v, (int, float)))
        for value in values
        if isinstance(value, dict)
    ]
    watts = [float(total) for total in totals if total > 0]
    return sum(watts) / len(watts) if watts else None
