"""How a run went: its stretches and the sentence about a drift; `cutaway show --over-time` and `--slowest`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from statistics import median, quantiles
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.processes import known_life
from cutaway.analysis.table import totals
from cutaway.drawing.colours import colour

from . import text
from .digest import Digest, Process, Stretch
from .printer import Printer, grid

MOST_STRETCHES = 60
MOST_OPERATIONS = 5
MOST_ROWS = 24
ENOUGH_NS, ENOUGH_STRETCHES = 10_000_000_000, 12  # before anything is called a drift
CHANGED = 0.15  # of the rate
MOVED = 0.03  # of the time
ALIKE = "every operation changed alike"
MOST_CELLS, WORTH_NAMING = (
    3,
    0.02,
)  # of what made an iteration slow; the latter of its time
UNITS = {"hour": 3600, "minute": 60, "second": 1}


def steppers(run: Run, processes: Sequence[Process]) -> list[int]:
    """The processes whose steps add up to those of the run."""
    made = {p.id for p in processes if run.swept.pace.steps[p.id]}
    # Environments in processes of their own are counted by who steps them, too.
    return [p.id for p in processes if p.id in made and p.parent not in made]


def stretches(
    run: Run, processes: Sequence[Process], main: Process
) -> tuple[Stretch, ...]:
    """The main process over the whole run. Steps are its own, else those of the processes that step for it."""
    table = run.over_time(MOST_STRETCHES)
    if run.swept.pace.steps[main.id]:
        counted = {main.id}
    else:
        counted = set(steppers(run, processes))
    once = {(row["process"], row["start_ns"]): row["steps"] for row in table}
    steps = totals(
        (start, n) for (process, start), n in once.items() if process in counted
    )
    origin = min(p.start_ns for p in processes)
    shares: dict[tuple[int, int, int], dict[str, float]] = {}
    for row in table.where(process=main.id):
        key = row["start_ns"], row["end_ns"], row["iterations"]
        shares.setdefault(key, {})[row["operation"]] = row["share"]
    out = []
    for (start, end, iterations), parts in shares.items():
        first = max(start, main.start_ns)
        last = min(end, max(main.end_ns, start + 1))
        seconds = max(1, last - first) / 1e9
        rates = steps.get(start, 0) / seconds, iterations / seconds
        steady = run.steady().edges[0] <= start and end <= run.steady().edges[1]
        out.append(
            Stretch(max(0, first - origin), last - origin, *rates, steady, parts)
        )
    return tuple(out)


def drift(found: Sequence[Stretch]) -> str | None:
    """Says how the pace of the steady state changed from its first quarter to its last, and what grew; empty if it did not, None
    if the run is too short to tell."""
    steady = [s for s in found if s.steady][
        :-1
    ]  # the last one may be too short to tell
    if (
        len(steady) < ENOUGH_STRETCHES
        or steady[-1].end_ns - steady[0].start_ns < ENOUGH_NS
    ):
        return None
    what = counted_in(steady)
    quarter = len(steady) // 4
    early = steady[:quarter]
    late = steady[-quarter:]
    before = [stretch.rate(what) for stretch in early]
    after = [stretch.rate(what) for stretch in late]
    old = median(before)
    new = median(after)
    (low, _, high), (lower, _, higher) = quantiles(before, n=4), quantiles(after, n=4)
    apart = lower > high or higher < low  # what only jitters is no drift
    if old <= 0 or abs(new / old - 1) < CHANGED or not apart:
        return ""
    unit = next(
        name
        for name, seconds in UNITS.items()
        if steady[-1].end_ns >= 2 * seconds * 10**9
    )
    middles = ((s.start_ns + s.end_ns) // 2 for s in (early[0], late[-1]))
    first, last = (
        f"{unit} {middle // (UNITS[unit] * 10**9) + 1}" for middle in middles
    )
    changed = f"{'fell' if new < old else 'rose'} from {text.number(old)} to {text.number(new)}"
    return (
        f"From {first} to {last} {what}/s {changed}: {_cause(early, late, old, new)}."
    )


def _cause(
    early: Sequence[Stretch], late: Sequence[Stretch], old: float, new: float
) -> str:
    """The operation whose time for each step changed most in the direction of the whole."""
    before = _mean_shares(early)
    after = _mean_shares(late)
    sign = 1 if new < old else -1
    change = {
        n: sign * (after.get(n, 0) / new - before.get(n, 0) / old)
        for n in {**before, **after}
    }
    name = max(change, key=lambda n: change[n])
    a = before.get(name, 0.0)
    b = after.get(name, 0.0)
    if sign * (b - a) < MOVED:
        return ALIKE
    changed = "grew" if b > a else "shrank"
    return (
        f"{text.operation(name)} {changed} from {text.percent(a)} to {text.percent(b)}"
    )


def counted_in(found: Sequence[Stretch]) -> str:
    """The unit of the pace: steps where any were made, else iterations."""
    if any(s.steps_per_second for s in found):
        return "steps"
    return "iterations"


def notes_of_the_past(run: Run) -> list[str]:
    """For which part of a run recorded with --keep there are totals only."""
    asked = run.trace.about.get("options")
    if not isinstance(asked, dict) or not asked.get("keep_s"):
        return []
    until = max((p.past.until_ns for p in run.trace.processes if p.past), default=0)
    if not until:
        return []
    kept = text.duration(until - min(known_life(p)[0] for p in run.trace.processes))
    return [
        f"--keep: the first {kept} are kept as exact totals only; single events begin after that."
    ]


def print_over_time(p: Printer, digest: Digest) -> None:
    """A row for each stretch: when it began, steps a second, and the shares of the largest operations."""
    found = digest.stretches
    names = list(digest.operations())[:MOST_OPERATIONS]
    if not found:
        p.print(p.text(f"Nothing recorded over time in {digest.program.path}."))
        return
    what = counted_in(found)
    most = max(s.rate(what) for s in found)
    if what == "steps":
        rate = "steps/s"
    else:
        rate = "iter/s"
    heads = ["from", rate, "", *(text.clip(text.operation(name), 12) for name in names)]
    table = grid(p, heads, left=[""])
    each = -(-len(found) // MOST_ROWS)
    for s in (_joined(found[i : i + each]) for i in range(0, len(found), each)):
        shares = [
            p.text(text.percent(s.shares.get(n, 0.0)), colour(n, names)) for n in names
        ]
        bar = p.text("█" * round(10 * s.rate(what) / most) if most else "")
        start = p.text(
            text.duration(s.start_ns) if s.start_ns else "0 s",
            "" if s.steady else "dim",
        )
        table.add_row(start, p.text(text.number(s.rate(what))), bar, *shares)
    title = f"{digest.program.name}: {digest.main.name} over {text.duration(found[-1].end_ns)}"
    p.print(p.text(title, "bold"), table, p.text(about_drift(found)))


def about_drift(found: Sequence[Stretch]) -> str:
    """The sentence below the table."""
    changed = drift(found)
    if changed is None:
        return f"Too short to tell whether the pace drifted: that takes {ENOUGH_NS // 10**9} s of steady state."
    return changed or "The pace did not drift."


def _joined(parts: Sequence[Stretch]) -> Stretch:
    """Neighbours merged: their mean, weighted by length."""
    lengths = [s.end_ns - s.start_ns for s in parts]

    def mean(values: list[float]) -> float:
        return sum(v * n for v, n in zip(values, lengths, strict=True)) / max(
            1, sum(lengths)
        )

    shares: dict[str, float] = {}
    for name in dict.fromkeys(chain.from_iterable(s.shares for s in parts)):
        shares[name] = mean([s.shares.get(name, 0.0) for s in parts])
    return Stretch(
        parts[0].start_ns,
        parts[-1].end_ns,
        mean([s.steps_per_second for s in parts]),
        mean([s.iterations_per_second for s in parts]),
        parts[0].steady,
        shares,
    )


def _mean_shares(parts: Sequence[Stretch]) -> dict[str, float]:
    """The share of each operation, averaged over stretches."""
    found: defaultdict[str, float] = defaultdict(float)
    for stretch in parts:
        for name, share in stretch.shares.items():
            found[name] += share / len(parts)
    return dict(found)


def slowest_rows(run: Run, digest: Digest) -> list[dict[str, Any]]:
    """The slowest iterations, the worst first; `cells` has every cell, the one that grew most first."""
    origin = min(p.start_ns for p in digest.processes)
    found: dict[int, dict[str, Any]] = {}
    for row in run.slowest().where(process=digest.main_process):
        about = {key: row[key] for key in ("iteration", "start_ns", "end_ns", "steps")}
        about |= {
            "at_ns": row["start_ns"] - origin,
            "took_ns": row["end_ns"] - row["start_ns"],
            "cells": [],
        }
        cells = found.setdefault(row["iteration"], about)["cells"]
        cells.append(
            {key: row[key] for key in ("operation", "layer", "ns", "usual_ns")}
        )
    return list(found.values())


def print_slowest(p: Printer, run: Run, digest: Digest) -> None:
    """A row for each slow iteration: when, how long, and the cells that made it long."""
    rows = slowest_rows(run, digest)
    if not rows:
        remedy = (
            "they are marked by cutaway.iteration() or by a framework that is known"
        )
        p.print(
            p.text(
                f"No slow iterations in {digest.program.path}: too few were recorded; {remedy}."
            )
        )
        return
    table = grid(
        p,
        ["iteration", "at", "took", "what was different"],
        left=["what was different"],
    )
    for row in rows:
        grown = [
            c
            for c in row["cells"]
            if c["ns"] - c["usual_ns"] > WORTH_NAMING * row["took_ns"]
        ]
        different = [
            f"{text.operation(cell['operation'])} in {text.layer(cell['layer'])}: "
            f"{text.duration(cell['ns'])}, usually {text.duration(cell['usual_ns'])}"
            for cell in grown[:MOST_CELLS]
        ] or ["nothing stands out: a little more of everything"]
        head = (
            str(row["iteration"]),
            text.duration(row["at_ns"]),
            text.duration(row["took_ns"]),
        )
        for i, what in enumerate(different):
            table.add_row(*map(p.text, ("", "", "") if i else head), p.text(what))
    usual = {
        name: int(values[digest.main_process])
        for name, values in run.swept.pace.durations.items()
    }
    middle, most = (text.duration(usual[key]) for key in ("median_ns", "p99_ns"))
    p.print(
        p.text(
            f"{digest.program.name}: the slowest of {text.plural(usual['timed'], 'iteration')}",
            "bold",
        ),
        p.text(f"median {middle}; 99 of 100 take at most {most}"),
        p.text(
            "Iterations in which the recorder paused (to measure its own cost) are left out."
        ),
        table,
        p.line(
            f"every cell: cutaway show {digest.program.path} --slowest --json", "dim"
        ),
    )
