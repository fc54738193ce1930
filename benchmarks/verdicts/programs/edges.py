"""Runs from which little can be concluded: crashed, short, without iterations. A verdict must know that."""

from __future__ import annotations

import sys
import time
from multiprocessing.connection import Connection

import cutaway
from benchmarks.verdicts.declare import (
    Pace,
    compute,
    mp,
    planted,
    simulate,
    timed,
    within,
)

SURE = (
    "python-glue native-bound simulation-bound simulation-bound-workers workers-cost straggler waiting "
    "backpropagation-bound inference-bound operation-bound balanced"
)


@planted(
    "crashed-workers",
    gives="thin-time thin-failed thin-operations",
    never=SURE,
    says=("exit code 3",),
    silent_on=("Ctrl-C",),
    exit_code=1,
)
def crashed_workers(applied: bool, seconds: float) -> Pace:
    """Both workers die after a few answers; the main process fails because nobody answers."""
    pipes = []
    for number in range(2):
        ours, theirs = mp.Pipe()
        worker = mp.Process(
            target=_dies, args=(theirs,), name=f"env-{number}", daemon=True
        )
        worker.start()
        theirs.close()
        pipes.append(ours)
    for _ in range(100):
        with cutaway.operation("simulation"):
            for pipe in pipes:
                pipe.send(1)
            for pipe in pipes:
                pipe.recv()
            cutaway.step(2)
    raise AssertionError("the workers should have died")


def _dies(pipe: Connection) -> None:
    for _ in range(5):
        pipe.recv()
        within("simulation", simulate, 1)
        pipe.send(1)
    sys.exit(3)


@planted(
    "five-steps", gives="thin-time thin-operations", never=SURE, says=("record longer",)
)
def five_steps(applied: bool, seconds: float) -> Pace:
    """Five steps of an environment are no evidence, however long each of them takes."""

    def steps() -> int:
        for _ in range(5):
            with cutaway.operation("simulation"):
                simulate(100)
                cutaway.step()
        return 5

    return timed(steps)


@planted(
    "no-iterations",
    gives="simulation-bound",
    never="thin-time thin-operations unnamed balanced backpropagation-bound",
    says=("of the run",),
    flag="--half-the-work",
)
def no_iterations(applied: bool, seconds: float) -> Pace:
    """Operations, but neither iterations nor steps: shares are of the whole run."""
    compute(1)

    def work() -> int:
        made, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            within("simulation", simulate, 10 if applied else 20)
            within("backpropagation", compute, 8)
            made += 1
        return made

    return timed(work)
