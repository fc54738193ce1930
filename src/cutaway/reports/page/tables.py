"""Who waits for whom, call sites by time, transitions between layers: what tables.js draws."""

from __future__ import annotations

import linecache
from collections import defaultdict
from typing import Any

from cutaway.reports import text
from cutaway.reports.columns import growth_per_hour
from cutaway.reports.device_memory import sentences
from cutaway.reports.digest import Digest, Process
from cutaway.reports.rows import callsite_rows, device_memory_rows, memory_rows

from .section import Source, short

MOST_WAITS, MOST_CALLSITES, MOST_TRANSITIONS, MOST_LINES = 40, 25, 30, 20
FEW_ALIKE = 2
"""More processes of one role are one row."""
LEAST_WAIT = 0.005
"""Of its life; a shorter wait is no row."""


def waits(of: Source) -> dict[str, Any] | None:
    """Who waits for whom; nothing if nobody does."""
    rows = _waits(of.found)
    return {"title": "Who waits for whom", "rows": rows} if rows else None


def memory(of: Source) -> dict[str, Any] | None:
    """Which lines keep memory; nothing if allocations were not sampled."""
    rows = []
    for row in memory_rows(of.run, of.found)[:MOST_LINES]:
        place = text.place(row["file"], row["line"]) or row["function"]
        figures = {
            "place": short(f"({place})" if row["library"] else place),
            "process": text.middle(short(row["name"]), 40),
            "operation": short(row["operation"]),
            "bytes": row["bytes"],
            "keeps": text.size(row["bytes"]),
            "error": text.size(row["error_bytes"]),
            "grows": growth_per_hour(row),
        }
        rows.append(figures)
    return {"title": "Which lines keep memory", "rows": rows} if rows else None


def device_memory(of: Source) -> dict[str, Any] | None:
    """Who has the memory of devices; nothing if no framework told."""
    rows = []
    for row in device_memory_rows(of.run, of.found)[:MOST_LINES]:
        place = text.place(row["file"], row["line"]) or row["function"] or "–"
        figures = {
            "place": short(f"({place})" if row["library"] else place),
            "on": row["on"],
            "operation": short(row["operation"]),
            "bytes": row["held"],
            "held": text.size(row["held"]),
            "peak": text.size(row["peak"]),
            "reserved": text.size(row["reserved"]),
            "kept": text.size(row["kept"]),
        }
        rows.append(figures)
    title = "Who has the memory of devices"
    notes = sentences(of.run)
    return {"title": title, "rows": rows, "notes": notes} if rows or notes else None


def transitions(of: Source) -> dict[str, Any] | None:
    """How often the main process crosses from one layer into another; nothing if it never does."""
    rows = [
        {
            "operation": short(t["operation"]),
            "from": t["from"],
            "to": t["to"],
            "per": t["per_unit"],
        }
        for t in of.found.code.transitions[:MOST_TRANSITIONS]
    ]
    if not rows:
        return None
    return {
        "title": f"Transitions between layers for each {of.found.pace.unit}",
        "rows": rows,
    }


def callsites(of: Source) -> dict[str, Any] | None:
    """Call sites by time; nothing if none were recorded."""
    if not of.found.code.callsites:
        return None
    rows = _callsites(of.found, of.quote)
    sites = text.plural(len(of.found.code.callsites), "call site")
    empty = f"All {sites} recorded are waits: see who waits for whom."
    return {"title": "Call sites by time", "rows": rows, "empty": empty}


def _waits(found: Digest) -> list[dict[str, Any]]:
    """Waits by who and whom, those of the main process first; siblings become one row, so that its numbers are those of the verdict."""
    roles = found.roles()

    def siblings(process: Process) -> int:
        alike = roles[process.role] if process.role else 1
        return alike if alike > FEW_ALIKE else 1

    def name(process: Process) -> str:
        count = siblings(process)
        return (
            f"{count} × {process.role}"
            if count > 1
            else text.middle(short(process.name), 40)
        )

    spent: defaultdict[tuple[str, str, str], list[float]] = defaultdict(
        lambda: [0.0, 0.0]
    )
    for wait in found.waits:
        process = found.processes[wait.process]
        thing = short(wait.on.split(":")[0] or "unknown", 30)
        whom = (
            name(found.processes[wait.for_process]) if wait.for_process >= 0 else thing
        )
        sums = spent[name(process), whom, short(wait.operation)]
        sums[0] += wait.ns / 1e6
        sums[1] += (
            wait.ns
            / max(1, sum(process.layers.values()) or process.life_ns)
            / siblings(process)
        )
    main = name(found.main)
    longest = sorted(spent.items(), key=lambda kv: (kv[0][0] != main, -kv[1][0]))
    keys = ("who", "whom", "operation", "ms", "share")
    rows = [
        dict(zip(keys, (*names, *sums), strict=True))
        for names, sums in longest
        if sums[1] >= LEAST_WAIT
    ]
    return rows[:MOST_WAITS]


def _callsites(found: Digest, source: bool) -> list[dict[str, Any]]:
    rows = []
    for spot in [row for row in callsite_rows(found) if row["layer"] != "wait"][
        :MOST_CALLSITES
    ]:
        place = text.shorten(
            text.place(spot["file"], spot["line"]) or "unknown place", 70
        )
        place = f"{place} in {spot['caller']}" if spot["caller"] else place
        near = spot["near_file"], spot["near_line"]
        if near != (spot["file"], spot["line"]):
            place = f"your {text.shorten(text.place(*near), 50)}, through {place}"
        row = {"function": short(spot["function"]), "place": short(place, 200)}
        row |= {
            "operation": short(spot["operation"]),
            "ms": spot["ns"] / 1e6,
            "count": spot["count"],
        }
        if source:
            row["source"] = short(
                linecache.getline(spot["file"], spot["line"]).strip(), 160
            )
        rows.append(row)
    return rows
