"""How a run went: its stretches and the sentence about a drift; `cutaway show --over time` and `--slowest`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.processes import known_life
from cutaway.analysis.table import totals

from . import text
from .digest import Digest, Process, Stretch
from .printer import Printer, colour, grid

MOST_STRETCHES, MOST_OPERATIONS, MOST_ROWS = 60, 5, 24
ENOUGH_NS, ENOUGH_STRETCHES = 10_000_000_000, 12  # before anything is called a drift
CHANGED = 0.15  # of the rate
MOVED = 0.03  # of the time
MOST_CELLS, WORTH_NAMING = 3, 0.02  # of what made an iteration slow; the latter of its time
_UNITS = ((7_200_000_000_000, 3_600_000_000_000, "hour"), (120_000_000_000, 60_000_000_000, "minute"))


def stretches(run: Run, processes: Sequence[Process], main: Process) -> tuple[Stretch, ...]:
    """The main process over the whole run. Steps are its own, else those of the processes that step for it."""
    table = run.over_time(MOST_STRETCHES)
    made = {p.id for p in processes if run.swept.steps[p.id]}
    outer = {p.id for p in processes if p.id in made and p.parent not in made}
    counted = {main.id} if main.id in made else outer
    once = {(row["process"], row["start_ns"]): row["steps"] for row in table}
    steps = totals((start, n) for (process, start), n in once.items() if process in counted)
    origin = min(p.start_ns for p in processes)
    shares: dict[tuple[int, int, int], dict[str, float]] = {}
    for row in table.where(process=main.id):
        key = row["start_ns"], row["end_ns"], row["iterations"]
        shares.setdefault(key, {})[row["operation"]] = row["share"]
    out = []
    for (start, end, iterations), parts in shares.items():
        first, last = max(start, main.start_ns), min(end, max(main.end_ns, start + 1))
        seconds = max(1, last - first) / 1e9
        rates = steps.get(start, 0) / seconds, iterations / seconds
        steady = run.steady().edges[0] <= start and end <= run.steady().edges[1]
        out.append(Stretch(max(0, first - origin), last - origin, *rates, steady, parts))
    return tuple(out)


def drift(found: Sequence[Stretch]) -> str:
    """Says how the pace of the steady state changed from its first quarter to its last, and what grew; empty if it did not."""
    steady = [s for s in found if s.steady][:-1]  # the last one may be too short to tell
    if len(steady) < ENOUGH_STRETCHES or steady[-1].end_ns - steady[0].start_ns < ENOUGH_NS:
        return ""
    what = "steps" if any(s.steps_per_second for s in steady) else "iterations"
    quarter = len(steady) // 4
    early, late = steady[:quarter], steady[-quarter:]
    before, after = ([getattr(s, f"{what}_per_second") for s in part] for part in (early, late))
    old, new = median(before), median(after)
    if old <= 0 or abs(new / old - 1) < CHANGED or not _apart(before, after):
        return ""
    words = f"{what}/s {'fell' if new < old else 'rose'} from {text.number(old)} to {text.number(new)}"
    return (
        f"From {_when(early[0], steady)} to {_when(late[-1], steady)} {words}{_cause(early, late, old, new)}."
    )


def _apart(before: list[float], after: list[float]) -> bool:
    """Whether most of one lies beyond most of the other: what only jitters is no drift."""
    (low, _, high), (lower, _, higher) = quantiles(before, n=4), quantiles(after, n=4)
    return lower > high or higher < low


def _when(stretch: Stretch, steady: Sequence[Stretch]) -> str:
    length, middle = steady[-1].end_ns, (stretch.start_ns + stretch.end_ns) // 2
    unit, name = next(((unit, name) for least, unit, name in _UNITS if length >= least), (10**9, "second"))
    return f"{name} {middle // unit + 1}"


def _cause(early: Sequence[Stretch], late: Sequence[Stretch], old: float, new: float) -> str:
    """The operation whose time for each step changed most in the direction of the whole."""
    before, after = (_mean_shares(part) for part in (early, late))
    sign = 1 if new < old else -1
    change = {
        name: sign * (after.get(name, 0) / new - before.get(name, 0) / old) for name in {**before, **after}
    }
    name = max(change, key=lambda n: change[n])
    a, b = before.get(name, 0.0), after.get(name, 0.0)
    if abs(a - b) < MOVED:
        return ": every operation changed alike"
    return f": {text.operation(name)} {'grew' if b > a else 'shrank'} from {text.percent(a)} to {text.percent(b)}"


def _mean_shares(part: Sequence[Stretch]) -> dict[str, float]:
    return totals((name, share / len(part)) for stretch in part for name, share in stretch.shares.items())


def kept_notes(run: Run) -> list[str]:
    """What a run recorded with --keep holds only as totals."""
    asked = run.trace.about.get("options")
    if not isinstance(asked, dict) or not asked.get("keep_s"):
        return []
    until = max((p.past.until_ns for p in run.trace.processes if p.past), default=0)
    if not until:
        return []
    first = min(known_life(p)[0] for p in run.trace.processes)
    return [
        f"--keep: the first {text.duration(until - first)} are here as exact totals; single events are of the time after that."
    ]


def print_over_time(p: Printer, digest: Digest) -> None:
    """A row for each stretch: when it began, steps a second, and the shares of the largest operations."""
    if not digest.stretches:
        p.print(p.text(f"Nothing recorded over time in {digest.path}."))
        return
    names = list(digest.operations())[:MOST_OPERATIONS]
    counts_steps = any(s.steps_per_second for s in digest.stretches)
    title = "steps/s" if counts_steps else "iter/s"
    most = max(_rate(s, counts_steps) for s in digest.stretches)
    heads = [text.clip(text.operation(name), 12) for name in names]
    table = grid(p, [("from", "right"), (title, "right"), ("", "left"), *((head, "right") for head in heads)])
    for s in _joined(digest.stretches, MOST_ROWS):
        rate = _rate(s, counts_steps)
        shares = [p.text(text.percent(s.shares.get(n, 0.0)), colour(n, names)) for n in names]
        bar = p.text("█" * round(10 * rate / most) if most else "")
        start = p.text(text.duration(s.start_ns) if s.start_ns else "0 s", "" if s.steady else "dim")
        table.add_row(start, p.text(text.number(rate)), bar, *shares)
    words = drift(digest.stretches) or "The pace did not drift."
    title = f"{digest.program}: {digest.main.name} over {text.duration(digest.stretches[-1].end_ns)}"
    p.print(p.text(title, "bold"), table, p.text(words))


def _rate(stretch: Stretch, steps: bool) -> float:
    return stretch.steps_per_second if steps else stretch.iterations_per_second


def _joined(found: Sequence[Stretch], most: int) -> list[Stretch]:
    """Fewer stretches, each the mean of its neighbours by how long they are."""
    each = -(-len(found) // most)
    return [_one(found[i : i + each]) for i in range(0, len(found), each)]


def _one(parts: Sequence[Stretch]) -> Stretch:
    lengths = [s.end_ns - s.start_ns for s in parts]

    def mean(values: list[float]) -> float:
        return sum(v * n for v, n in zip(values, lengths, strict=True)) / max(1, sum(lengths))

    return Stretch(
        parts[0].start_ns,
        parts[-1].end_ns,
        mean([s.steps_per_second for s in parts]),
        mean([s.iterations_per_second for s in parts]),
        parts[0].steady,
        {name: mean([s.shares.get(name, 0.0) for s in parts]) for s in parts for name in s.shares},
    )


def slowest_rows(run: Run, digest: Digest) -> list[dict[str, Any]]:
    """The slowest iterations, the worst first; `cells` has every cell, the one that grew most first."""
    origin = min(p.start_ns for p in digest.processes)
    found: dict[int, dict[str, Any]] = {}
    for row in run.slowest().where(process=digest.main_process):
        about = {key: row[key] for key in ("iteration", "start_ns", "end_ns", "steps")}
        about |= {"at_ns": row["start_ns"] - origin, "took_ns": row["end_ns"] - row["start_ns"], "cells": []}
        cells = found.setdefault(row["iteration"], about)["cells"]
        cells.append({key: row[key] for key in ("operation", "layer", "ns", "usual_ns")})
    return list(found.values())


def print_slowest(p: Printer, run: Run, digest: Digest) -> None:
    """A row for each slow iteration: when, how long, and the cells that made it long."""
    rows = slowest_rows(run, digest)
    if not rows:
        remedy = "they are marked by cutaway.iteration() or by a framework that is known"
        p.print(p.text(f"No slow iterations in {digest.path}: too few were recorded; {remedy}."))
        return
    usual = {name: int(values[digest.main_process]) for name, values in run.swept.durations.items()}
    right = [(title, "right") for title in ("iteration", "at", "took")]
    table = grid(p, [*right, ("what was different", "left")])
    for row in rows:
        least = WORTH_NAMING * row["took_ns"]
        grown = [c for c in row["cells"] if c["ns"] - c["usual_ns"] > least][:MOST_CELLS]
        times = (text.duration(row[key]) for key in ("at_ns", "took_ns"))
        for i, cell in enumerate(grown or [None]):
            head = (str(row["iteration"]), *times) if not i else ("", "", "")
            table.add_row(*map(p.text, head), p.text(_difference(cell)))
    middle, most = (text.duration(usual[key]) for key in ("median_ns", "p99_ns"))
    p.print(
        p.text(f"{digest.program}: the slowest of {text.plural(usual['timed'], 'iteration')}", "bold"),
        p.text(f"median {middle}; 99 of 100 take at most {most}"),
        p.text("Iterations in which the recorder paused (to measure its own cost) are left out."),
        table,
        p.line(f"every cell: cutaway show {digest.path} --slowest --json", "dim"),
    )


def _difference(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "nothing stands out: a little more of everything"
    where = f"{text.operation(cell['operation'])} in {text.layer(cell['layer'])}"
    return f"{where}: {text.duration(cell['ns'])}, usually {text.duration(cell['usual_ns'])}"
