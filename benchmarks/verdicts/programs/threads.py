"""Causes in threads: fights for the interpreter lock, native code that sleeps, idle threads beside a busy one."""

from __future__ import annotations

import ctypes
import queue
import threading
import time

import cutaway
from benchmarks.verdicts.declare import (
    WALL,
    WARM_UP,
    Body,
    Pace,
    compute,
    loop,
    mp,
    planted,
    simulate,
    timed,
    within,
)

LIBC = ctypes.CDLL(None)


@planted(
    "blocked-in-native-code",
    gives="waiting",
    never="python-glue native-bound replay-bound operation-bound",
    silent_on=("vectorise",),
    flag="--overlap",
    clock=WALL,
)
@loop
def blocked(applied: bool) -> Body:
    """Sleeps in a C function nobody knows, like the receive call of a message queue; after: while the update computes."""
    asked: queue.Queue[int] = queue.Queue()
    came: queue.Queue[int] = queue.Queue()

    def receive() -> None:
        while True:
            asked.get()
            LIBC.usleep(12_000)
            came.put(1)

    if applied:
        threading.Thread(target=receive, daemon=True).start()
        asked.put(1)

    def body() -> None:
        with cutaway.operation("replay"):
            if applied:
                asked.put(1)
                came.get()
            else:
                LIBC.usleep(12_000)
        within("backpropagation", compute, 16)

    return body


@planted(
    "gil-fight",
    gives="gil",
    never="python-glue waiting operation-bound",
    says=("process of its own",),
    flag="--process",
    clock=WALL,
)
@loop
def gil_fight(applied: bool) -> Body:
    """A thread packs batches in Python beside the loop, which runs Python too; after: the thread is a process."""
    start = mp.Process if applied else threading.Thread
    start(target=_pack_for_ever, daemon=True).start()

    def body() -> None:
        with cutaway.operation("simulation"):
            sum(i * i for i in range(200_000))

    return body


def _pack_for_ever() -> None:
    while True:
        with cutaway.operation("replay"):
            sum(i % 7 for i in range(200_000))


@planted(
    "learner-beside-batcher",
    gives="backpropagation-bound",
    never="waiting unnamed thin-operations gil balanced",
    silent_on=("has no name",),
)
def learner_beside_batcher(applied: bool, seconds: float) -> Pace:
    """The learner is a thread that computes; the thread that hands it batches is idle nearly always."""
    batches: queue.Queue[int] = queue.Queue(maxsize=1)
    made: list[int] = []

    def batcher() -> None:
        while True:
            within("replay", simulate, 1)
            batches.put(1)

    def learner() -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            cutaway.iteration()
            batches.get()
            within("backpropagation", compute, 30)
            made.append(1)

    def both() -> int:
        threading.Thread(target=batcher, name="batcher", daemon=True).start()
        thread = threading.Thread(target=learner, name="learner")
        thread.start()
        thread.join()
        return len(made)

    compute(WARM_UP)
    return timed(both)
