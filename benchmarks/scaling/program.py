"""python program.py WORKERS CAUSE: workers step together; one thing keeps them from scaling.

serial: the main process works 24 ms for each step of a worker.
slowest: the last worker takes four times as long.
lock: workers pass one after the other through a lock.
sync: after each step all exchange gradients, which takes 24 ms.
none: nothing is planted.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from typing import Any

import cutaway

STEPS = 60
WORK, PLANTED = 0.012, 0.024  # long beside what it takes to wake a process


def worker(
    number: int, workers: int, cause: str, lock: Any, barrier: Any, pipe: Any
) -> None:
    while pipe.recv():
        with cutaway.operation("simulation"):
            slow = (
                4 if cause == "slowest" and number == workers - 1 and workers > 1 else 1
            )
            spin(WORK * slow)
        if cause == "lock":
            with cutaway.operation("sync"), lock:
                spin(PLANTED)
        if cause == "sync":
            with cutaway.operation("sync"):
                barrier.wait()
                time.sleep(PLANTED * (workers > 1))
        pipe.send(True)


def spin(seconds: float) -> None:
    """Works; time in which another has the core does not count."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def main(workers: int, cause: str) -> None:
    lock, barrier = multiprocessing.Lock(), multiprocessing.Barrier(workers)
    pipes = []
    for number in range(workers):
        ours, theirs = multiprocessing.Pipe()
        args = (number, workers, cause, lock, barrier, theirs)
        multiprocessing.Process(target=worker, args=args, daemon=True).start()
        pipes.append(ours)
    for _ in range(STEPS):
        cutaway.iteration()
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()
        cutaway.step(workers)
        with cutaway.operation("backpropagation"):
            spin(PLANTED * workers if cause == "serial" else 0.0005)
    for pipe in pipes:
        pipe.send(False)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
