"""Causes in training language models: a long tail, weights that are slow to send, and queues that run empty or full.

A small network stands for the model; each sequence decodes for as long as its length says.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import Synchronized

import cutaway
from benchmarks.verdicts.declare import (
    WALL,
    Body,
    Pace,
    compute,
    loop,
    mp,
    planted,
    simulate,
    within,
)

LONG = [48, 4, 4, 4, 4, 3, 3, 3]
EVEN = [10, 9, 9, 9, 9, 9, 9, 9]
SAMPLES = 8  # of a batch


def decode(lengths: list[int], rounds: int = 1) -> None:
    """A round for each token: all sequences that are not finished get one."""
    with cutaway.operation("generation"):
        within("prefill", compute, 1)
        for token in range(max(lengths)):
            running = sum(length > token for length in lengths)
            cutaway.gauge("sequences", running)
            within("decode", compute, rounds)
        cutaway.gauge("sequences", 0)


@planted(
    "long-tail",
    never="generation-bound backpropagation-bound",
    says=("single sequence", "last quarter"),
    flag="--even-lengths",
)
@loop
def long_tail(applied: bool) -> Body:
    """One answer of eight is twelve times as long; after: all have about the same length."""

    def body() -> None:
        decode(EVEN if applied else LONG)
        within("reward", simulate, 1)
        within("backpropagation", compute, 6)

    return body


@planted(
    "slow-verifier",
    gives="reward-bound",
    never="generation-bound long-tail",
    says=("rewards in batches",),
    flag="--half-the-work",
)
@loop
def slow_verifier(applied: bool) -> Body:
    """A verifier in plain code takes longer than generation and update together."""

    def body() -> None:
        decode(EVEN)
        within("reward", simulate, 20 if applied else 40)
        within("backpropagation", compute, 6)

    return body


@planted(
    "slow-sync",
    gives="weight-sync",
    never="generation-bound backpropagation-bound",
    says=("update", "pause"),
    flag="--every-second",
)
@loop
def slow_sync(applied: bool) -> Body:
    """Weights are sent in five steps after every update; after: after every second one."""
    made = [0]

    def body() -> None:
        made[0] += 1
        decode(EVEN)
        within("backpropagation", compute, 6)
        if not applied or made[0] % 2 == 0:
            with cutaway.operation("sync"):
                within("sync: pause", simulate, 4)
                within("sync: start", simulate, 1)
                within("sync: update", simulate, 20)
                within("sync: finish", simulate, 1)
                within("sync: resume", simulate, 1)

    return body


def _generator(ready: Queue[int], version: Synchronized[int], rounds: int) -> None:
    while True:
        with version.get_lock():
            sampled_with = version.value
        decode(EVEN, rounds)
        ready.put(sampled_with)


def _asynchronous(
    seconds: float, rounds: int, updates: int, room: int, throw_away: int = 1 << 30
) -> Pace:
    """A process that generates, a queue with some room, and a trainer."""
    ready: Queue[int] = mp.Queue(room)
    version = multiprocessing.Value("i", 0)
    maker = mp.Process(
        target=_generator,
        args=(ready, version, rounds),
        name="generator",
        daemon=True,
    )
    maker.start()
    made, used, thrown = 0, 0, 0
    start, spent = time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        cutaway.iteration()
        cutaway.gauge("queue", SAMPLES * ready.qsize())
        sampled_with = ready.get()
        age = version.value - sampled_with
        if age > throw_away:
            thrown += SAMPLES
            cutaway.gauge("discarded", thrown)
            continue
        used += SAMPLES
        cutaway.gauge("trained", used)
        cutaway.gauge("staleness", age)
        within("backpropagation", compute, updates)
        version.value += 1
        cutaway.gauge("policy version", version.value)
        made += 1
    pace = Pace(
        made / (time.perf_counter() - start), made / (time.process_time() - spent)
    )
    maker.terminate()
    return pace


@planted(
    "trainer-starved",
    never="waiting rollout-starved stale",
    says=("waits for samples", "empty"),
    flag="--faster-rollout",
    clock=WALL,
)
def trainer_starved(applied: bool, seconds: float) -> Pace:
    """Generation takes several times as long as the update; after: half as long."""
    return _asynchronous(seconds, 2 if applied else 4, 4, room=4)


@planted(
    "rollout-starved",
    never="trainer-starved generation-bound",
    says=("wait", "trainer"),
    flag="--cheaper-update",
    clock=WALL,
)
def rollout_starved(applied: bool, seconds: float) -> Pace:
    """The update takes several times as long as generation, and the queue has room for one batch."""
    return _asynchronous(seconds, 1, 60 if applied else 120, room=1)


@planted(
    "stale",
    never="trainer-starved generation-bound",
    says=("policy versions old", "in the queue", "costs no throughput"),
    flag="--shorter-queue",
    clock=WALL,
)
def stale(applied: bool, seconds: float) -> Pace:
    """The queue has room for many batches, so each is many versions old when it is used; after: for one."""
    return _asynchronous(seconds, 1, 60, room=1 if applied else 8)
