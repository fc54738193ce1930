"""Throughput points alone: what they tell about other numbers of actors, and what they cannot tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutaway.errors import CutawayError
from cutaway_balance.sources import Source

Answer = tuple[Any, list[str]]  # for scripts, and for people
NEAR = 0.95  # of the asymptote
MOST_ERROR = 0.25  # of a curve, at a point that it has not seen
LADDER = [1]  # numbers of actors to try
while LADDER[-1] < 1024:
    LADDER.append(min(1024, max(LADDER[-1] + 1, int(LADDER[-1] * 1.25))))


def predict(source: Source, counts: Sequence[int]) -> Answer:
    """Beyond the points a number is given only if they can tell; else what it lies between."""
    _require(source, 1)
    largest = max(source.points())
    lines = ["actors   steps/s  95 % interval       (from throughput points only)"]
    points = [_curve_point(source, n) for n in counts or (2 * largest,)]
    for one in points:
        interval = f"{one['low']:,.0f} … {one['high']:,.0f}"
        if one["steps_per_s"] is None:
            rate = "unknown"
        else:
            rate = f"{one['steps_per_s']:,.0f}"
        lines.append(f"{one['actors']:6} {rate:>9}  {interval}")
    if any(one["steps_per_s"] is None for one in points):
        lines.append(
            f"unknown: between no more than at {largest} and as much for each further actor as the last one brought; measure it."
        )
    errors = source.curve_errors()
    lines += [_curve_error(errors), *_doubts(source)]
    return {"points": points, "held_out": errors, "warnings": _doubts(source)}, lines


def _curve_point(source: Source, actors: int) -> dict[str, Any]:
    curve = source.curve()
    points = source.points()
    largest = max(points)
    rate: float | None = curve(actors)
    low, high = curve.interval(actors)
    if actors > largest and _enough(points) < largest:
        # Where more brought nothing, no curve knows better.
        rate = points[largest]
        low = min(low, rate)
        high = max(points.values()) / NEAR
    elif actors > largest and (_doubts(source) or len(points) < 3):
        rate = None
        low = points[largest]
        more = _last_gain(points) * (actors - largest)
        high = max(low, min(low + more, curve.cap))
    return {"actors": actors, "steps_per_s": rate, "low": low, "high": high}


def _last_gain(points: Mapping[int, float]) -> float:
    """What each of the last actors brought: further ones hardly bring more."""
    (before, less), (last, rate) = list(points.items())[-2:]
    return max(0.0, rate - less) / (last - before)


def _enough(points: Mapping[int, float]) -> int:
    """The smallest number that was nearly as fast as any."""
    best = max(points.values())
    return next(n for n, rate in points.items() if rate >= NEAR * best)


def _require(source: Source, least: int) -> None:
    if len(source.points()) < least:
        if source.why_not:
            why = f" ({source.why_not})"
        else:
            why = ""
        raise CutawayError(
            f"This needs at least {least} measured numbers of actors, or a run that can be replayed{why}."
        )


def _curve_error(errors: Mapping[int, float]) -> str:
    if not errors:
        return "error: unknown; measure at least three numbers of actors, or hold some out with --from"
    mean = sum(map(abs, errors.values())) / len(errors)
    each = ", ".join(f"{error:+.0%} at {actors}" for actors, error in errors.items())
    return f"mean error on {len(errors)} held-out points: {mean:.0%} ({each})"


def _doubts(source: Source) -> list[str]:
    """Why the points may not tell what happens beyond them."""
    curve = source.curve()
    errors = source.curve_errors()
    if curve.one_sided:
        found = [f"Warning: {curve.one_sided}."]
    else:
        found = []
    if errors and max(map(abs, errors.values())) > MOST_ERROR:
        found.append(
            "Warning: the curve misses points it has not seen, so do not trust it beyond them."
        )
    return found


def words(source: Source) -> list[str]:
    """Advice from throughput points alone, in words; nothing if they are too few."""
    if len(source.points()) >= 2:
        return advise(source)[1]
    return []


def advise(source: Source) -> Answer:
    """What was measured comes first: where more actors brought nothing, no curve knows better. Beyond the points there is advice
    only if the curve bends inside them and predicts points it has not seen."""
    _require(source, 2)
    points = source.points()
    errors = source.curve_errors()
    best = max(points.values())
    enough = _enough(points)
    found: dict[str, Any] = {"held_out": errors, "largest_measured": max(points)}
    tail = [
        _curve_error(errors).capitalize() + ".",
        "Record the runs to learn which resource binds.",
    ]
    if enough < max(points):
        gain = points[enough] / points[min(points)] - 1
        found |= {"actors": enough, "steps_per_s": points[enough], "measured": True}
        more = f"more than that, up to {max(points)}, brought no more than {best:,.0f}"
        rate = (
            f"{points[enough]:,.0f} steps/s measured, {gain:+.0%} against {min(points)}"
        )
        return found, [f"Use {enough} actors: {rate}; {more}.", *tail]
    curve = source.curve()
    if _doubts(source) or len(points) < 3:
        found |= {"actors": None, "measured": False}
        cannot = f"The points cannot tell how many actors are best: at {max(points)} throughput still grows."
        return found, [cannot, f"Measure more than {max(points)} actors.", *tail]
    reach = [n for n in LADDER if n <= 2 * max(points)]
    wanted = next(n for n in reach if curve(n) >= NEAR * curve(reach[-1]))
    low, high = curve.interval(wanted)
    gain = curve(wanted) / curve(min(points)) - 1
    found |= {
        "actors": wanted,
        "steps_per_s": curve(wanted),
        "low": low,
        "high": high,
        "measured": False,
    }
    rate = f"{curve(wanted):,.0f} steps/s ({low:,.0f} … {high:,.0f}), {gain:+.0%} against {min(points)}"
    return found, [f"About {wanted} actors: {rate}, by throughput points alone.", *tail]
