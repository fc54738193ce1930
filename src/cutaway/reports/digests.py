"""From a run to its digest: asks the analysis for tables and keeps what reports need. Nothing is printed here."""

from __future__ import annotations

import os
from dataclasses import fields, replace

from cutaway.analysis import Run, Table
from cutaway.analysis.gil import gil_holders, gil_in_calls
from cutaway.analysis.utilisation import usage
from cutaway.errors import CutawayError

from . import endings
from .digest import Cell, Digest, Ending, Pace, Process, Spent, Verdict
from .evidence import evidence
from .memory import memory_of
from .parts import code, machine, pace, processes, program, trust
from .progress import stretches
from .replayed import replayed
from .threads import working_threads
from .verdict import judge

UNJUDGED = Verdict("", "", "", "", None, "", "", "")


def digest_at(path: str | os.PathLike[str]) -> Digest:
    """The digest of a run on disk."""
    return digest_of(open_run(path))


def open_run(path: str | os.PathLike[str], raw: bool = False) -> Run:
    """Open a run that holds something to show."""
    from cutaway.analysis import open

    run = open(path)
    if not run.trace.processes:
        raise CutawayError(
            f"{path} is empty: no process recorded anything; see `cutaway doctor`."
        )
    if raw:
        run.costs = None
    return run


def digest_of(run: Run) -> Digest:
    """Everything the reports say about a run. Figures are of the steady state; start-up stands apart."""
    steady = run.steady()
    used = usage(steady)
    everyone = processes.processes(run, steady)
    main = everyone[run.main_process]
    speed = pace.pace(run, everyone, main)
    device_time = steady.device_time()
    spent = _spent(steady, main, speed, device_time)
    each_s = _seconds_of_an_iteration(speed)
    memory = memory_of(run, [process.name for process in everyone], each_s)
    state = endings.state(run)
    ending = Ending(
        state=state,
        failure=endings.failure(run, everyone, state, memory),
        stopped=endings.stopped(run, everyone),
        hangs=endings.hangs(run, everyone),
    )
    unjudged = Digest(
        program=program.program(run, used),
        ending=ending,
        pace=speed,
        processes=everyone,
        main_process=main.id,
        spent=spent,
        machine=machine.machine(steady, used, device_time),
        waits=processes.waits(steady, everyone),
        code=code.code(steady, main, speed.units),
        trust=trust.trust(run, spent.cells, everyone, ending),
        stretches=stretches(run, everyone, main),
        memory=memory,
        verdict=UNJUDGED,
        rollouts=steady.rollouts(),
    )
    judged = judge(evidence(unjudged))
    return replace(unjudged, verdict=replayed(run, unjudged, judged))


def _seconds_of_an_iteration(speed: Pace) -> float:
    """0 if the run has no iterations."""
    if speed.unit != "iteration":
        return 0.0
    return speed.steady_ns / speed.units / 1e9


def _spent(steady: Run, main: Process, speed: Pace, device_time: Table) -> Spent:
    """Where the time of the main process went."""
    table = steady.breakdown().where(process=main.id)
    columns = [field.name for field in fields(Cell)]
    cells = table.where(table["raw_ns"] > 0).select(*columns)
    launched = device_time.where(process=main.id)
    in_calls = gil_in_calls(steady)
    return Spent(
        threads=working_threads(steady, main.id, speed.steady_ns),
        cells=tuple(Cell(**row) for row in cells),
        gil_in_calls_ns=in_calls.ns,
        samples=in_calls.samples,
        gil_holders=tuple(holder._asdict() for holder in gil_holders(steady)),
        device_time=tuple(launched.group(("operation", "layer"), ["ns"])),
    )
