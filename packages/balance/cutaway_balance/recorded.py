"""Any recorded program as a predictor: the run that is nearest to what is asked is replayed, with the change (`cutaway what-if`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from cutaway.analysis.run import Run
from cutaway.analysis.run import open as open_run
from cutaway.analysis.whatif.changes import Change, Cores, Elsewhere, Faster
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.analysis.whatif.rounds import stem
from cutaway.analysis.whatif.structure import (
    Actors,
    Structure,
    crew_of,
    process_names,
    stepped_here,
)
from cutaway.errors import CutawayError
from cutaway.machines.machine import Machine
from cutaway.trace.reader import Trace
from cutaway_balance.model import Bound, Prediction
from cutaway_balance.observe import progress, read, steady


class Recorded:
    """One recorded run: `actors` is what the user varied when it was made, `steps_per_s` what was measured."""

    def __init__(
        self, path: Path, actors: int | None = None, steps_per_s: float | None = None
    ) -> None:
        self.path = path
        self._actors = actors
        self._steps_per_s = steps_per_s

    @cached_property
    def run(self) -> Run:
        return open_run(self.path)

    @property
    def trace(self) -> Trace:
        return self.run.trace

    @cached_property
    def actors(self) -> int:
        """As it was measured, or the processes that simulate, or else the environments of the main process."""
        if self._actors is not None:
            return self._actors
        crew = crew_of(self.run, self.known.graph)
        if crew:
            return len(crew.processes)
        return stepped_here(self.run, self.known.graph)[0]

    @cached_property
    def steps_per_s(self) -> float:
        """As it was measured, or of the steady part of the run."""
        if self._steps_per_s is not None:
            return self._steps_per_s
        times, amounts, _ = progress(read(self.trace), self.path)
        return steady(times, amounts).rate

    @cached_property
    def known(self) -> WhatIf:
        """The run, replayed as it was."""
        return WhatIf(self.run)

    def changes(self, actors: int, machine: Machine | None) -> list[Change]:
        """A program without actor processes steps so many environments in its main process."""
        found: list[Change] = [] if machine is None else [Elsewhere(machine)]
        if actors == self.actors:
            return found
        if crew_of(self.run, self.known.graph) is None:
            return [Structure(envs=actors), *found]
        return [Actors(actors), *found]

    def predict(
        self, actors: int, machine: Machine | None, more: Sequence[Change] = ()
    ) -> Prediction:
        """Steps a second with so many actors, on another machine if there is one, after further changes."""
        changes = [*self.changes(actors, machine), *more]
        found = self.known.predict(changes, f"{actors} actors")
        rate = self.steps_per_s * found.speedup
        return Prediction(
            actors,
            rate,
            rate * found.after / found.high,
            rate * found.after / max(found.low, 1e-12),
            self.known.loads(changes).cpu,
            notes=found.assumes,
        )


class Replays:
    """Several runs, each asked about what is nearest to it."""

    def __init__(self, runs: Sequence[Recorded]) -> None:
        self.runs = runs

    def checked(self) -> Replays:
        """Says now if nothing can be predicted."""
        largest = max(self.runs, key=lambda one: one.actors)
        largest.predict(2 * largest.actors, None)
        return self

    @property
    def measured_at(self) -> tuple[int, ...]:
        return tuple(sorted({one.actors for one in self.runs}))

    def without(self, actors: int) -> Replays:
        """The others, to hold one number out."""
        return Replays([one for one in self.runs if one.actors != actors])

    def meant(self, machine: Machine) -> Machine | None:
        """The machine of a recording is in it, but for the number of CPUs."""
        recorded = self.runs[0].known.graph.cores
        if machine.threads == recorded:
            return None
        return machine

    def nearest(self, actors: int) -> Recorded:
        """The run whose number of actors is nearest, as a ratio."""
        return min(self.runs, key=lambda one: abs(math.log(one.actors / actors)))

    def predict(
        self, actors: int, machine: Machine | None = None, sure: bool = True
    ) -> Prediction:
        return self.nearest(actors).predict(actors, machine)

    def bounds(self, actors: int, machine: Machine | None = None) -> list[Bound]:
        """How fast each resource alone would let it go: the CPU threads, and the busiest thread of each kind of process."""
        one = self.nearest(actors)
        rate = one.predict(actors, machine).steps_per_s
        loads = one.known.loads(one.changes(actors, machine))
        busy = f"{loads.cpu:.1f} of {loads.threads} CPU threads are busy"
        shares = {"cpu": (loads.cpu / loads.threads, busy)}
        names = process_names(one.run)
        for process, share in loads.busiest.items():
            if process < len(names):
                known = stem(names[process])
            else:
                known = ""
            name = known or "main"
            if share > shares.get(name, (0.0, ""))[0]:
                busy = f"its busiest thread works {share:.0%} of the time"
                shares[name] = share, busy
        found = [
            Bound(name, rate / share, because)
            for name, (share, because) in shares.items()
            if share > 0
        ]
        return sorted(found, key=lambda bound: bound.steps_per_s)

    def gains(self, actors: int, machine: Machine | None = None) -> dict[str, float]:
        """Small changes and what they gain, in per cent of throughput, best first; without those that cannot be predicted."""
        one = self.nearest(actors)
        base = one.predict(actors, machine).steps_per_s
        found: dict[str, float] = {}
        for what, (count, at, more) in self._small(one, actors, machine).items():
            try:
                rate = one.predict(count, at, more).steps_per_s
            except CutawayError:
                continue
            found[what] = 100 * (rate / base - 1)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @staticmethod
    def _small(
        one: Recorded, actors: int, machine: Machine | None
    ) -> dict[str, tuple[int, Machine | None, list[Change]]]:
        graph = one.known.graph
        cores: list[Change] = [] if machine else [Cores(graph.cores + 1)]
        found = {
            "one more CPU thread": (actors, machine and machine.wider(), cores),
            "one more actor": (actors + 1, machine, list[Change]()),
        }
        for operation in sorted({key.operation for key in graph.keys} - {""}):
            faster: list[Change] = [Faster(operation, 1.1)]
            found[f"{operation} 10 % faster"] = actors, machine, faster
        return found

    def wanted_threads(
        self, actors: int, machine: Machine | None = None
    ) -> float | None:
        """Runs with an accelerator are not replayed yet."""
        return None

    def rests_on(self) -> list[str]:
        """What is behind it."""
        at = ", ".join(map(str, self.measured_at))
        lines = [f"replayed from runs with {at} actors"]
        for one in self.runs:
            name = f"  {one.actors} actors: as recorded {one.known.error:+.1%}"
            lines.append(name)
        return lines
