"""What reports say about memory: which processes have it, which lines keep it, whether it grows, whether it ran out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.growing import COPIES, FILLS, GROWS, SHARES
from cutaway.analysis.memory import ProcessMemory
from cutaway.analysis.memory_change import total_over_time

from . import text
from .device_memory import refusals

Rows = tuple[dict[str, Any], ...]
NEAR = 0.85  # of the limit: a peak worth a warning
AT_THE_LIMIT = 0.9  # who is killed there was killed for memory
WORTH_NAMING = 0.2  # of a growth
FAR_AWAY_S = 14 * 24 * 3600
HOUR = 3600


@dataclass(frozen=True)
class Memory:
    """The memory of a run. Bytes; 0 where nothing was sampled or there is no limit."""

    processes: Rows = ()  # process, rss, peak, private, grows (bytes an hour)
    growing: Rows = ()  # see `Run.growing`
    lines: bool = False  # allocations were sampled
    peak: int = 0  # of all processes together, pages that they share counted once as far as that is known
    limit: int = 0
    limit_of: str = ""  # machine or control group
    killed: bool = False  # the kernel killed a process because memory ran out
    iteration_s: float = 0.0
    warnings: tuple[str, ...] = ()


def memory_of(run: Run, names: Sequence[str], iteration_s: float = 0.0) -> Memory:
    """The memory of a run whose processes have these names."""
    processes = [ProcessMemory(run, index) for index in range(len(names))]
    sampled = [process for process in processes if len(process.resident.t_ns)]
    refused = tuple(f"MEMORY PEAK: {sentence}" for sentence in refusals(run))
    if not sampled:
        return Memory(warnings=refused)
    limit, limit_of = limit_of_run(run)
    found = Memory(
        processes=tuple(_process(process) for process in sampled),
        growing=tuple(run.growing()),
        lines=any(process.sites for process in processes),
        peak=round(max(total_over_time(sampled)[1])),
        limit=limit,
        limit_of=limit_of,
        iteration_s=iteration_s,
    )
    return Memory(
        **{
            **vars(found),
            "killed": _killed(run, found),
            "warnings": (*refused, *_warnings(found, names)),
        }
    )


def limit_of_run(run: Run) -> tuple[int, str]:
    """The memory limit of the run and where it comes from; (0, "") if unknown."""
    about = run.trace.about.get("memory")
    known = about if isinstance(about, dict) else {}
    for key, whose in (
        ("limit", "the control group (cgroup)"),
        ("total", "the machine"),
    ):
        if isinstance(known.get(key), int) and known[key] > 0:
            return known[key], whose
    return 0, ""


def _process(process: ProcessMemory) -> dict[str, Any]:
    if process.growth.certain:
        grows = process.growth.per_s * HOUR
    else:
        grows = 0.0
    return {
        "process": process.index,
        "rss": round(process.resident.last),
        "peak": round(max(process.resident.bytes)),
        "private": round(process.own.last) if len(process.own.t_ns) else None,
        "grows": round(grows),
    }


def _killed(run: Run, found: Memory) -> bool:
    """Whether the kernel killed a process for memory: it counted one more, or somebody was killed at the limit."""
    before = run.trace.about.get("memory")
    after = run.trace.ended
    if isinstance(before, dict):
        counted = before.get("oom_kills")
    else:
        counted = None
    told = after.get("oom_kills")
    killed = any(row["exit"] == "signal 9" for row in run.processes())
    if not killed:
        return False
    more = isinstance(counted, int) and isinstance(told, int) and told > counted
    return more or bool(found.limit and found.peak >= AT_THE_LIMIT * found.limit)


def killed_for_memory(found: Memory, names: Sequence[str]) -> str:
    """The rest of a sentence about a process that the kernel killed; empty if it did not."""
    if not found.killed:
        return ""
    most = max(found.processes, key=lambda row: int(row["peak"]))
    if found.limit:
        of = f" of {text.size(found.limit)}"
    else:
        of = ""
    whole = f"the run had {text.size(found.peak)}{of}"
    who = f"{names[most['process']]} {text.size(most['peak'])} of that"
    return f"was killed by the kernel because memory ran out: {whole}, {who}"


def _warnings(found: Memory, names: Sequence[str]) -> tuple[str, ...]:
    out = [_grows(row, found, names[row["process"]]) for row in found.growing[:3]]
    if found.limit and found.peak >= NEAR * found.limit:
        most = max(found.processes, key=lambda row: int(row["peak"]))
        out.append(
            f"MEMORY PEAK: the run had {text.size(found.peak)} of the {text.size(found.limit)} of {found.limit_of}, "
            f"{text.size(most['peak'])} of it in {names[most['process']]}. See who keeps it with --by memory."
        )
    return tuple(sentence for sentence in out if sentence)


def _grows(row: dict[str, Any], found: Memory, name: str) -> str:
    """A sentence about a process whose memory keeps growing; one that only fills a buffer is mentioned if the full buffer is too large."""
    if row["kind"] == FILLS:
        if not found.limit or row["until"] < NEAR * found.limit:
            return ""
        return (
            f"MEMORY PEAK: {name} fills memory that is allocated already{_at(row)}. When that is full it has "
            f"{text.size(row['until'])}; {found.limit_of} has {text.size(found.limit)}."
        )
    hourly = text.size(row["per_s"] * HOUR)
    spread = text.size((row["high_per_s"] - row["per_s"]) * HOUR)
    if row["kind"] == COPIES:
        return (
            f"MEMORY GROWS: {name} has copied {text.size(row['grown'])} of what it shared with its parent since the fork. "
            f"Writing to an object copies its page; so does counting references. Create large data after the fork, or in arrays."
        )
    if row["kind"] == SHARES:
        return f"MEMORY GROWS: the shared memory of {name} grows by {hourly} an hour (± {spread}).{_end(row, found)}"
    assert row["kind"] == GROWS
    each = ""
    if found.iteration_s:
        each = f", {text.size(row['per_s'] * found.iteration_s)} each iteration"
    blame = _at(row)
    if row["share"] >= WORTH_NAMING and blame:
        blame = f"; {text.percent(row['share'])} of it was allocated{blame}"
    else:
        unknown = ". Record with --memory to see at which line"
        if found.lines:
            blame = ". No line keeps most of it"
        else:
            blame = unknown
    return f"MEMORY GROWS: {name} by {hourly} an hour (± {spread}){each}{blame}.{_end(row, found)}"


def _at(row: dict[str, Any]) -> str:
    place = text.place(row["file"], row["line"])
    if row["operation"]:
        inside = f" in {row['operation']}"
    else:
        inside = ""
    if place:
        return f" at {text.shorten(place, 60)}{inside}"
    return ""


def _end(row: dict[str, Any], found: Memory) -> str:
    """When the limit is met."""
    left = found.limit - found.peak
    if not found.limit or row["per_s"] <= 0:
        return ""
    seconds = max(0.0, left / row["per_s"])
    if seconds > FAR_AWAY_S:
        return ""
    return f" At this rate it meets the {text.size(found.limit)} of {found.limit_of} in {text.duration(seconds * 1e9)}."
