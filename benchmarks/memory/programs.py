"""Programs whose use of memory is known: `python programs.py NAME SECONDS`. The line that leaks says so in a comment.

Each grows by about RATE bytes a second, in passes of the loop.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import queue
import sys
import time
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

RATE = 6_000_000
EACH = RATE // 50


def passes(seconds: float) -> Iterator[int]:
    """A loop that takes so long, with fifty passes a second."""
    import cutaway

    begin, number = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        cutaway.iteration()
        yield number
        number += 1
        time.sleep(max(0.0, begin + number / 50 - time.monotonic()))


def work() -> float:
    """What a training does besides: arrays that come and go."""
    import numpy as np

    observations = np.ones((64, 1000))
    return float((observations * 2).sum())


def objects(seconds: float) -> None:
    kept = []
    for _ in passes(seconds):
        work()
        kept.append([{"reward": float(i)} for i in range(EACH // 260)])  # LEAK objects


def arrays(seconds: float) -> None:
    import numpy as np

    kept = []
    for _ in passes(seconds):
        work()
        kept.append(np.ones(EACH // 8))  # LEAK arrays


def graph(seconds: float) -> None:
    import torch

    torch.set_num_threads(1)
    weight = torch.ones(1, EACH // 4 // 2, requires_grad=True)
    total: Any = 0.0
    for _ in passes(seconds):
        work()
        total = total + (weight * 2.0).exp().sum()  # LEAK graph


def library(seconds: float, path: str) -> None:
    leaky = ctypes.CDLL(path)
    time.sleep(1)  # what a library allocates right after it is loaded is not seen
    for _ in passes(seconds):
        work()
        leaky.leak(EACH)  # LEAK library


def _worker(seconds: float) -> None:
    import numpy as np

    kept = []
    for _ in passes(seconds):
        work()
        kept.append(np.ones(EACH // 8))  # LEAK worker


def worker(seconds: float) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_worker, args=(seconds,)
    )
    process.start()
    process.join()


def unbounded_queue(seconds: float) -> None:
    import numpy as np

    waiting: queue.Queue[Any] = queue.Queue()
    for number in passes(seconds):
        work()
        for _ in range(3):
            waiting.put(np.ones(EACH // 8 // 2))  # LEAK unbounded_queue
        if number % 2:
            waiting.get()


def _reader(shared: list[Any], seconds: float) -> None:
    """Reading objects counts references to them, which writes to their pages."""
    at = 0
    for _ in passes(seconds):
        for one in shared[at : at + len(shared) // 400]:
            one[0]
        at += len(shared) // 400


def fork_copies(seconds: float) -> None:
    shared = [[float(i)] for i in range(800_000)]
    process = multiprocessing.get_context("fork").Process(
        target=_reader, args=(shared, seconds)
    )
    process.start()
    process.join()


def fills_array(seconds: float) -> None:
    import numpy as np

    time.sleep(1)  # as programs do other things between their imports and their buffers
    _fill(np.zeros((int(seconds * 100), EACH // 8)), seconds)


def fills_at_once(seconds: float) -> None:
    """The array is older than our look at NumPy."""
    import numpy as np

    _fill(np.zeros((int(seconds * 100), EACH // 8)), seconds)


def _fill(buffer: Any, seconds: float) -> None:
    for number in passes(seconds):
        work()
        buffer[number] = 1.0


def fills_tensor(seconds: float) -> None:
    import torch

    torch.set_num_threads(1)
    buffer = torch.zeros(int(seconds * 100), EACH // 4)
    for number in passes(seconds):
        work()
        buffer[number] = 1.0


def fills_deque(seconds: float) -> None:
    """Not full at the end."""
    import numpy as np

    buffer: deque[Any] = deque(maxlen=10_000)
    for _ in passes(seconds):
        work()
        buffer.append(np.ones(EACH // 8))


class Ring:
    """A replay memory as tutorials write it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.memory: list[Any] = []
        self.position = 0

    def push(self, what: Any) -> None:
        """Store one, in the place of the oldest if it is full."""
        if len(self.memory) < self.capacity:
            self.memory.append(None)
        self.memory[self.position] = what
        self.position = (self.position + 1) % self.capacity


def fills_ring(seconds: float) -> None:
    """Not full at the end."""
    import numpy as np

    ring = Ring(5_000)
    for number in passes(seconds):
        work()
        for _ in range(4):
            ring.push(
                (np.ones(EACH // 16 // 4), number, 1.0, np.ones(EACH // 16 // 4), False)
            )


def full_deque(seconds: float) -> None:
    """Full after a third of the time."""
    import numpy as np

    buffer: deque[Any] = deque(maxlen=int(seconds * 50 / 3))
    for _ in passes(seconds):
        work()
        buffer.append(np.ones(EACH // 8))


def full_cache(seconds: float) -> None:
    """A cache with a limit, full after a third of the time."""
    import numpy as np

    @lru_cache(maxsize=int(seconds * 50 / 3))
    def cached(number: int) -> Any:
        return np.full(EACH // 8, number)

    for number in passes(seconds):
        work()
        cached(number)


def _in_pools(size: int) -> int:
    """Python's pools hand out multiples of sixteen bytes."""
    return -(-size // 16) * 16


ONE = {"reward": 1.5}
KEEPS: dict[str, float] = {
    "objects": EACH
    // 260
    * (_in_pools(sys.getsizeof(ONE)) + _in_pools(sys.getsizeof(1.5)) + 8),
    "arrays": EACH,
    "graph": EACH / 2,
    "library": EACH,
    "worker": EACH,
    "unbounded_queue": EACH * 1.25,  # six in and one out in two passes
}
"""Bytes that the line of a leak keeps in each pass of the loop."""

LEAKS = (objects, arrays, graph, library, worker, unbounded_queue)
FILLS = (
    fills_array,
    fills_at_once,
    fills_tensor,
    fills_deque,
    fills_ring,
    full_deque,
    full_cache,
)

LIBRARY = """
#include <stdlib.h>
#include <string.h>
void *volatile last;
void leak(unsigned long n) { last = memset(malloc(n), 1, n); }
"""

if __name__ == "__main__":
    globals()[sys.argv[1]](float(sys.argv[2]), *sys.argv[3:])
