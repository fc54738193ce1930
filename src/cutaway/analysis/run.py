"""`Run`: a recorded run, asked for tables. Each table is made by the function of the same name in another file of this folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cutaway.analysis.breakdown import breakdown, operations
from cutaway.analysis.counters import counters
from cutaway.analysis.device_memory import (
    device_memory,
    device_pools,
    device_refused,
)
from cutaway.analysis.device_totals import device_totals
from cutaway.analysis.energy import energy
from cutaway.analysis.generated import generated
from cutaway.analysis.growing import growing
from cutaway.analysis.kernels import device_time, kernels, launch_waits, launched_work
from cutaway.analysis.measure import measure
from cutaway.analysis.memory import memory, resident
from cutaway.analysis.passes import iteration_table
from cutaway.analysis.processes import (
    FOREVER,
    life,
    losses,
    process_table,
    samples,
    stops,
    stragglers,
    threads,
    tokens,
    unfinished,
)
from cutaway.analysis.progress import (
    bins,
    device_timeline,
    over_time,
    slowest,
    timeline,
)
from cutaway.analysis.renamed import METHODS, renamed
from cutaway.analysis.rollouts import gauges, rollouts
from cutaway.analysis.sites import callsites, sites, transitions, waits
from cutaway.analysis.stacks import lines, stacks
from cutaway.analysis.stages import Stages, find_stages
from cutaway.analysis.sweep import Bins, Columns, Swept, select, sweep
from cutaway.analysis.table import Table
from cutaway.analysis.utilisation import summary, utilisation
from cutaway.calibration.costs import Costs
from cutaway.calibration.estimate import Calibration, calibrate, units
from cutaway.calibration.prior import of_run
from cutaway.errors import CutawayError
from cutaway.trace.reader import Trace, read_run

PARTS = ("startup", "steady", "shutdown")
"""In the order of their numbers in the sweep."""


def open(path: str | os.PathLike[str]) -> Run:
    """Opens a run for analysis.

    >>> import cutaway
    >>> run = cutaway.open(demo_run)
    """
    return Run(read_run(os.fspath(path)))


class Run:
    """A recorded or imported run. Every method returns a table of plain NumPy columns, or a dict.

    The first table you ask for sweeps the files once. `costs` is what recording each event cost; if it is set, `ns` is
    corrected and `raw_ns` is not.
    """

    def __init__(
        self, trace: Trace, *, part: str = "all", whole: Run | None = None
    ) -> None:
        self.trace = trace
        self.part = part
        self.whole = whole or self
        self.windows: Sequence[
            Bins
        ] = ()  # drawn in the same pass, if set before the first table

    @cached_property
    def costs(self) -> Costs | None:
        """What recording each event cost, measured on this run; None for an imported run."""
        if self.whole is not self:
            return self.whole.costs
        if self.calibration:
            return self.calibration.costs
        return None

    @cached_property
    def calibration(self) -> Calibration | None:
        """How the cost was measured; None for an imported run."""
        if self.whole is not self:
            return self.whole.calibration
        recorded = "cutaway" in self.trace.about
        if recorded:
            return calibrate(units(self.swept.units), of_run(self.trace.path))
        return None

    @cached_property
    def stages(self) -> Stages:
        """Where start-up and steady state end."""
        if self.whole is not self:
            return self.whole.stages
        return find_stages(self.trace)

    @cached_property
    def swept(self) -> Swept:
        """What the native pass found; the tables are made from it."""
        if self.whole is not self:
            return self.whole.swept
        return sweep(
            self.trace, lanes=[bins(self.trace), *self.windows], stages=self.stages
        )

    @cached_property
    def main_process(self) -> int:
        """The process the figures are about, as a position: the learner, else the process that counts most iterations, else
        the busiest."""
        if self.whole is not self:
            return self.whole.main_process
        table = self.processes()
        steady = self.steady()
        if not len(table):
            raise CutawayError(
                f"{self.trace.path} is empty: no process recorded anything; see `cutaway doctor`."
            )
        passes = steady.iterations().group(["process"], ["count"])
        counted = Counter(
            dict(zip(passes["process"].tolist(), passes["count"].tolist(), strict=True))
        )
        named: Counter[int] = (
            Counter()
        )  # waiting is no part of what a process is busy with
        for row in steady.breakdown(by=("process", "operation", "layer")):
            named[row["process"]] += (
                row["ns"] if row["operation"] and row["layer"] != "wait" else 0
            )

        def rank(process: int) -> tuple[bool, int, int, int]:
            learns = table["role"][process] == "learner"
            return learns, counted[process], named[process], table["cpu_ns"][process]

        return max(range(len(table)), key=rank)

    @property
    def edges(self) -> tuple[int, int]:
        """Between which instants things belong to this part: start-up ends when that of the first process with
        iterations does, the steady state with the last step or update."""
        if self.part == "all":
            return 0, FOREVER
        edges = (0, self.stages.steady_ns, self.stages.over_ns or FOREVER, FOREVER)
        return edges[PARTS.index(self.part)], edges[PARTS.index(self.part) + 1]

    @property
    def full_since(self) -> int:
        """Since when single events are here. Of what came before there are totals only (`--keep`)."""
        return max(
            (process.past.until_ns for process in self.trace.processes if process.past),
            default=0,
        )

    @cached_property
    def span(self) -> tuple[int, int]:
        """From the first start to the last end of all processes, whatever the part."""
        lives = [life(self.swept, index) for index in range(len(self.trace.processes))]
        return min((a for a, _ in lives), default=0), max(
            (b for _, b in lives), default=0
        )

    def rows(self, columns: Columns) -> Columns:
        """The rows of a table of the sweep that belong to this part.

        >>> np.unique(run.steady().rows(run.swept.cells)["slice"]).tolist()
        [1]
        """
        if self.part == "all":
            return columns
        return select(columns, columns["slice"] == PARTS.index(self.part))

    def steady(self) -> Run:
        """The same run without start-up and shut-down: from the second iteration to the last step or update.

        `processes`, `threads`, `losses`, the timelines and `summary` still describe the whole run.

        >>> run.steady().iterations()["iteration"].tolist()
        [2, 3]
        """
        return self.whole._steady

    @cached_property
    def _steady(self) -> Run:
        return Run(self.trace, part="steady", whole=self)

    def startup(self) -> Run:
        """The start-up alone: imports, compilation, the first iteration.

        >>> run.startup().iterations()["iteration"].tolist()
        [1]
        """
        return Run(self.trace, part="startup", whole=self.whole)

    def shutdown(self) -> Run:
        """What comes after the last step or update: joined threads, a last evaluation or save, the end of the interpreter.

        >>> len(run.shutdown().breakdown())
        0
        """
        return Run(self.trace, part="shutdown", whole=self.whole)

    def processes(self) -> Table:
        """The processes of the run, in order of their start; `parent` is a position in this table.

        >>> run.processes().select("process", "name", "role", "parent", "exit", "lost")
        process  name      role     parent  exit  lost
              0  train.py  learner      -1  0        0
              1  worker 1  actor         0  0        0
              2  worker 2  actor         0  0        0
        """
        return self.whole._processes

    def iterations(self) -> Table:
        """The passes of the training loop. `recorded` is the share of each that was recorded. In a very long run that was
        recorded with `--keep`, an old row stands for `count` passes that follow each other.

        >>> run.iterations()
        process  iteration  count  start_ns  end_ns  steps  recorded
              0          1      1         0    1000      2         1
              0          2      1      1000    2000      2         1
              0          3      1      2000    3000      2         1
        """
        return self._iterations

    _processes = cached_property(process_table)
    _iterations = cached_property(iteration_table)
    _sites = cached_property(sites)
    by_iteration = cached_property(measure)
    threads = threads
    samples = samples
    losses = losses
    stops = stops
    unfinished = unfinished
    tokens = tokens
    gauges = gauges
    rollouts = rollouts
    generated = generated
    breakdown = breakdown
    operations = operations
    transitions = transitions
    callsites = callsites
    stacks = stacks
    lines = lines
    waits = waits
    stragglers = stragglers
    kernels = kernels
    launched_work = launched_work
    launch_waits = launch_waits
    counters = counters
    device_time = device_time
    timeline = timeline
    over_time = over_time
    slowest = slowest
    device_timeline = device_timeline
    energy = energy
    resident = resident
    memory = memory
    growing = growing
    device_memory = device_memory
    device_pools = device_pools
    device_refused = device_refused
    device_totals = device_totals
    utilisation = utilisation
    summary = summary

    if not TYPE_CHECKING:  # a checker should find what does not exist

        def __getattr__(self, name: str) -> Any:
            if name in METHODS:
                return getattr(self, renamed(METHODS, name, "Run."))
            raise AttributeError(f"a run has no table {name!r}")

    def __repr__(self) -> str:
        command = self.trace.about.get("command", "")
        return f"<Run {self.trace.path.name}: {len(self.trace.processes)} processes, {command!r}>"
