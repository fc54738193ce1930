"""Which code the time goes into: call sites, your lines, packages, transitions between layers."""

from __future__ import annotations

from collections import defaultdict

from cutaway.analysis import Run, Table
from cutaway.analysis.stacks import Part, main_stacks, places
from cutaway.record.frameworks import cards

from ..digest import CallSite, Code, Process, Rows

MOST_CALLSITES = 200
READS = ("_to_np_array_did_copy", ".__buffer__", ".__array__", "._value")  # of JAX


def code(steady: Run, main: Process, units: float) -> Code:
    """Which code the time of a run goes into."""
    parts = main_stacks(steady, main.id)
    lines = places(parts, by="line")
    sampled = [part for part in parts if part.process == main.id and part.samples]
    return Code(
        callsites=_callsites(steady, lines),
        transitions=_transitions(steady, units),
        lines=_lines(lines, main),
        packages=_packages(sampled),
    )


def _callsites(steady: Run, lines: Table) -> tuple[CallSite, ...]:
    """The longest, each with your line that led there most often."""
    yours: dict[tuple[str, str, str, int], tuple[str, int]] = {}
    for row in lines:  # the longest first
        if row["native"] and row["samples"] and row["your_file"]:
            key = row["operation"], row["native"], row["file"], row["line"]
            yours.setdefault(key, (row["your_file"], row["your_line"]))
    found = []
    longest = steady.callsites().sort("ns", descending=True).head(MOST_CALLSITES)
    for row in longest:
        key = row["operation"], row["function"], row["file"], row["line"]
        file, line = yours.get(key, ("", 0))
        found.append(CallSite(**row, your_file=file, your_line=line))
    return tuple(found)


def _transitions(steady: Run, units: float) -> Rows:
    table = steady.transitions().where(process=steady.main_process)
    table = table.group(("operation", "from", "to"), ["count"])
    rows = table.sort("count", descending=True)
    return tuple({**row, "per_unit": row["count"] / units} for row in rows)


def _lines(lines: Table, main: Process) -> Rows:
    """Your own lines, the longest first. Reading a result may wait for a compiled update: the line that launched it is the one
    to change, so those that read are left out."""
    changeable = []
    for row in lines:
        reads = row["operation"] == "backpropagation" and row["native"].endswith(READS)
        changeable.append(bool(row["your_file"]) and not reads)
    by = ("operation", "layer", "your_function", "your_file", "your_line")
    own = lines.with_columns({"own": changeable}).where(own=True, process=main.id)
    longest = own.group(by, ["ns"]).sort("ns", descending=True).head(MOST_CALLSITES)
    rows = []
    for row in longest:
        rows.append({key.removeprefix("your_"): value for key, value in row.items()})
    return tuple(rows)


def _packages(parts: list[Part]) -> dict[str, float]:
    """Packages on the stack, by their share of the sampled time: one that runs the training loop has nearly all."""
    loops = {card.loop for card in cards.every().values() if card.loop}
    found: defaultdict[str, int] = defaultdict(int)
    for part in parts:
        names = {_package(place.file, loops) for place in part.stack}
        for name in names - {""}:
            found[name] += part.ns
    whole = max(1, sum(part.ns for part in parts))
    longest = sorted(found, key=lambda name: -found[name])
    return {name: found[name] / whole for name in longest}


def _package(file: str, loops: set[str]) -> str:
    """The package a file belongs to: an installed one, or a framework (`loops`) that runs from a clone of its repository."""
    _, installed, inside = file.rpartition("-packages/")
    if not installed:
        cloned = (name for name in loops if f"/{name.replace('.', '/')}/" in file)
        return next(cloned, "")
    names = inside.split("/")
    if names[0] == "ray":
        parts = names[:2]
    else:
        parts = names[:1]
    return ".".join(parts).removesuffix(".py")
