"""A language model generates: is the engine held up by its last sequences, who starves whom, what do weights and old samples cost?"""

from __future__ import annotations

from cutaway.analysis.rollouts import Rollouts

from .. import advice
from ..evidence import Evidence
from ..text import percent
from .rule import Rule

STARVED = 0.3
IDLE = 0.5
SENDS = 0.2
TRAINS = ("reference", "inference", "backpropagation")
TEACHES = (
    "that makes no iteration shorter, but each sample teaches more; compare the reward after as many samples"
)  # fmt: skip


class About(Rule):
    """Of how samples are made and used; the framework's own setting is the advice, where it has one."""

    look = "operation"
    picture = "tail"
    setting = ""
    otherwise = ""

    def advice(self, e: Evidence) -> str:
        return advice.setting(e, self.setting) or self.otherwise


class LongTail(About):
    name = "long-tail"
    label = "LONG TAIL"
    look = "rollout"
    when = "30 % or more of decoding, and 15 % of the time, has a quarter of the largest batch or less left"
    given = "if nothing waited for the last sequences"
    at_most = True
    operation = "generation"
    setting = "tail"
    otherwise = "cap the length of answers, or begin the next batch while the last sequences of this one finish"

    def holds(self, e: Evidence) -> bool:
        made = e.operation.get("generation", 0.0) + e.sample_wait
        return made >= STARVED and e.rollouts.tail_share >= 0.3 and e.tail >= 0.15

    def because(self, e: Evidence) -> str:
        found = e.rollouts
        alone = percent(found.alone_ns / (found.decoding_ns or 1))
        tail = f"{percent(found.tail_share)} of decoding is for the last quarter of a batch or less"
        return f"{tail} ({alone} for a single sequence): {found.mean:.1f} of {found.peak:.0f} sequences on average."

    def gain(self, e: Evidence) -> float | None:
        return advice.ended_wait(e.tail)


class WeightSync(About):
    name = "weight-sync"
    label = "SYNC-BOUND"
    when = "a language model generates, and 20 % or more brings weights to its engine"
    picture = "bars"
    operation = "sync"
    setting = "cheaper_sync"
    otherwise = (
        "send weights less often, in one flat buffer, or while the engine decodes on"
    )

    def holds(self, e: Evidence) -> bool:
        generates = e.rollouts.engines or e.operation.get("generation", 0.0) >= 0.05
        return e.operation.get("sync", 0.0) >= SENDS and bool(generates)

    def because(self, e: Evidence) -> str:
        steps = sorted(e.sync_steps.items(), key=lambda step: -step[1])
        named = [f"{name} {percent(share)}" for name, share in steps if name]
        inside = f" ({', '.join(named)})" if named else ""
        return f"{percent(e.operation['sync'])} of {e.per} brings weights to the engine{inside}."

    def gain(self, e: Evidence) -> float | None:
        return e.operation["sync"] / 2


class TrainerStarved(About):
    name = "trainer-starved"
    label = "TRAINER-STARVED"
    when = "a process that trains waits 30 % or more for samples that others make, and its queue is empty 30 % of the time, if it has one"
    given = "if samples came twice as fast"
    look = "wait"
    blames_waits = True
    setting = "more_rollout"
    otherwise = (
        "give generation and rewards more GPUs or processes, or sample the next batch while this one is trained on"
    )  # fmt: skip

    def holds(self, e: Evidence) -> bool:
        empty = e.rollouts.queue_empty
        return e.sample_wait >= STARVED and (empty is None or empty >= STARVED)

    def because(self, e: Evidence) -> str:
        waits = f"{percent(e.sample_wait)} of {e.per} the trainer waits for samples"
        empty = e.rollouts.queue_empty
        if empty is None:
            return f"{waits}."
        return f"{waits}; its queue is empty {percent(empty)} of the time."

    def gain(self, e: Evidence) -> float | None:
        return min(e.sample_wait, (1 - e.generators_idle) / 2)


class Stale(About):
    name = "stale"
    label = "STALE"
    look = "rollout"
    when = "samples are 2 policy versions old on average, or 10 % of them are thrown away as too old"
    setting = "fresher"
    otherwise = "sample less far ahead: a shorter queue, fewer requests at once, or more of the machine for training"

    def advice(self, e: Evidence) -> str:
        return f"{super().advice(e)}; {TEACHES}"

    def holds(self, e: Evidence) -> bool:
        old = (e.rollouts.staleness or 0.0) >= 2
        return old or e.rollouts.discarded_share >= 0.1

    def because(self, e: Evidence) -> str:
        found = e.rollouts
        said = []
        if found.staleness is not None:
            age = f"{found.staleness:.1f} policy versions old"
            said.append(f"the trainer uses samples that are {age} (at most {found.staleness_most or 0:.0f}{_queued(found)})")  # fmt: skip
        if found.discarded:
            lost = f"{percent(found.discarded_share)} of the samples are thrown away as too old"
            said.append(f"{lost}: as much of generation was for nothing")
        return f"{', and '.join(said)}.{_for_free(e)}"


def _queued(found: Rollouts) -> str:
    """Which part of their age samples spend in the queue."""
    if not found.queue or not found.trained or not found.updates:
        return ""
    return f"; {found.queue * found.updates / found.trained:.1f} of them in the queue"


def _for_free(e: Evidence) -> str:
    """Whether fresher samples would cost throughput."""
    if e.generators_idle < IDLE:
        return ""
    return f" The processes that generate wait {percent(e.generators_idle)} of their time, so sampling less far ahead costs no throughput."


class RolloutStarved(About):
    name = "rollout-starved"
    label = "ROLLOUT-STARVED"
    when = "processes that generate wait half of their time or more, and the trainer waits less than 30 % for them"
    given = "if reference and update took half the time"
    look = "process"
    blames_waits = True
    setting = "idle_rollout"
    otherwise = "move GPUs or cores from generation to training, or let more samples be asked for ahead"

    def holds(self, e: Evidence) -> bool:
        return e.generators_idle >= IDLE and e.sample_wait < STARVED

    def because(self, e: Evidence) -> str:
        idle = (
            f"the processes that generate wait {percent(e.generators_idle)} of their time"
        )  # fmt: skip
        return f"{idle}; the trainer waits {percent(e.sample_wait)} of {e.per} for samples."

    def gain(self, e: Evidence) -> float | None:
        trains = sum(e.operation.get(name, 0.0) for name in TRAINS)
        return min(trains / 2, e.generators_idle)
