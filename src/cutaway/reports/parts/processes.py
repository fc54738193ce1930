"""The processes of a run, and which others they wait for."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from signal import SIGKILL
from typing import Any

import numpy as np

from cutaway.analysis import Run
from cutaway.analysis.noise import queued_shares, work_in_halves

from .. import endings, text
from ..digest import Process, Wait

LEAVING_NS = 10_000_000_000  # between a parent's end and that of its daemons


def processes(run: Run, steady: Run) -> tuple[Process, ...]:
    """All of them, in order of their start."""
    rows = list(run.processes())
    operations: list[Counter[str]] = [Counter() for _ in rows]
    layers: list[Counter[str]] = [Counter() for _ in rows]
    for cell in steady.breakdown(by=("process", "operation", "layer")):
        layers[cell["process"]][cell["layer"]] += cell["ns"]
        if cell["layer"] != "wait":
            worked = cell["ns"]
        else:
            worked = 0
        operations[cell["process"]][cell["operation"]] += worked
    queued = queued_shares(steady)
    work = work_in_halves(steady)
    out = []
    killed = _killed(run)
    for id, row in enumerate(rows):
        known = {key: value for key, value in row.items() if key != "process"}
        about = {
            "id": id,
            "name": row["name"] or f"pid {row['pid']}",
            "exit": _ended(row, rows[row["parent"]], killed),
            "operations": dict(operations[id]),
            "layers": dict(layers[id]),
            "host": run.trace.processes[id].host,
            "work_ns": work[id],
            "queued_share": queued[id],
        }
        out.append(Process(**known | about))
    return tuple(out)


def _killed(run: Run) -> frozenset[int]:
    """Processes that others of the run sent SIGKILL."""
    kills = chain.from_iterable(p.log.kills for p in run.trace.processes)
    return frozenset(
        kill.get("pid", 0) for kill in kills if kill.get("signal") == SIGKILL
    )


def _ended(row: dict[str, Any], parent: dict[str, Any], killed: frozenset[int]) -> str:
    """How a process ended. Daemon workers are ended by their parent as it leaves: that is normal."""
    well = row["parent"] >= 0 and parent["exit"] in ("0", "")
    leaving = well and abs(parent["end_ns"] - row["end_ns"]) < LEAVING_NS
    asked = row["exit"] == "signal 9" and row["pid"] in killed
    if leaving and (asked or row["exit"] == "signal 15"):
        return "by parent"
    return endings.exit_text(row["exit"])


def waits(steady: Run, everyone: tuple[Process, ...]) -> tuple[Wait, ...]:
    """Of the threads that carry operations: what an idle helper thread waits for does not matter."""
    names = [str(name) for name in steady.threads()["name"]]
    table = steady.waits()
    table = table.where(steady.swept.summary_threads[table["thread"].astype(int)])
    sleeps = np.isin(table["function"].astype(str), text.SLEEPS)
    table = table.with_columns({"on": np.where(sleeps, text.SLEEP, table["on"])})
    by = ("process", "for_process", "operation", "on", "among", "for_thread")
    found = []
    for row in table.group(by, ["ns", "count"]).sort("ns", descending=True):
        thread = row.pop("for_thread")
        among = tuple(int(i) for i in row.pop("among").split(",") if i)
        if row["for_process"] == row["process"]:
            name = names[thread] if thread >= 0 else ""
            partner = f"its thread {name or 'another thread'}"
        elif among:
            partner = _partner([everyone[i] for i in among])
        else:
            partner = text.blocked_in(row["on"])
        found.append(Wait(**row, among=among, partner=partner))
    return tuple(found)


def _partner(among: list[Process]) -> str:
    """Who may have ended a wait."""
    if len(among) == 1:
        return among[0].name
    roles = {process.role or "process" for process in among}
    if len(roles) == 1:
        what = f"{roles.pop()}s"
    else:
        what = "processes"
    return f"one of {len(among)} {what}"
