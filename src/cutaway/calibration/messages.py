"""What a message to a worker process and its answer cost on this machine: measured once, and kept.

`python -m cutaway.calibration.messages` measures and prints it: in a process of its own, which may fork.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from cutaway.calibration.prior import cache_path, machine_key
from cutaway.errors import CutawayError
from cutaway.trace.files import read_object, write_private

_ROUNDS = 3
_EACH = 200
_CHILDREN = 4
_WORKS = 2e-4  # seconds of CPU time
_ASKED = ("step", 1)
_ANSWER: Any = (
    np.zeros(64, np.float32),
    0.0,
    False,
    {"TimeLimit.truncated": False},
    {},
)
"""What vectorised environments send: a command, and an observation with what belongs to it."""
_DATA = bytes(1 << 20)
_PIECE = 1 << 17  # bytes that an environment goes through at once


class Cost(NamedTuple):
    """Seconds of CPU time of one message with its answer, and seconds until somebody who sleeps has woken."""

    send: float
    receive: float
    worker: float
    wake: float


def cost() -> Cost:
    """As measured once on this machine; a cache that cannot be written does not matter."""
    path = cache_path().with_name(f"messages-{machine_key()}.json")
    known = read_object(path).get("cost")
    if isinstance(known, list) and len(known) == 4:
        return Cost(*map(float, known))
    unrecorded = {
        name: value for name, value in os.environ.items() if name != "CUTAWAY"
    }
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            env=unrecorded,
            check=True,
        )
        made = Cost(*json.loads(done.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        raise CutawayError(
            "What a message between processes costs here could not be measured."
        ) from None
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, json.dumps({"cost": made}))
    return made


def measure() -> Cost:
    """The median of a few rounds."""
    rounds = [_round() for _ in range(_ROUNDS)]
    return Cost(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def _round() -> Cost:
    """Children that work for a while before they answer, as environments do: asked in turn, as many as make cores scarce. All of
    them go through memory in between, because a message finds cold caches in a program that computes."""
    pipes = [_child() for _ in range(_CHILDREN)]
    send = receive = 0.0
    for _ in range(_EACH):
        bytearray(_DATA)
        spent = time.thread_time()
        for pipe in pipes:
            pipe.send(_ASKED)
        send += time.thread_time() - spent
        for pipe in pipes:
            pipe.poll(None)
            spent = time.thread_time()
            pipe.recv()
            receive += time.thread_time() - spent
    worker = sum(map(_dismissed, pipes)) - len(pipes) * _EACH * _WORKS
    count = len(pipes) * _EACH
    return Cost(send / count, receive / count, max(0.0, worker) / count, _wake())


def _wake() -> float:
    """The fastest quarter of the answers of one child, where nobody stood in the way: two sleepers wake for each."""
    pipe = _child()
    waited = []
    for _ in range(_EACH):
        start = time.perf_counter()
        pipe.send(_ASKED)
        pipe.poll(None)
        waited.append(time.perf_counter() - start - _WORKS)
        pipe.recv()
    _dismissed(pipe)
    return max(0.0, statistics.quantiles(waited, n=4)[0] / 2)


def _child() -> Connection[Any, Any]:
    ours, theirs = Pipe()
    if os.fork() == 0:
        _answer(theirs)
        os._exit(0)
    return ours


def _dismissed(pipe: Connection[Any, Any]) -> float:
    """Ends a child, and returns the CPU time that it used."""
    pipe.send(None)
    used = float(pipe.recv())
    os.wait()
    return used


def _answer(pipe: Connection[Any, Any]) -> None:
    start = time.process_time()
    while pipe.recv():
        until = time.thread_time() + _WORKS
        at = 0
        while time.thread_time() < until:
            bytearray(_DATA[at : at + _PIECE])
            at = (at + _PIECE) % len(_DATA)
        pipe.send(_ANSWER)
    pipe.send(time.process_time() - start)


if __name__ == "__main__":
    print(json.dumps(measure()))
