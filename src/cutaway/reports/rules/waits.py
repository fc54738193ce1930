"""The main process waits: for workers, for another thread, for something that nobody knows."""

from __future__ import annotations

from cutaway.vocabulary import NATIVE_CODE

from .. import advice
from ..evidence import Blocked, Evidence
from ..sentences import (
    blocked_where,
    how_busy_the_gpu_is,
    inside_calls,
    waits_for_workers,
)
from ..text import percent, plural
from .rule import ENDED, Rule

NOBODY = Blocked(role="", count=0, share=0.0, busy_with="")


class Waits(Rule):
    """A wait that could end. What that saves is the wait itself, and no more."""

    given = ENDED
    at_most = True
    look = "wait"
    picture = "lanes"
    blames_waits = True


def _blocked(e: Evidence) -> Blocked:
    """Whom the main process waits for."""
    return e.blocked or NOBODY


def _waits_for(e: Evidence, operation: str) -> bool:
    """Whether 40 % is a wait for processes that are busy with an operation."""
    workers = _blocked(e)
    if workers.share < 0.4 or workers.idle:
        return False
    return workers.busy_with == operation


class WorkersCost(Waits):
    """Goes before the crowd on the cores: many idle workers crowd them at each hand-over."""

    name = "workers-cost"
    label = "WORKERS COST MORE THAN THEY DO"
    when = "20 % or more waits for workers, and what all of them simulate together takes less than half of the time of that"
    given = "if stepping takes the main process as long as it takes the workers"
    at_most = False

    def holds(self, e: Evidence) -> bool:
        workers = _blocked(e)
        if e.for_workers < 0.2 or workers.busy_with not in ("simulation", ""):
            return False
        if workers.peers or e.workers_lack_cores:
            return False
        little = 0 < workers.simulated < e.for_workers / 2
        return little and advice.one_process_gain(e) >= 0.1

    def because(self, e: Evidence) -> str:
        simulated = percent(_blocked(e).simulated)
        waits = waits_for_workers(e).removesuffix(".")
        return f"{waits}, but all of them together simulate for {simulated} of that time: the rest is the hand-over."

    def advice(self, e: Evidence) -> str:
        return advice.in_one_process(e)

    def gain(self, e: Evidence) -> float | None:
        return advice.one_process_gain(e)


class Straggler(Waits):
    name = "straggler"
    label = "STRAGGLER"
    when = "30 % or more waits for workers, and one of them computes 1.5 times the median in both halves of the run"

    def holds(self, e: Evidence) -> bool:
        workers = _blocked(e)
        return workers.share >= 0.3 and workers.slowest_ratio >= 1.5

    def because(self, e: Evidence) -> str:
        workers = _blocked(e)
        waits = waits_for_workers(e).removesuffix(".")
        times = f"{workers.slowest_ratio:.1f} times"
        return f"{waits}; {workers.slowest} computes {times} the median."

    def advice(self, e: Evidence) -> str:
        slowest = _blocked(e).slowest
        return f"even out their work: give {slowest} less, or step asynchronously"

    def gain(self, e: Evidence) -> float | None:
        return advice.ended_wait(_blocked(e).share)


class SimulationInWorkers(Waits):
    name = "simulation-bound-workers"
    label = "SIMULATION-BOUND"
    when = "40 % or more waits for processes that are busy with simulation for a third of that time or more"
    operation = "simulation"

    def holds(self, e: Evidence) -> bool:
        return _waits_for(e, "simulation")

    def because(self, e: Evidence) -> str:
        waits = waits_for_workers(e).removesuffix(".")
        return f"{waits}{how_busy_the_gpu_is(e)}."

    def advice(self, e: Evidence) -> str:
        return advice.more_workers(e)

    def gain(self, e: Evidence) -> float | None:
        if not e.idle_cores:
            return None
        return advice.ended_wait(_blocked(e).share)


