"""python -m benchmarks.correction.instructions [ppo|sac …]: inflation and bias after correction, in instructions executed.

A seeded program runs under valgrind's callgrind; recording is switched on and off in random order, and the instructions of each block of
iterations are counted in the training thread: no clock, cache or neighbour can disturb them. Half of the pairs of blocks say what an event
costs; the other half, which the correction never sees, is the truth. Needs valgrind and a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.overhead.programs import PROGRAMS, make
from benchmarks.overhead.tools import Cutaway

WARM_UP = 3  # blocks before anything is counted: first calls build what later calls reuse
SEEDED = ("ppo", "sac")


def inside(program: str, pairs: int, requests: Any) -> None:
    """Runs under callgrind: a dump of its counts for each block, and what each was on the standard output."""
    from stable_baselines3.common.callbacks import BaseCallback

    from cutaway import _recorder

    model, block = make(program)
    tool = Cutaway()
    random.seed(1)
    plan = [on for _ in range(pairs) for on in random.sample([True, False], 2)]
    done: list[tuple[bool, int]] = []

    class Blocks(BaseCallback):
        rollouts = 0
        events = 0

        def _on_rollout_start(self) -> None:
            self.rollouts += 1
            number, rest = divmod(self.rollouts, block)
            if rest == 0 and number == WARM_UP:
                tool.on()  # both states have been there before anything is counted
                tool.off()
            if rest == 0 and number >= 2 * WARM_UP and len(done) < len(plan):
                self._next(number > 2 * WARM_UP)

        def _next(self, counted: bool) -> None:
            if counted:
                requests.dump(b"block")
                done.append((plan[len(done)], _recorder.stats()["events"] - self.events))
            else:
                requests.start()
            if len(done) < len(plan):
                (tool.on if plan[len(done)] else tool.off)()
                requests.dump(b"between")
                self.events = _recorder.stats()["events"]

        def _on_step(self) -> bool:
            return len(done) < len(plan)

    learn: Any = model.learn
    learn(10**9, callback=Blocks())
    tool.off()
    print(json.dumps(done))


def count(program: str, pairs: int) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Of each block: whether it was recorded, its events, its instructions."""
    with tempfile.TemporaryDirectory() as folder:
        shim = f"{folder}/requests.so"
        source = str(Path(__file__).with_name("callgrind.c"))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", shim], check=True)
        callgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"]
        callgrind.append(f"--callgrind-out-file={folder}/out")
        itself = [sys.executable, "-m", "benchmarks.correction.instructions", program, "--pairs", str(pairs)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [*callgrind, *itself, "--inside", shim],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        told = json.loads(done.stdout.splitlines()[-1])
        dumps = [path.read_text() for path in Path(folder).glob("out*")]
    ours = [d for d in dumps if "Trigger: Client Request: block" in d and _number(d, "thread") == 1]
    blocks = sorted((_number(d, "part"), _number(d, "totals")) for d in ours)
    assert len(blocks) == len(told), f"{len(blocks)} counts of {len(told)} blocks"
    return (
        np.array([on for on, _ in told]),
        np.array([events for _, events in told], float),
        np.array([n for _, n in blocks], float),
    )


def _number(dump: str, field: str) -> int:
    found = re.search(rf"^{field}: (\d+)", dump, re.MULTILINE)
    assert found, field
    return int(found[1])


def bias(on: NDArray[np.bool_], events: NDArray[np.float64], cost: NDArray[np.float64]) -> str:
    """Recorded ÷ unrecorded over the pairs that did not calibrate, before and after subtracting what an event costs."""
    recorded, bare, number = cost[on], cost[~on], events[on]
    calibrating = np.arange(len(bare)) % 2 == 0
    each = float(np.median(((recorded - bare) / number)[calibrating]))
    rows = np.flatnonzero(~calibrating)
    drawn = np.random.default_rng(1)
    draws = [drawn.choice(rows, len(rows)) for _ in range(1000)]

    def ratio(values: NDArray[np.float64]) -> tuple[float, float, float]:
        many = [np.sum(values[d]) / np.sum(bare[d]) for d in draws]
        low, high = np.quantile(many, [0.025, 0.975])
        return float(np.sum(values[rows]) / np.sum(bare[rows])), float(low), float(high)

    raw, left = ratio(recorded), ratio(recorded - each * number)
    return (
        f"{raw[0]:.4f} [{raw[1]:.4f}–{raw[2]:.4f}] | {left[0] - 1:+.2%} [{left[1] - 1:+.2%} … {left[2] - 1:+.2%}] | "
        f"{each:.0f} | {len(bare)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        inside(args.programs[0], args.pairs, ctypes.CDLL(args.inside))
        return
    print(
        "| | instructions ÷ unrecorded | bias after correction | instructions an event | pairs |\n|---|---|---|---|---|"
    )
    for program in args.programs or SEEDED:
        print(f"| {PROGRAMS[program][0]} | {bias(*count(program, args.pairs))} |", flush=True)


if __name__ == "__main__":
    main()
