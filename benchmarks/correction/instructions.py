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
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cutaway
from benchmarks.overhead.programs import PROGRAMS, make
from benchmarks.overhead.tools import Cutaway
from cutaway.vocabulary import Kind

WARM_UP = (
    3  # blocks before anything is counted: first calls build what later calls reuse
)
LEARNING = 128  # steps after which every program trains in each iteration
SEEDED = ("ppo", "sac")


def inside(program: str, pairs: int, requests: Any) -> None:
    """Runs under callgrind: a dump of its counts for each block; the plan and the recording's folder on the standard output."""
    from stable_baselines3.common.callbacks import BaseCallback

    model, block = make(program)
    tool = Cutaway()
    random.seed(1)
    plan = [on for _ in range(pairs) for on in random.sample([True, False], 2)]

    class Blocks(BaseCallback):
        rollouts = 0
        done = 0
        counting = False

        def _on_rollout_start(self) -> None:
            self.rollouts += 1
            number, rest = divmod(self.rollouts, block)
            if rest == 0 and number == WARM_UP:
                tool.on()  # both states have been there before anything is counted
                tool.off()
            if (
                rest == 0
                and number > WARM_UP
                and self.num_timesteps >= LEARNING
                and self.done < len(plan)
            ):
                self._next(self.counting)
                self.counting = True

        def _next(self, counted: bool) -> None:
            if counted:
                requests.dump(b"block")
                tool.off()
                self.done += 1
            else:
                requests.start()
            if self.done < len(plan):
                if plan[self.done]:
                    tool.on()
                requests.dump(b"between")

        def _on_step(self) -> bool:
            return self.done < len(plan)

    learn: Any = model.learn
    learn(10**9, callback=Blocks())
    print(json.dumps({"plan": plan, "folder": tool.folder}))


def events(folder: str) -> list[int]:
    """Calls and operations of the training thread in each stretch between resuming and pausing, without that of the warm-up."""
    process = cutaway.open(folder).trace.processes[0]
    kinds = np.concatenate(
        [r["tag"] & 0xFF for r in process.records(min(process.threads))]
    )
    counted = np.isin(kinds, (Kind.CALL, Kind.ENTER, Kind.OP_ENTER))
    ends = np.flatnonzero(kinds == Kind.PAUSE)
    starts = [
        int(np.flatnonzero(kinds[:end] == Kind.RESUME)[-1])
        if Kind.RESUME in kinds[:end]
        else 0
        for end in ends
    ]
    return [
        int(np.count_nonzero(counted[a:b])) for a, b in zip(starts, ends, strict=True)
    ][1:]


def count(
    program: str, pairs: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Whether each block was recorded, the events of the recorded ones, the instructions of each."""
    with tempfile.TemporaryDirectory() as folder:
        shim = f"{folder}/requests.so"
        source = str(Path(__file__).with_name("callgrind.c"))
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", source, "-o", shim], check=True
        )
        callgrind = [
            "valgrind",
            "-q",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--separate-threads=yes",
        ]
        callgrind.append(f"--callgrind-out-file={folder}/out")
        itself = [
            sys.executable,
            "-m",
            "benchmarks.correction.instructions",
            program,
            "--pairs",
            str(pairs),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [*callgrind, *itself, "--inside", shim],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        told = json.loads(done.stdout.splitlines()[-1])
        plan, number = told["plan"], events(told["folder"])
        shutil.rmtree(told["folder"])
        dumps = [path.read_text() for path in Path(folder).glob("out*")]
    ours = [
        d
        for d in dumps
        if "Trigger: Client Request: block" in d and _number(d, "thread") == 1
    ]
    blocks = sorted((_number(d, "part"), _number(d, "totals")) for d in ours)
    assert len(blocks) == len(plan) and len(number) == sum(plan), (
        f"{len(blocks)} blocks, {len(number)} recorded"
    )
    return (
        np.array(plan),
        np.array(number, float),
        np.array([n for _, n in blocks], float),
    )


def _number(dump: str, field: str) -> int:
    found = re.search(rf"^{field}: (\d+)", dump, re.MULTILINE)
    assert found, field
    return int(found[1])


def bias(
    on: NDArray[np.bool_], number: NDArray[np.float64], cost: NDArray[np.float64]
) -> str:
    """Recorded ÷ unrecorded over the pairs that did not calibrate, before and after subtracting what an event costs."""
    recorded, bare = cost[on], cost[~on]
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
    parser.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}"
    )
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
        print(
            f"| {PROGRAMS[program][0]} | {bias(*count(program, args.pairs))} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
