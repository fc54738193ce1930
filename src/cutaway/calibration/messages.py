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

_ROUNDS, _EACH = 5, 200
_WORKS = 5e-4  # seconds
_ASKED = ("step", 1)
_ANSWER: Any = (
    np.zeros(64, np.float32),
    0.0,
    False,
    {"TimeLimit.truncated": False},
    {},
)
"""What vectorised environments send: a command, and an observation with what belongs to it."""


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
    """Asks a child that answers at once. What one round cost is the median of a few."""
    rounds = [_round() for _ in range(_ROUNDS)]
    return Cost(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def _round() -> Cost:
    """The child works for a while before it answers, as an environment does: so both sleep in between."""
    ours, theirs = Pipe()
    child = os.fork()
    if child == 0:
        _answer(theirs)
        os._exit(0)
    send = receive = waited = 0.0
    for _ in range(_EACH):
        start, spent = time.perf_counter(), time.thread_time()
        ours.send(_ASKED)
        send += time.thread_time() - spent
        ours.poll(None)
        waited += time.perf_counter() - start
        spent = time.thread_time()
        ours.recv()
        receive += time.thread_time() - spent
    ours.send(None)
    worker = float(ours.recv()) - _EACH * _WORKS
    os.waitpid(child, 0)
    awake = send + worker + _EACH * _WORKS
    return Cost(
        send / _EACH,
        receive / _EACH,
        max(0.0, worker) / _EACH,
        max(0.0, waited - awake) / _EACH / 2,
    )


def _answer(pipe: Connection[Any, Any]) -> None:
    start = time.process_time()
    while pipe.recv():
        until = time.perf_counter() + _WORKS
        while time.perf_counter() < until:
            pass
        pipe.send(_ANSWER)
    pipe.send(time.process_time() - start)


if __name__ == "__main__":
    print(json.dumps(measure()))
