"""`Run`: a recorded run, asked for tables. Each method is a door to a room of this folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis import breakdown as cells
from cutaway.analysis import course, ends, energy, hotspots, kernels, launches, stacks, waits
from cutaway.analysis import iterations as marks
from cutaway.analysis.operations import operations
from cutaway.analysis.processes import losses, processes, samples, threads
from cutaway.analysis.summary import summary
from cutaway.analysis.sweep import STARTUP, STEADY, Bins, Columns, Slicing, Swept, sweep
from cutaway.analysis.table import Table
from cutaway.analysis.timeline import device_timeline, timeline
from cutaway.analysis.tokens import tokens
from cutaway.analysis.utilisation import part_edges, utilisation
from cutaway.calibration.costs import Costs
from cutaway.calibration.estimate import Calibration, calibrate_run
from cutaway.errors import CutawayError
from cutaway.trace.reader import Trace, read_run

_PARTS = {"all": None, "startup": STARTUP, "steady": STEADY}


def open(path: str | os.PathLike[str]) -> Run:
    """Opens a run for analysis.

    >>> import cutaway
    >>> run = cutaway.open(demo_run)
    """
    return Run(read_run(os.fspath(path)))


class Run:
    """A recorded or imported run. Every method returns a table of plain NumPy columns, or a dict.

    The files are swept once, when the first table is asked for. `costs` is what recording itself cost for each
    event; when it is set, `ns` is corrected and `raw_ns` is not.
    """

    def __init__(self, trace: Trace, *, part: str = "all", whole: Run | None = None) -> None:
        self.trace = trace
        self.part = part
        self.windows: Sequence[
            Bins
        ] = ()  # drawn in the same pass, if set before the first table is asked for
        self._whole = whole

    @cached_property
    def costs(self) -> Costs | None:
        """What recording itself cost for each event, as this run tells; None for a run recorded by others."""
        if self._whole:
            return self._whole.costs
        return self.calibration.costs if self.calibration else None

    @cached_property
    def calibration(self) -> Calibration | None:
        """How the cost was found; None for a run recorded by others."""
        if self._whole:
            return self._whole.calibration
        return calibrate_run(self.trace, self.swept.units)

    @cached_property
    def swept(self) -> Swept:
        """What the native pass found; the tables are made from it."""
        lanes = [course.bins(self.trace), *self.windows]
        return self._whole.swept if self._whole else sweep(self.trace, lanes=lanes)

    def steady(self) -> Run:
        """The same run without its start-up: from the second iteration on.

        What describes the run as such stays whole: processes, threads, losses, timelines, summary.

        >>> run.steady().iterations()["iteration"].tolist()
        [2, 3]
        """
        return self._only("steady")

    def startup(self) -> Run:
        """The start-up alone: imports, compilation, the first iteration.

        >>> run.startup().iterations()["iteration"].tolist()
        [1]
        """
        return self._only("startup")

    def processes(self) -> Table:
        """The processes of the run, in order of their start; `parent` is a position in this table.

        >>> run.processes().select("process", "name", "role", "parent", "exit", "lost")
        process  name      role     parent  exit  lost
              0  train.py  learner      -1  0        0
              1  worker 1  actor         0  0        0
              2  worker 2  actor         0  0        0
        """
        return self._processes

    def losses(self) -> dict[str, int]:
        """What is missing, by kind, over all processes: dropped, damaged, torn.

        >>> sum(run.losses().values())
        0
        """
        return losses(self.trace, self.swept)

    def stops(self) -> Table:
        """Processes whose recorder gave up, when and why (disk full, size limit, …); what came later is missing.

        >>> len(run.stops())
        0
        """
        return ends.stops(self.trace)

    def unfinished(self) -> Table:
        """What threads were in the middle of when their process was killed: which call, from which line, since when.

        >>> len(run.unfinished())
        0
        """
        return ends.unfinished(self.trace)

    def threads(self) -> Table:
        """The threads of all processes; those that do not carry operations are helpers.

        >>> run.threads().select("process", "thread", "name", "carries_operations", "traced_ns")
        process  thread  name        carries_operations  traced_ns
              0       0  MainThread  True                     3000
              0       1  logger      False                      50
              1       2  MainThread  True                     3000
              2       3  MainThread  True                     3000
        """
        return threads(self.trace, self.swept)

    def breakdown(
        self,
        by: str | Sequence[str] = ("process", "operation", "layer", "resource"),
        *,
        view: str = "launched",
    ) -> Table:
        """Time by any of process, thread, phase, operation, why, layer, resource and iteration.

        A process is summarised by the threads that carry operations; with `thread` in `by` all threads are
        listed. Leaving out `process` adds processes up. `view` says which device streams make a thread's device
        busy: those it launched on, or all of its process.

        >>> run.breakdown(by="operation").select("operation", "ns")
        operation          ns
                         4290
        simulation       2910
        backpropagation  1200
        inference         600
        """
        by = (by,) if isinstance(by, str) else tuple(by)
        swept, keep = self.swept, self._keep(self.swept.cells)
        if "iteration" in by:
            swept = sweep(self.trace, Slicing.ITERATION, self.swept)
            keep = marks.in_part(swept, self.part)
        return cells.breakdown(self.trace, swept, by, keep, self._iterations(), costs=self.costs, view=view)

    def iterations(self) -> Table:
        """The passes of the training loop; `recorded` is the share of each in which recording was not paused.

        >>> run.iterations()
        process  iteration  start_ns  end_ns  steps  recorded
              0          1         0    1000      2         1
              0          2      1000    2000      2         1
              0          3      2000    3000      2         1
        """
        return self._iteration_table

    def operations(self) -> Table:
        """Operations by process: how often, how long with (`total_ns`) and without what is nested (`self_ns`).

        >>> run.operations().select("process", "operation", "count", "total_ns", "self_ns")
        process  operation        count  total_ns  self_ns
              0  simulation           3      1200     1200
              0  backpropagation      3      1200     1200
              2  simulation           3      1140     1140
              0  inference            3       600      600
              1  simulation           3       570      570
        """
        kept = self._keep(self.swept.operations)
        return operations(self.trace, self.swept, kept, self._keep(self.swept.cells), self.costs)

    def transitions(self) -> Table:
        """Crossings from one layer into another by operation and call site, the most frequent first.

        >>> run.transitions().where(process=0).select("operation", "from", "to", "function", "count")
        operation        from     to               function               count
        simulation       python   wait             os.read                    6
        inference        python   backend          torch.linear               3
        inference        backend  accelerator_api  cudaLaunchKernel           3
        backpropagation  python   backend          Tensor.backward            3
        backpropagation  backend  accelerator_api  cudaLaunchKernel           3
        backpropagation  backend  accelerator_api  cudaStreamSynchronize      3
                         python   backend          torch.linear               1
        """
        keep = self._keep(self.swept.sites)
        return hotspots.transitions(self.trace, self.swept, keep, self._iterations())

    def hotspots(self) -> Table:
        """Call sites by time, calls made inside them left out; `transitions` counts their layer changes.

        >>> run.hotspots().select("operation", "layer", "function", "line", "ns", "count").head(3)
        operation   layer      function  line    ns  count
                    wait       os.read     40  4290     12
        simulation  simulator  Sim.step     3  1710      6
        simulation  wait       os.read      7  1140      6
        """
        return hotspots.hotspots(self.trace, self.swept, self._keep(self.swept.sites))

    def stacks(self) -> list[stacks.Part]:
        """Every cell divided by the Python stacks that were sampled in it; the parts of a cell add up to it.

        >>> sum(part.ns for part in run.stacks()), int(run.breakdown(by="layer")["ns"].sum())
        (9000, 9000)
        """
        columns = self.swept.cells
        keep = self._keep(columns) & cells.summary_threads(self.trace, self.swept)[columns["thread"]]
        table = cells.totals(self.swept, keep, self.costs)
        sites, found = self._keep(self.swept.sites), self._keep(self.swept.samples)
        return list(stacks.parts(self.trace, self.swept, table, sites, found))

    def lines(self, by: str = "line") -> Table:
        """Time by Python line (or `by="function"`), with the native call made there and your own line above it.

        >>> run.lines().select("operation", "layer", "native", "your_line", "ns").head(2)
        operation  layer  native   your_line    ns
                   wait   os.read         40  2430
                   wait   os.read         40  1860
        """
        return stacks.places(self.stacks(), by=by)

    def waits(self) -> Table:
        """Who waits for whom: `for_process` is the process at the other end, -1 where it is not known.

        >>> run.waits().select("process", "operation", "on", "for_process", "ns")
        process  operation   on      for_process    ns
              1              pipe:1            0  2430
              2              pipe:2            0  1860
              0  simulation  pipe:1            1   570
              0  simulation  pipe:2            2   570
        """
        return waits.waits(self.trace, self.swept, self._keep(self.swept.sites))

    def stragglers(self) -> Table:
        """Sibling workers by how long they worked; `behind` compares each with the mean of the others.

        >>> run.stragglers().select("process", "busy_ns", "behind")
        process  busy_ns  behind
              2     1140       2
              1      570     0.5
        """
        return waits.stragglers(self.trace, self.swept, self._keep(self.swept.cells))

    def kernels(self) -> Table:
        """Device work by kernel, device, stream and launching operation, with launch latency and queue depth.

        >>> run.kernels().select("operation", "name", "kind", "count", "ns", "launch_ns", "occupancy")
        operation        name           kind    count   ns  launch_ns  occupancy
        backpropagation  gemm_backward  kernel      3  600         40      0.125
        inference        gemm           kernel      3  240         10      0.125
        """
        return kernels.kernels(self.trace, self.swept, self.part)

    def launched(self) -> Table:
        """Device work by the API call that launched it, and the thread (a position in `threads()`) that made the call.

        >>> run.launched().select("thread", "operation", "api", "name", "ns")
        thread  operation        api               name            ns
             0  inference        cudaLaunchKernel  gemm           240
             0  backpropagation  cudaLaunchKernel  gemm_backward  600
        """
        return kernels.launched(self.trace, self.swept, self.part)

    def device_time(self, *, layers: bool = True) -> Table:
        """Busy time of each device by the operation that launched the work, overlaps merged in each row.

        >>> run.device_time().select("device", "operation", "layer", "ns", "count")
        device  operation        layer    ns  count
             0  backpropagation  kernel  600      3
             0  inference        kernel  240      3
        """
        return kernels.device_time(self.trace, self.swept, self.part, layers=layers)

    def launches(self) -> Table:
        """Time in which the host waited for the device, and the device for the host, by launching operation.

        >>> run.launches().select("operation", "count", "gpu_bound_ns", "cpu_launch_bound_ns")
        operation        count  gpu_bound_ns  cpu_launch_bound_ns
        backpropagation      3           600                  420
        inference            3             0                  300
        """
        return launches.launches(self.breakdown(), self.kernels())

    def energy(self) -> dict[str, Any]:
        """Joules of the GPUs by operation and of the CPUs; None where no meter could be read.

        >>> run.energy()["gpu_joules"] is None
        True
        """
        return energy.energy(self.trace, self.swept, part_edges(self.swept, self.part))

    def utilisation(self) -> dict[str, Any]:
        """How busy devices and cores were, and what nvidia-smi would have shown.

        >>> run.utilisation()["devices"]["0"]["busy_ns"]
        840
        >>> run.steady().utilisation()["devices"]["0"]["busy_ns"]
        560
        """
        return utilisation(self.trace, self.swept, self.part, self._keep(self.swept.cells))

    def samples(self) -> Table:
        """The sampled meters.

        >>> run.samples().select("process", "tid", "cpu_ns", "runqueue_ns")
        process  tid  cpu_ns  runqueue_ns
              0   10       0            0
              0   10    1500          300
        """
        return samples(self.trace, part_edges(self.swept, self.part))

    def timeline(self, bins: int = 1000) -> Table:
        """What each thread did in each of `bins` equal stretches of the run.

        >>> run.timeline(2).select("thread", "start_ns", "operation", "layer", "ns").head(3)
        thread  start_ns  operation        layer             ns
             0         0  simulation       wait             760
             0         0  backpropagation  accelerator_api  200
             0         0  backpropagation  backend          100
        """
        return timeline(self.trace, self.swept, bins)

    def over_time(self, most: int = 60) -> Table:
        """How the run went: steps, iterations and the time of each operation in at most `most` equal stretches.

        >>> run.over_time().where(process=0).select("operation", "ns", "share", "steps", "iterations").head(2)
        operation          ns  share  steps  iterations
        simulation       1200    0.4      6           3
        backpropagation  1200    0.4      6           3
        """
        return course.over_time(self.trace, self.swept, most)

    def slowest(self) -> Table:
        """Iterations of the steady state that took longer than 99 of 100, the worst ten: what each process did in them,
        beside what it usually does (`usual_ns`, the mean of all).

        >>> run.slowest().select("iteration", "operation", "layer", "ns", "usual_ns")
        iteration  operation  layer  ns  usual_ns
        """
        return course.slowest(self.trace, self.swept)

    def device_timeline(self, bins: int = 1000) -> Table:
        """How busy each device was in each of `bins` equal stretches of the run.

        >>> run.device_timeline(2)
        device  start_ns   ns
             0         0  300
             0      1500  540
        """
        return device_timeline(self.trace, self.swept, bins)

    def tokens(self) -> int:
        """How many tokens language models generated, prompts and padding not counted.

        >>> run.tokens()
        0
        """
        return tokens(self.trace, part_edges(self.swept, self.part))

    def summary(self) -> dict[str, Any]:
        """The whole run in numbers, whatever part it is asked of: host against accelerator, counts, `unattributed`
        device work.

        >>> run.summary()["span_ns"]
        2880
        """
        return summary(self.trace, self.swept)

    @cached_property
    def _iteration_table(self) -> Table:
        return marks.iterations(self.trace, self.swept, self.part)

    @cached_property
    def _processes(self) -> Table:
        return self._whole._processes if self._whole else processes(self.trace, self.swept)

    def _only(self, part: str) -> Run:
        if part not in _PARTS:
            raise CutawayError(f"There is no part {part!r} of a run; take 'startup' or 'steady'.")
        return Run(self.trace, part=part, whole=self._whole or self)

    def _keep(self, columns: Columns) -> NDArray[np.bool_]:
        part = _PARTS[self.part]
        size = len(columns["slice"])
        return np.ones(size, bool) if part is None else np.asarray(columns["slice"] == part)

    def _iterations(self) -> NDArray[np.float64]:
        return marks.recorded_iterations(self.iterations(), len(self.trace.processes))

    def __repr__(self) -> str:
        command: Any = self.trace.about.get("command", "")
        return f"<Run {self.trace.path.name}: {len(self.trace.processes)} processes, {command!r}>"
