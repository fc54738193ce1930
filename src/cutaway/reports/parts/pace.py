"""How long the stages of a run took, and what per-unit figures are divided by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis import Run, Table
from cutaway.analysis.passes import unrecorded

from ..digest import Pace, Process
from ..progress import steppers


@dataclass(frozen=True)
class _Stages:
    """The stages of the main process in nanoseconds, and the environment steps of the steady state."""

    startup_ns: int
    steady_ns: int
    steps: int


def pace(run: Run, processes: tuple[Process, ...], main: Process) -> Pace:
    """Per-unit figures are for each iteration when there are any, else for each environment step, else for the whole run."""
    own = run.steady().iterations().where(process=main.id)
    iterations = float((own["recorded"] * own["count"]).sum())
    shutdown = _shutdown(run, own, main)
    if iterations:
        found = _with_iterations(run, processes, main, own)
    else:
        found = _without_iterations(run, main, shutdown)
    # With --after, --for and --window most of the training was not recorded: that is neither start-up nor shut-down.
    before, after = unrecorded(run.swept, main.id, (main.start_ns, main.end_ns))
    return Pace(
        unit=_unit(iterations, found.steps),
        units=iterations or found.steps or 1,
        iterations=int(own["count"].sum()) if iterations else 0,
        steps=found.steps,
        tokens=run.steady().tokens(),
        startup_ns=max(0, found.startup_ns - before),
        shutdown_ns=max(0, shutdown - after),
        unrecorded_ns=before + after,
        steady_ns=found.steady_ns,
    )


def _unit(iterations: float, steps: int) -> str:
    if iterations:
        return "iteration"
    if steps:
        return "step"
    return "run"


def _shutdown(run: Run, own: Table, main: Process) -> int:
    """From the last step or update to the end."""
    if len(own):
        over = int(own["end_ns"].max())
    else:
        over = run.stages.over_ns
    if over:
        return max(0, main.end_ns - over)
    return 0


def _with_iterations(
    run: Run, processes: tuple[Process, ...], main: Process, own: Table
) -> _Stages:
    start = int(own["start_ns"].min())
    began = min(time for time in (main.start_ns, start) if time)
    return _Stages(
        startup_ns=max(0, start - began),
        steady_ns=int((own["end_ns"] - own["start_ns"]).sum()),
        steps=_steps(run, processes, main),
    )


def _steps(run: Run, processes: tuple[Process, ...], main: Process) -> int:
    """What the main process and its fellows (ranks of one role) stepped; what others did, if it steps nothing itself."""
    counted = {}
    for row in run.steady().iterations().group(["process"], ["steps"]):
        counted[row["process"]] = row["steps"]
    if not counted.get(main.id):
        return int(_made(run)[steppers(run, processes)].sum())
    return sum(n for id, n in counted.items() if processes[id].role == main.role)


def _made(run: Run) -> NDArray[np.int64]:
    """Steps of each process in the steady state."""
    return run.swept.pace.steps - run.swept.pace.steps_startup


def _without_iterations(run: Run, main: Process, shutdown: int) -> _Stages:
    start = min(max(main.start_ns, run.stages.steady_ns), main.end_ns)
    startup = start - main.start_ns
    made = _made(run)
    return _Stages(
        startup_ns=startup,
        steady_ns=main.life_ns - startup - shutdown,
        steps=int(made[main.id] or made.sum()),
    )
