"""Makes processes that record, and kills them at random moments. Run as a program by test_kill.py.

Each trial is a process with two recording threads and a forked child with one. Every thread counts what it has
recorded in memory that the killed processes share with this one: the truth to compare the trace with.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from cutaway import _recorder as recorder

STREAMS = ("parent", "thread", "child")


def count_forever(truth: memoryview, place: int) -> None:
    """The i-th event carries the value i; once it is recorded, i is the truth, stored by one instruction."""
    step = recorder.step
    for i in range(1, 1 << 40):
        step(i)
        truth[place] = i


def program(folder: str, truth: memoryview) -> None:
    recorder.start(folder, name="parent")
    if os.fork() == 0:
        recorder.set_process(name="child")
        count_forever(truth, 2)
    threading.Thread(
        target=count_forever, args=(truth, 1), name="thread", daemon=True
    ).start()
    count_forever(truth, 0)


def trial(folder: Path, chance: random.Random) -> dict[str, object]:
    truth = memoryview(mmap.mmap(-1, 4096)).cast("Q")
    alive, held = os.pipe()
    leader = os.fork()
    if leader == 0:
        os.setpgid(0, 0)
        program(str(folder), truth)
    os.close(held)
    while not all(truth[: len(STREAMS)]):
        time.sleep(0.001)
    time.sleep(chance.random() ** 2 * 0.06)
    if chance.random() < 0.5:
        os.kill(leader, signal.SIGKILL)  # the parent dies first
        time.sleep(chance.random() * 0.003)
    os.killpg(leader, signal.SIGKILL)
    os.waitpid(leader, 0)
    os.read(
        alive, 1
    )  # ends with the last process that holds the other end: until then events may come
    os.close(alive)
    return {
        "folder": str(folder),
        "pid": leader,
        "counts": dict(zip(STREAMS, truth, strict=False)),
    }


def main() -> None:
    base, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, last):
        print(
            json.dumps(trial(base / f"{number}.cutaway", random.Random(number))),
            flush=True,
        )


if __name__ == "__main__":
    main()
