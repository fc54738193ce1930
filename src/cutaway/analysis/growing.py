"""Which processes need more and more memory, why, and whether that ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutaway.analysis.memory import ProcessMemory
from cutaway.analysis.processes import life, parents_of
from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

MB = 1_000_000
LEAST_GROWN, LEAST_SHARE = (
    16 * MB,
    0.03,
)  # of bytes, and of what there was: less is noise
EXPLAINED = 0.5  # of a growth, to name its cause
COMPILING = 0.2  # of the steady time: what is compiled is kept, so growth says nothing about later
SETTLED = 0.9  # of what it has at the steady state: the process had started
GROWS, FILLS, COPIES, SHARES = "grows", "fills", "copies", "shares"
NAMES = (
    *("process", "kind", "grown", "per_s", "low_per_s", "high_per_s", "until"),
    *("share", "operation", "function", "file", "line"),
)


@dataclass(frozen=True)
class Cause:
    """The line that most of a growth comes from, and its share."""

    share: float
    operation: str
    function: str
    file: str
    line: int


NOBODY = Cause(0.0, "", "", "", 0)


def growing(run: Run) -> Table:
    """Processes whose memory still grew at the end. `kind` is `grows` (no end in sight), `fills` (memory or a container
    that has a limit; `until` is what it then has), `copies` (pages shared with its parent since a fork, now written to) or
    `shares` (shared memory grows).

    >>> len(run.growing())
    0
    """
    table = run.memory()
    parents = parents_of(run.trace)
    rows = []
    for index, parent in enumerate(parents):
        process = ProcessMemory(run, index)
        found = _judged(process, table.where(process=index), forked=parent >= 0)
        rows += [found] if found else []
    return Table.from_rows(NAMES, rows).sort("grown", descending=True)


def _judged(
    process: ProcessMemory, lines: Table, *, forked: bool
) -> tuple[Any, ...] | None:
    found = process.growth
    before = process.resident.at(process.span[0])
    least = max(LEAST_GROWN, LEAST_SHARE * before)
    if not process.long_enough or not len(process.resident.t_ns):
        return None
    copied = _copied(process) if forked else 0.0
    if copied >= least and found.grown < EXPLAINED * copied:
        per_s = copied / ((process.span[1] - process.span[0]) / 1e9)
        return _row(process, COPIES, copied, (per_s, per_s, per_s), 0.0, NOBODY)
    if not found.certain or found.grown < least:
        return None
    speed = (found.per_s, found.low, found.high)
    shared = process.shared.last - process.shared.at(process.span[0])
    if shared >= EXPLAINED * found.grown:
        return _row(process, SHARES, found.grown, speed, 0.0, NOBODY)
    until = _room_allocated(process, found.grown) or _room_in_containers(
        process, found.grown
    )
    kind = FILLS if until else GROWS
    if kind == GROWS and _compiles(process) >= COMPILING:
        return None
    cause = _filled(lines) if kind == FILLS else _cause(lines, found.grown)
    return _row(process, kind, found.grown, speed, until, cause)


def _row(
    process: ProcessMemory,
    kind: str,
    grown: float,
    speed: tuple[float, float, float],
    until: float,
    cause: Cause,
) -> tuple[Any, ...]:
    place = (cause.operation, cause.function, cause.file, cause.line)
    return (
        process.index,
        kind,
        round(grown),
        *speed,
        round(until),
        cause.share,
        *place,
    )


def _compiles(process: ProcessMemory) -> float:
    """Share of its steady time in which the process compiles."""
    by_operation: Counter[str] = Counter()
    for cell in process.run.steady().breakdown(by=("process", "operation")):
        if int(cell["process"]) == process.index:
            by_operation[str(cell["operation"])] += int(cell["ns"])
    return by_operation["compile"] / max(1, by_operation.total())


def _copied(process: ProcessMemory) -> float:
    """Bytes that stopped being shared since it settled; what a process copies while it starts says nothing about later."""
    own, resident = process.own, process.resident
    begun = process.span[0]
    settled = [
        int(t)
        for t in own.t_ns
        if t >= begun or resident.at(int(t)) >= SETTLED * resident.at(begun)
    ]
    if len(settled) < 2:
        return 0.0
    return max(0.0, own.last - own.at(settled[0]))


def _room_allocated(process: ProcessMemory, grown: float) -> float:
    """What the process has when all it allocated is touched, if growth is only that; else 0. What is known: sampled
    allocations, or that the address space did not grow (an array may be older than our look at its library)."""
    start, end = process.span
    kept, mapped = process.mallocated, process.mapped
    allocated = kept.most - kept.at(start)
    untouched = kept.at(start) - process.anonymous.at(start)
    taken = mapped.at(end) - mapped.at(start) if len(mapped.t_ns) else grown
    if allocated >= EXPLAINED * grown:
        return 0.0
    if untouched < EXPLAINED * grown and taken >= EXPLAINED * grown:
        return 0.0
    return process.resident.most + max(0.0, kept.most - process.anonymous.most)


def _room_in_containers(process: ProcessMemory, grown: float) -> float:
    """What the process has when its containers with a limit are full, if they hold what has grown; else 0."""
    bounded = [c for c in process.containers if c["most"] > c["n"]]
    held = sum(c["bytes"] for c in bounded)
    seen_ns = max((c["t"] for c in bounded), default=process.span[1])
    start, end = life(process.run.swept, process.index)
    since = min(1.0, max(0.0, (seen_ns - start) / max(1, end - start)))
    if _just_filled(process) >= EXPLAINED * grown:
        return float(process.resident.most)
    if held < EXPLAINED * grown * since:  # the look was earlier than the end
        return 0.0
    to_come = sum(c["bytes"] * (c["most"] / c["n"] - 1) for c in bounded)
    return float(process.resident.most + to_come)


def _just_filled(process: ProcessMemory) -> float:
    """Bytes that came into containers that were seen before they were full, and are full now."""
    looks: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for look in process.seen_containers:
        looks[str(look.get("name")), look["most"]].append(look)
    came = 0.0
    for same in looks.values():
        first, last = same[0], same[-1]
        one = len({look["t"] for look in same}) == len(same)  # not several of a name
        if one and first["n"] < first["most"] <= last["n"]:
            came += last["bytes"] - first["bytes"]
    return came


def _cause(lines: Table, grown: float) -> Cause:
    """The line whose growth is the largest part."""
    by_line: Counter[tuple[Any, ...]] = Counter()
    operations: dict[tuple[Any, ...], Counter[str]] = {}
    for row in lines:
        place = _place(row)
        by_line[place] += row["grown"]
        operations.setdefault(place, Counter())[row["operation"]] += max(
            0, row["grown"]
        )
    if not by_line:
        return NOBODY
    place, most = by_line.most_common(1)[0]
    if most <= 0:
        return NOBODY
    operation = operations[place].most_common(1)[0][0]
    return Cause(min(1.0, most / grown), operation, *place)


def _filled(lines: Table) -> Cause:
    """The line that keeps most."""
    rows = list(lines.sort("bytes", descending=True))
    if not rows:
        return NOBODY
    share = rows[0]["bytes"] / max(1, sum(row["bytes"] for row in rows))
    return Cause(share, rows[0]["operation"], *_place(rows[0]))


def _place(row: dict[str, Any]) -> tuple[str, str, int]:
    """Your line, or the library's where none of yours is on the stack."""
    near = "your_" if row["your_file"] else ""
    return row[f"{near}function"], row[f"{near}file"], row[f"{near}line"]
