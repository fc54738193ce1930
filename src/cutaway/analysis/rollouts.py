"""How a language model generated: values over time (`gauges`), and what they say of the long tail, the queue and the age of samples.

A value holds until the next one of its name in that process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.table import Table

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

FEW = 0.25
"""Of the largest batch of a burst: where no more are decoded after it, that is its tail."""
LEAST = 4
"""A burst that never decoded so many sequences has no tail."""
_COUNTED = ("trained", "discarded")


@dataclass(frozen=True)
class Curve:
    """Values that hold from their times on; times in nanoseconds."""

    at: NDArray[np.int64]
    value: NDArray[np.float64]

    def within(self, first: int, end: int) -> Curve:
        """The same between two moments; the value that held at the first one begins there."""
        before = int(np.searchsorted(self.at, first, "right")) - 1
        after = int(np.searchsorted(self.at, end, "left"))
        kept = slice(max(0, before), after)
        at = np.clip(self.at[kept], first, end)
        return Curve(at, self.value[kept])

    def lasts(self, end: int) -> NDArray[np.int64]:
        """For how long each value holds."""
        if len(self.at):
            return np.diff(np.append(self.at, end))
        return np.diff(self.at)

    def mean(self, end: int) -> float | None:
        """Weighted by time; None without any."""
        lasts = self.lasts(end)
        total = int(lasts.sum())
        if total:
            return float((self.value * lasts).sum() / total)
        return None


@dataclass(frozen=True)
class Burst:
    """From the first sequence to the moment when none is left."""

    start_ns: int
    end_ns: int
    tail_ns: int  # at its end, with a quarter of its largest batch or less
    peak: float
    area: float  # sequences × ns


@dataclass(frozen=True)
class Rollouts:
    """What is known of how samples were made and used; None where unknown."""

    decoding_ns: int = 0  # with at least one sequence, in the engine that decodes most
    tail_ns: int = 0
    alone_ns: int = 0  # with one sequence left of four or more
    peak: float = 0.0
    mean: float = 0.0
    waiting: float | None = None
    queue: float | None = None
    queue_empty: float | None = None  # share of the time
    staleness: float | None = None
    staleness_most: float | None = None
    versions: float | None = None
    updates: float = 0.0  # versions that were made
    discarded: float = 0.0
    trained: float = 0.0
    cache_bytes: float | None = None
    engines: int = 0

    @property
    def tail_share(self) -> float:
        """Of the time of decoding."""
        if self.decoding_ns:
            return self.tail_ns / self.decoding_ns
        return 0.0

    @property
    def discarded_share(self) -> float:
        """Of all samples that reached the trainer."""
        return self.discarded / ((self.discarded + self.trained) or 1)


def gauges(run: Run) -> Table:
    """Values over time from engines, trainers and `cutaway.gauge`, a row for each change.

    >>> run.gauges()
    process  name  t_ns  value
    """
    rows = []
    for process, of_name in enumerate(_points(run)):
        for name, points in of_name.items():
            for at, value in points:
                rows.append((process, name, at, value))
    return Table.from_rows(("process", "name", "t_ns", "value"), rows)


def rollouts(run: Run) -> Rollouts:
    """What the values of a part of the run say; zeros and None where there are none.

    >>> run.rollouts().tail_share, run.rollouts().queue
    (0.0, None)
    """
    return between(told_by_process(run), *_bounds(run))


def told_by_process(run: Run) -> list[dict[str, Curve]]:
    """All values over time of the whole run, by process and name."""
    found = []
    for names in _points(run):
        curves_of = {}
        for name, points in names.items():
            curves_of[name] = _curve(_from_zero(name, points))
        found.append(curves_of)
    return found


def between(told: Iterable[dict[str, Curve]], first: int, end: int) -> Rollouts:
    """What the values say of the time between two moments."""
    by_process = []
    for names in told:
        cut = {name: curve.within(first, end) for name, curve in names.items()}
        by_process.append(cut)
    engines = [curves["sequences"] for curves in by_process if "sequences" in curves]
    found = [(bursts(curve, end), curve) for curve in engines]
    found.sort(key=lambda pair: -_decoding(pair[0]))
    known = replace(_told(by_process, end), engines=len(engines))
    if not found or not found[0][0]:
        return known
    own, curve = found[0]
    decoding = _decoding(own)
    return replace(
        known,
        decoding_ns=decoding,
        tail_ns=sum(burst.tail_ns for burst in own),
        alone_ns=_alone(own, curve, end),
        peak=max(burst.peak for burst in own),
        mean=sum(burst.area for burst in own) / decoding,
    )


def _told(by_process: list[dict[str, Curve]], end: int) -> Rollouts:
    def curves(name: str) -> list[Curve]:
        return [of[name] for of in by_process if name in of and len(of[name].at)]

    def mean(name: str) -> float | None:
        means = (curve.mean(end) for curve in curves(name))
        known = [one for one in means if one is not None]
        if known:
            return sum(known) / len(known)
        return None

    def most(name: str) -> float | None:
        return max((float(one.value.max()) for one in curves(name)), default=None)

    def grown(name: str) -> float:
        return sum(float(one.value[-1] - one.value[0]) for one in curves(name))

    def updates() -> float:
        # The trainer and those who sample may both tell the version.
        told = (float(one.value[-1] - one.value[0]) for one in curves("policy version"))
        return max(told, default=0.0)

    return Rollouts(
        waiting=mean("waiting"),
        queue=mean("queue"),
        queue_empty=_empty(curves("queue"), end),
        staleness=mean("staleness"),
        staleness_most=most("staleness"),
        versions=most("policy version"),
        updates=updates(),
        discarded=grown("discarded"),
        trained=grown("trained"),
        cache_bytes=most("KV cache"),
    )


def _empty(curves: list[Curve], end: int) -> float | None:
    shares = []
    for curve in curves:
        lasts = curve.lasts(end)
        if lasts.sum():
            shares.append(float(lasts[curve.value < 0.5].sum() / lasts.sum()))
    if shares:
        return min(shares)
    return None


def _decoding(of: Iterable[Burst]) -> int:
    return sum(burst.end_ns - burst.start_ns for burst in of)


def _alone(own: list[Burst], curve: Curve, end: int) -> int:
    lasts = curve.lasts(end)
    total = 0
    for burst in own:
        inside = (curve.at >= burst.start_ns) & (curve.at < burst.end_ns)
        if burst.peak >= LEAST:
            total += int(lasts[inside & (curve.value == 1)].sum())
    return total


def bursts(curve: Curve, end: int) -> list[Burst]:
    """Stretches with sequences, one after the other.

    >>> curve = Curve(np.array([0, 10, 20, 90]), np.array([8.0, 4.0, 1.0, 0.0]))
    >>> bursts(curve, 100)
    [Burst(start_ns=0, end_ns=90, tail_ns=70, peak=8.0, area=190.0)]
    """
    busy = curve.value > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], busy, [False]])))
    ends = np.append(curve.at, end)
    lasts = curve.lasts(end)
    found = []
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        values = curve.value[start:stop]
        peak = float(values.max())
        many = np.flatnonzero(values > FEW * peak)
        tail = int(lasts[start + int(many[-1]) + 1 : stop].sum())
        area = float((values * lasts[start:stop]).sum())
        begin = int(ends[start])
        over = int(ends[stop])
        if over > begin:
            tail = tail if peak >= LEAST else 0
            found.append(Burst(begin, over, tail, peak, area))
    return found


def _bounds(run: Run) -> tuple[int, int]:
    first, end = run.edges
    begin, last = run.span
    return max(first, begin), min(end, last)


def _points(run: Run) -> list[dict[str, list[tuple[int, float]]]]:
    """Of each process, by name, in order of time."""
    out = []
    for process in run.trace.processes:
        names: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for entry in process.log.others:
            if entry["k"] == "gauge":
                names[str(entry["name"])] += [
                    (entry["t"] + at, float(value)) for at, value in entry["at"]
                ]
        out.append({name: sorted(points) for name, points in names.items()})
    return out


def _from_zero(name: str, points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """A counter begins at zero."""
    if name in _COUNTED:
        return [(0, 0.0), *points]
    return points


def _curve(points: list[tuple[int, float]]) -> Curve:
    at = np.array([at for at, _ in points], np.int64)
    return Curve(at, np.array([value for _, value in points], np.float64))


def curves(run: Run, name: str) -> dict[int, Curve]:
    """A value over the whole run, by process.

    >>> curves(run, "sequences")
    {}
    """
    found = {}
    for process, names in enumerate(_points(run)):
        if name in names:
            found[process] = _curve(names[name])
    return found
