"""What a change would do to the time of an iteration, with an interval, or a sentence that says why nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.estimates import t95
from cutaway.analysis.whatif import known_errors
from cutaway.analysis.whatif.build import build
from cutaway.analysis.whatif.changes import Change, Faster, apply
from cutaway.analysis.whatif.graph import Graph
from cutaway.analysis.whatif.replay import Replayed, replay
from cutaway.analysis.whatif.sizes import Second
from cutaway.analysis.whatif.structure import process_names
from cutaway.analysis.whatif.times import lasting
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

MOST_ERROR = 0.10
"""A replay without a change that is further off predicts nothing."""
NAMELESS = "(none)"
_FASTER = 1 / 1.1
_MOST_FORCED = 0.01
_BATCHES = 10
_KERNELS = 8
_MANY_ANSWERS = 50
"""Of a server, in each stretch: of fewer, it matters where in a batch of them a stretch ends."""
MOST_DOUBT = 0.15
"""What the assumptions of a change, or the spread of a recording, may make of the gain. The error of the model is no
part of this: it is known, so it widens the interval, and recording again would not help."""


@dataclass(frozen=True)
class Prediction:
    """Seconds of an iteration as recorded and after a change, with an interval that is meant to hold nine of ten, and what that assumes.
    `work` is how much an iteration does then, of what it did. `recording` and `model` are the relative half widths that the interval
    is made of: how well the run is known, and how far such predictions were off when they were checked."""

    change: str
    before: float
    after: float
    low: float
    high: float
    assumes: tuple[str, ...] = ()
    work: float = 1.0
    recording: float = 0.0
    model: float = 0.0

    @property
    def speedup(self) -> float:
        """How many times the throughput."""
        return self._times(self.after)

    @property
    def least(self) -> float:
        """The lower end of the speed-up."""
        return self._times(self.high)

    @property
    def most(self) -> float:
        """The upper end of the speed-up."""
        return self._times(self.low)

    def _times(self, seconds: float) -> float:
        return self.work * self.before / seconds if seconds else float("inf")


@dataclass(frozen=True)
class Worth:
    """One row of the causal profile: a tenth faster, how much faster the whole (in per cent of that tenth), and free."""

    kind: str
    name: str
    share: float
    elasticity: float
    free: float


@dataclass(frozen=True)
class Loads:
    """CPU threads that are busy, of how many, and the share of the time in which the busiest thread of each process works."""

    cpu: float
    threads: int
    busiest: dict[int, float]


class WhatIf:
    """A run that was replayed once without a change."""

    def __init__(self, run: Run, graph: Graph | None = None) -> None:
        self.run = run
        self.graph = build(run) if graph is None else graph
        self.seconds = self.graph.seconds
        self.recorded = float(self.seconds.mean())
        same = replay(self.graph)
        self.error, self.forced = same.mean / self.recorded - 1, same.forced
        """By how much the replay without a change is off; positive: it takes too long."""
        self.spread = _relative_error(same.seconds, self.seconds)
        # What recording cost is no part of what a change is compared with.
        self.unchanged = self._again(self.graph)
        self.base = self.unchanged.mean
        self.before = self.recorded * self.base / same.mean

    def _again(
        self, graph: Graph, factors: NDArray[np.float64] | float = 1.0
    ) -> Replayed:
        """As it would run without the recorder."""
        return replay(graph, graph.unrecorded * factors)

    def require(self) -> None:
        """Refuse to predict where the replay does not resemble the run."""
        if abs(self.error) > MOST_ERROR or self.forced > _MOST_FORCED:
            raise CutawayError(
                f"Replayed as recorded, this run is {self.error:+.0%} off{self._because()}, so nothing is predicted; "
                "record it on a quiet machine, for longer."
            )

    def _because(self) -> str:
        """What the notes know of it."""
        used = [note for note in self.graph.notes if note.startswith("other programs")]
        return f" ({used[0].partition(' meanwhile')[0]})" if used else ""

    def predict(
        self, changes: Sequence[Change], text: str, second: Second | None = None
    ) -> Prediction:
        """The ratio of two replays, applied to what was recorded. What cannot be done to this run at all is said first."""
        shape = apply(self.run, self.graph, changes, second)
        self.require()
        base = self._base(shape.base, text)
        found = self._after(shape.graph, shape.factors, text)
        few = base.asked and base.answers.sum() < _BATCHES * _MANY_ANSWERS
        unlike = self.spread if few else _unlike(base, found)
        error = float(np.hypot(unlike, self.error))
        if error > MOST_DOUBT:
            raise CutawayError(
                f"What {text} gains is known to ±{error:.0%} only, because parts of this run differ, so nothing is predicted; "
                "record it for longer."
            )
        after = most = self.before * found.mean / base.mean
        # Who asks a server makes a step for each answer, however long an iteration is.
        asks = bool(base.asked and found.asked)
        more = found.asked / base.asked if asks else 1.0
        if shape.worst or not np.array_equal(shape.factors, shape.most):
            worst = self._after(shape.worst or shape.graph, shape.most, text)
            done = worst.asked / found.asked if asks else 1.0
            most = self.before * worst.mean / base.mean / done
        if abs(most / after - 1) > MOST_DOUBT:
            raise CutawayError(
                f"With {text} an iteration takes {lasting(after)} to {lasting(most)}, depending on {shape.unknown}, "
                "so nothing is predicted; record a short run with it and use cutaway diff."
            )
        kinds = known_errors.kinds_of(changes, self.graph)
        model = known_errors.half_width(kinds)
        times = float(np.exp(np.hypot(error, model)))
        return Prediction(
            text,
            self.before,
            after,
            min(after, most) / times,
            max(after, most) * times,
            (*shape.assumes, *known_errors.unchecked(kinds)),
            shape.work * more,
            error,
            model,
        )

    def loads(self, changes: Sequence[Change]) -> Loads:
        """Who works how much after a change."""
        shape = apply(self.run, self.graph, changes)
        found = replay(shape.graph, shape.factors)
        busiest: dict[int, float] = {}
        for thread, share in zip(shape.graph.threads, found.busy, strict=True):
            busiest[thread.process] = max(share, busiest.get(thread.process, 0.0))
        return Loads(found.cpu, shape.graph.cores, busiest)

    def _after(self, graph: Graph, factors: NDArray[np.float64], text: str) -> Replayed:
        found = self._again(graph, factors)
        if found.forced > _MOST_FORCED or not len(found.seconds):
            raise CutawayError(
                f"With {text} the replay gets stuck, so nothing is predicted."
            )
        return found

    def _base(self, graph: Graph | None, text: str) -> Replayed:
        """What a change is compared with: the run, or the run put together anew."""
        if graph is None:
            return self.unchanged
        found = self._again(graph)
        if abs(found.mean / self.base - 1) > MOST_ERROR:
            raise CutawayError(
                f"Put together anew, this run is {found.mean / self.base - 1:+.0%} off, so nothing is predicted for {text}."
            )
        return found

    def halved(self, operation: str) -> float:
        """How many times as fast if an operation took half the time."""
        return self.predict([Faster(operation, 2.0)], f"{operation}=2x").speedup

    def others(self) -> dict[str, float]:
        """Seconds of operations of each process but the leading one, by its name."""
        names = process_names(self.run)
        leader = self.graph.threads[self.graph.leader].process
        found: dict[str, float] = {}
        for key, seconds in self.graph.seconds_by_key().items():
            name = names[key.process] if key.process < len(names) else ""
            if key.process != leader and key.operation and name:
                found[name] = found.get(name, 0.0) + seconds
        return found

    def worth(self) -> list[Worth]:
        """What each operation, line and process is worth, the most worth first."""
        rows = [*self._by("operation"), *self._by("process"), *self._lines()]
        rows += self._kernels()
        return sorted(rows, key=lambda row: -row.elasticity)

    def _by(self, kind: str) -> Iterable[Worth]:
        names = {getattr(key, kind) for key in self.graph.keys}
        if kind == "process" and len(names) < 2:
            return
        for name in sorted(names, key=str):
            meant = np.array(
                [float(getattr(key, kind) == name) for key in self.graph.keys]
            )
            yield self._worth(kind, self._title(kind, name), meant)

    def _lines(self) -> Iterable[Worth]:
        from cutaway.analysis.whatif.changes import shares

        table = self.run.lines().where(self.run.lines()["layer"] != "wait")
        table = (
            table.group(("your_file", "your_line"), ["ns"])
            .sort("ns", descending=True)
            .head(12)
        )
        for file, line in zip(
            table["your_file"].tolist(), table["your_line"].tolist(), strict=True
        ):
            if file and line:
                yield self._worth(
                    "line",
                    f"{file.rpartition('/')[2]}:{line}",
                    shares(self.run, self.graph, f"{file}:{line}"),
                )

    def _kernels(self) -> Iterable[Worth]:
        """The work of devices that takes longest, by name."""
        seconds: dict[str, float] = {}
        for key, own in self.graph.seconds_by_key().items():
            if key.title:
                seconds[key.title] = seconds.get(key.title, 0.0) + own
        for title in sorted(seconds, key=lambda name: -seconds[name])[:_KERNELS]:
            meant = [float(key.title == title) for key in self.graph.keys]
            yield self._worth("kernel", title, np.array(meant))

    def _title(self, kind: str, name: object) -> str:
        if kind != "process":
            return str(name) or NAMELESS
        known = self.run.trace.processes
        number = int(str(name))
        if number >= len(known):  # a stream of a device has a process of its own
            threads = self.graph.threads
            return next(one.name for one in threads if one.process == number)
        log = known[number].log.process
        return f"{log.get('name') or 'process'} ({log.get('pid')})"

    def _worth(self, kind: str, name: str, meant: NDArray[np.float64]) -> Worth:
        faster = self._again(self.graph, 1 - meant * (1 - _FASTER)).mean
        free = self._again(self.graph, 1 - meant).mean
        elasticity = (
            float(np.log(self.base / faster) / -np.log(_FASTER)) if faster else 0.0
        )
        return Worth(
            kind,
            name,
            1 - free / self.base,
            elasticity,
            self.base / free if free else float("inf"),
        )


def _unlike(base: Replayed, found: Replayed) -> float:
    """Half of the 95 % interval of the speed-up, relative to it: by how much it differs between stretches of the run. Iterations may be
    as unlike as they want, as long as a change does the same to all of them."""
    count = min(_BATCHES, len(base.seconds), len(found.seconds))
    if count < 2:
        return 0.0
    before, after = _rates(base, count), _rates(found, count)
    if not (before.all() and np.isfinite(after).all() and np.isfinite(before).all()):
        return 0.0  # something takes no time at all, or nobody is answered
    ratios = after / before
    width = t95(count - 1) * ratios.std(ddof=1) / np.sqrt(count)
    return float(width / ratios.mean()) if ratios.any() else 0.0


def _rates(replayed: Replayed, count: int) -> NDArray[np.float64]:
    """Iterations a second in so many stretches, or answers."""
    each = np.ones(len(replayed.seconds))
    done = replayed.answers if replayed.asked else each
    seconds = np.array([part.sum() for part in np.array_split(replayed.seconds, count)])
    made = np.array([part.sum() for part in np.array_split(done, count)])
    with np.errstate(divide="ignore"):
        return np.asarray(made / seconds)


def _relative_error(*both: NDArray[np.float64]) -> float:
    """Half of the 95 % interval of the mean, relative to it: of the wider one. Means of batches, because neighbouring iterations are
    not independent: a learner that two actors feed in step has short and long ones in turn."""
    widths = [0.0]
    for seconds in both:
        parts = np.array_split(seconds, min(_BATCHES, len(seconds)))
        means = np.array([part.mean() for part in parts if len(part)])
        count = len(means)
        if count > 1 and means.mean() > 0:
            width = t95(count - 1) * means.std(ddof=1) / np.sqrt(count)
            widths.append(float(width / means.mean()))
    return max(widths)
