"""What a run says about itself beside its times: program, versions, state, losses, notes, the machine."""

from __future__ import annotations

import json
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

from .model import Machine, Process

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
    kept = [(row, row["recorded"]) for row in iterations if row["recorded"] > 0]
    if kept:
        start = min(row["start_ns"] for row, _ in kept)
        return Pace(
            unit="iteration",
            units=sum(share for _, share in kept),
            iterations=len(kept),
            steps=sum(row["steps"] for row, _ in kept),
            startup_ns=max(0, start - min(t for t in (main.start_ns, start) if t)),
            steady_ns=sum(row["end_ns"] - row["start_ns"] for row, _ in kept),
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


def exit_of(run: Run, row: dict[str, Any]) -> str:
    """How a process ended; for the first one also as `cutaway run` saw it. Empty while nobody knows."""
    return str(row["exit"] or (_command_exit(run) if row["process"] == 0 else ""))


def _command_exit(run: Run) -> str:
    try:
        told = json.loads((run.trace.path / "exit.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(told, dict):
        return ""
    return f"signal {told['signal']}" if "signal" in told else str(told.get("code", ""))


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
    """complete, recording or killed."""
    path = run.trace.path
    if (path / "exit.json").is_file() or all(p.log.exit is not None for p in run.trace.processes):
        return "complete"
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


def losses(run: Run) -> dict[str, int]:
    """What is missing, by kind, over all processes."""
    return run.losses()


def notes(run: Run) -> tuple[str, ...]:
    """What a reader must know before believing the figures, one sentence each."""
    out: list[str] = []
    now = state(run)
    if now == "recording":
        out.append(
            f"This run is still being recorded: figures are up to now; watch it with `cutaway top {nearby(run.trace.path)}`."
        )
    ends = [(row, exit_of(run, row)) for row in run.processes()]
    killed = [(row, end) for row, end in ends if end.startswith("signal ") or (now == "killed" and not end)]
    for row, end in killed[:3]:
        how = ending(end) or "something that left no word"
        out.append(
            f"{row['name'] or 'pid ' + str(row['pid'])} was ended by {how}: everything up to then is here."
        )
    if len(killed) > 3:
        out.append(f"{len(killed) - 3} more processes were killed.")
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
