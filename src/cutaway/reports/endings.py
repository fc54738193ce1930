"""How a run ended: whether it still records, how it failed and what it was in the middle of, in words."""

from __future__ import annotations

import os
import signal
import time

from cutaway.analysis import Run

from . import text
from .digest import WELL, Process, Rows
from .memory import Memory, killed_for_memory

LONG_NS = 1_000_000_000  # a call that lasted this long when its process was killed is worth a note
TOGETHER_NS = 1_000_000_000  # processes that end within this were ended by one signal
STALE_S = 15.0  # a run whose files have not grown for this long is not being recorded


def exit_text(exit: str) -> str:
    """How a process ended, in words.

    >>> exit_text("0"), exit_text("signal 9"), exit_text("3"), exit_text("")
    ('ok', 'SIGKILL', 'code 3', '')
    """
    if exit.startswith("signal "):
        try:
            return signal.Signals(int(exit.removeprefix("signal "))).name
        except ValueError:
            return exit
    return {"0": "ok", "": ""}.get(exit, f"code {exit}")


def state(run: Run) -> str:
    """complete, stopped, recording or killed."""
    path = run.trace.path
    if (path / "exit.json").is_file() or all(
        p.log.exit is not None for p in run.trace.processes
    ):
        if len(run.stops()):
            return "stopped"
        return "complete"
    if not recorded_here(run):
        return "complete"
    newest = max(
        (f.stat().st_mtime for f in path.rglob("*") if f.is_file()), default=0.0
    )
    alive = any(_alive(p.pid) for p in run.trace.processes if p.log.exit is None)
    if alive and time.time() - newest < STALE_S:
        return "recording"
    return "killed"


def recorded_here(run: Run) -> bool:
    """Whether Cutaway recorded the run itself."""
    return (run.trace.about.get("source") or "cutaway run") == "cutaway run"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0


def failure(run: Run, processes: tuple[Process, ...], now: str, memory: Memory) -> str:
    """How the program or one of its processes failed or was killed, the first cause first; empty if all went well."""
    if not recorded_here(run) or now == "recording":
        return ""
    program = processes[0]
    ended = program.exit or ("killed" if now == "killed" else "")
    for_memory = killed_for_memory(memory, [process.name for process in processes])
    children = [
        p for p in processes[1:] if p.exit not in WELL and _is_cause(p, program, ended)
    ]
    if children:
        sentences = [_failed_children(children, program, for_memory)]
    else:
        sentences = []
    if ended not in WELL:
        if children:
            then = "Then the program"
        else:
            then = "The program"
        sentences.append(
            f"{then} {_ending(ended, for_memory)}. The figures cover the time until then."
        )
    return " ".join(sentences)


def _is_cause(child: Process, program: Process, ended: str) -> bool:
    """Whether a child failed on its own: not if it ended with the program, by the same signal or because its parent ended it."""
    if ended in WELL:
        return True
    together = ended.startswith("SIG") or ended == "killed"
    return child.exit != "SIGTERM" and child.end_ns < program.end_ns - (
        TOGETHER_NS if together else 0
    )


def _failed_children(children: list[Process], program: Process, for_memory: str) -> str:
    first = min(children, key=lambda p: p.end_ns)
    unclear = first.name in (program.name, "-c", "-m")
    if unclear:
        who = f"A child process (pid {first.pid})"
    else:
        who = f"{first.name} (pid {first.pid})"
    if len(children) > 1:
        more = f", and {text.plural(len(children) - 1, 'more process')} failed"
    else:
        more = ""
    return f"{who} {_ending(first.exit, for_memory)} after {text.duration(first.life_ns)}{more}."


def _ending(how: str, for_memory: str = "") -> str:
    """The rest of a sentence about a process that ended like this; `for_memory` if the kernel killed one.

    >>> _ending("code 3"), _ending("SIGINT"), _ending("SIGSEGV")
    ('failed with exit code 3', 'was interrupted (Ctrl-C)', 'was killed by SIGSEGV')
    """
    if how in ("SIGKILL", "killed") and for_memory:
        return for_memory
    if how.startswith("SIG"):
        if how == "SIGINT":
            return "was interrupted (Ctrl-C)"
        return f"was killed by {how}"
    if how == "killed":
        return "was killed"
    return f"failed with exit {how}"


def stopped(run: Run, processes: tuple[Process, ...]) -> Rows:
    """Where the recorder stopped early, and what it missed."""
    rows = []
    for stop in run.stops():
        process = processes[stop["process"]]
        at = stop["t_ns"]
        spans = {
            "kept_ns": max(0, at - process.start_ns),
            "missed_ns": max(0, process.end_ns - at),
        }
        rows.append(
            {"process": process.id, "name": process.name, "why": stop["why"], **spans}
        )
    return tuple(rows)


def hangs(run: Run, processes: tuple[Process, ...]) -> Rows:
    """What the main threads of processes that were killed, or still run, are in the middle of."""
    found = []
    for row in run.unfinished():
        process = processes[row["process"]]
        ns = row["until_ns"] - row["since_ns"]
        if row["function"] == "ray: wait for a task":  # idle
            continue
        # A worker that its parent ends when it leaves was waiting for work.
        if row["tid"] == process.pid and ns >= LONG_NS and process.exit != "by parent":
            place = text.place(row["file"], row["line"])
            if row["function"]:
                where = f"{row['function']}{f' ({place})' if place else ''}"
            else:
                where = "Python code"
            found.append(
                {"process": process.id, "name": process.name, "where": where, "ns": ns}
            )
    return tuple(sorted(found, key=lambda hang: -hang["ns"]))
