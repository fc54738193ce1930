"""What a program with a planted cause declares, and the work that such programs share.

Work is real: zlib stands for a native simulator, torch for the backend, NumPy for native libraries.
"""

from __future__ import annotations

import multiprocessing
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

import cutaway

Body = Callable[[], None]
Loop = Callable[[bool], Body]
"""With the advice applied or not: makes what one iteration does."""


class Pace(NamedTuple):
    """What was done in a second, and in a second of CPU time of the main process."""

    rate: float
    cpu_rate: float


Whole = Callable[[bool, float], Pace]
"""With the advice applied or not, for about so many seconds: runs its own loop."""

CPU, WALL = "CPU time", "wall time"
WARM_UP = 5
DATA = bytes(i * i % 251 for i in range(240_000))
mp = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Program:
    """A program whose cause is known.

    `gives` holds the rules an expert would name (one of them is enough), `never` those that would be wrong. `says` and `silent_on`
    are words that the verdict, its reasons, warnings and advice must and must not contain. `flag` applies the advice; without
    it the advice cannot be tried. Where it removes work of one process, `clock` is the CPU time: that survives a busy
    machine. Where it moves work or ends a wait, only wall time tells.
    """

    name: str
    run: Whole
    gives: frozenset[str]
    never: frozenset[str]
    says: tuple[str, ...] = ()
    silent_on: tuple[str, ...] = ()
    flag: str = ""
    clock: str = CPU
    exit_code: int = 0
    threads: bool = False  # torch may use all cores


PROGRAMS: dict[str, Program] = {}


def planted(
    name: str,
    *,
    gives: str = "",
    never: str,
    says: tuple[str, ...] = (),
    silent_on: tuple[str, ...] = (),
    flag: str = "",
    clock: str = CPU,
    exit_code: int = 0,
    threads: bool = False,
) -> Callable[[Whole], Whole]:
    """Declares a program that runs its own loop. `gives` is the name unless it says otherwise; rules are divided by spaces."""

    def add(run: Whole) -> Whole:
        rules = frozenset((gives or name).split())
        wrong = frozenset(never.split())
        PROGRAMS[name] = Program(
            name, run, rules, wrong, says, silent_on, flag, clock, exit_code, threads
        )  # fmt: skip
        return run

    return add


def loop(make: Loop) -> Whole:
    """Runs iterations for so many seconds, after a few to warm up."""

    def run(applied: bool, seconds: float) -> Pace:
        body = make(applied)
        for _ in range(WARM_UP):
            cutaway.iteration()
            body()
        return timed(lambda: _repeat(body, seconds))

    return run


def _repeat(body: Body, seconds: float) -> int:
    made, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        cutaway.iteration()
        body()
        made += 1
    return made


def timed(work: Callable[[], int]) -> Pace:
    """The pace of work that says how much it did."""
    start, spent = time.perf_counter(), time.process_time()
    made = work()
    return Pace(
        made / (time.perf_counter() - start), made / (time.process_time() - spent)
    )


def simulate(amount: int) -> None:
    """About half a millisecond of a native simulator for each unit."""
    for _ in range(amount):
        zlib.compress(DATA, 6)


def compute(amount: int) -> None:
    """About a third of a millisecond of the backend for each unit."""
    import torch

    a = torch.ones(128, 128)
    for _ in range(amount):
        for _ in range(4):
            torch.tanh(a @ a)


def within(operation: str, work: Callable[[int], None], amount: int) -> None:
    """Work inside an operation."""
    with cutaway.operation(operation):
        work(amount)


def environments(amounts: list[int]) -> list[Connection]:
    """Workers that each simulate so much for a message."""
    pipes = []
    for number, amount in enumerate(amounts):
        ours, theirs = mp.Pipe()
        mp.Process(
            target=_environment,
            args=(theirs, amount),
            name=f"env-{number}",
            daemon=True,
        ).start()
        pipes.append(ours)
    return pipes


def _environment(pipe: Connection, amount: int) -> None:
    while pipe.recv():
        within("simulation", simulate, amount)
        pipe.send(1)