class InferenceInServer(Waits):
    name = "inference-bound-server"
    label = "INFERENCE-BOUND"
    when = "40 % or more waits for processes that are busy with inference for a third of that time or more"
    operation = "inference"

    def holds(self, e: Evidence) -> bool:
        return _waits_for(e, "inference")

    def because(self, e: Evidence) -> str:
        return waits_for_workers(e)

    def advice(self, e: Evidence) -> str:
        return advice.faster_answers(e)

    def gain(self, e: Evidence) -> float | None:
        return advice.ended_wait(_blocked(e).share)


class Gil(Waits):
    name = "gil"
    label = "GIL"
    when = (
        "25 % or more waits for the interpreter lock (GIL), which another thread of the process holds; of the time with a core, "
        "where other programs took it"
    )
    picture = "waits"

    def holds(self, e: Evidence) -> bool:
        with_a_core = 1 - e.queued if e.shared else 1
        return e.gil >= 0.25 * with_a_core

    def because(self, e: Evidence) -> str:
        waits = f"{percent(e.gil)} of {e.per} waits for the GIL{inside_calls(e)}"
        if not e.gil_thread:
            return f"{waits}: another thread of the process runs Python meanwhile."
        return f"{waits}: thread {e.gil_thread} holds it, mostly at {e.gil_at}."

    def advice(self, e: Evidence) -> str:
        whose = f"what {e.gil_thread} does at {e.gil_at}"
        work = whose if e.gil_thread else "the other thread's Python work"
        return f"move {work} into a process of its own (multiprocessing)"

    def gain(self, e: Evidence) -> float | None:
        return advice.ended_wait(e.gil + e.gil_error)


class LearnerStarved(Waits):
    """Through queues of any kind, which need not be known."""

    name = "learner-starved"
    label = "LEARNER-STARVED"
    when = "half of the time is a wait outside any operation, in a process that only learns while others simulate"

    def holds(self, e: Evidence) -> bool:
        return e.sample_makers > 0 and e.cell.get(("", "wait"), 0.0) >= 0.5

    def because(self, e: Evidence) -> str:
        makers = plural(e.sample_makers, "other process")
        simulate = "simulate"
        if e.sample_makers == 1:
            simulate = "simulates"
        return f"{percent(e.cell['', 'wait'])} of {e.per} the learner waits, while {makers} {simulate}."

    def advice(self, e: Evidence) -> str:
        return advice.faster_samples(e)

    def gain(self, e: Evidence) -> float | None:
        return advice.ended_wait(e.cell["", "wait"])


class Waiting(Waits):
    name = "waiting"
    label = "WAITING"
    when = "half of the time is spent waiting"
    at_most = False

    def holds(self, e: Evidence) -> bool:
        return e.layer.get("wait", 0.0) >= 0.5

    def because(self, e: Evidence) -> str:
        if _blocked(e).share >= 0.3:
            return waits_for_workers(e)
        return blocked_where(e)

    def advice(self, e: Evidence) -> str:
        if _sleeps_in_simulation(e):
            return advice.wait_together(e)
        overlap = "overlap the wait with other work: ask for the next batch before you use this one"
        if e.busiest and e.waits_for.startswith(NATIVE_CODE):
            return f"{overlap}; or speed up what it may wait for: {e.busiest} computes most"
        return overlap

    def gain(self, e: Evidence) -> float | None:
        if _sleeps_in_simulation(e):
            return advice.wait_together_gain(e)
        return advice.overlap_gain(e)

    def assumption(self, e: Evidence) -> str:
        if _sleeps_in_simulation(e):
            return f"with {advice.AT_ONCE} at the same time"
        return "if the two overlap fully"


def _sleeps_in_simulation(e: Evidence) -> bool:
    """Whether the main process waits in its own simulator, and not for a process of the run: a device, a server, real time."""
    sleeps = e.cell.get(("simulation", "wait"), 0.0)
    return _blocked(e).share < 0.3 and sleeps > e.layer.get("wait", 0.0) / 2
