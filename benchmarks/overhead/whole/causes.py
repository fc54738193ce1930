"""What of the recorder costs a threaded program: `python -m benchmarks.overhead.whole.causes [prefetch|pools] [--seconds 40]`.

Two processes of one program differ by several per cent in the CPU time of an update, recorded or not: their memory lies elsewhere. So here
each part of the recorder is switched on and off inside one process, in blocks of updates in random order. What no part explains
is such a difference, or is caused by threads of ours that merely sleep.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.overhead.statistics import ratio
from benchmarks.overhead.tools import Cutaway

PARTS: dict[str, dict[str, Any]] = {
    "hooks": {"stack_hz": 0.0, "call_sites": False},
    "hooks, call sites": {"stack_hz": 0.0},
    "hooks, call sites, stacks": {},
}
BLOCK = 20  # updates
WARM_UP = 3 * BLOCK
Block = dict[str, int]


def measure(program: str, part: str, seconds: float) -> list[Block]:
    """Pairs of blocks, one with and one without this part of the recorder."""
    from benchmarks.overhead.whole.prefetch import POOLS, PREFETCH, learner

    recorder = Cutaway(**PARTS[part])
    recorder.on()
    update = learner(**(POOLS if program == "pools" else PREFETCH)).update
    for _ in range(WARM_UP):
        update()
    blocks: list[Block] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for on in random.sample([True, False], 2):
            (recorder.on if on else recorder.off)()
            blocks.append(_block(update, on))
    return blocks


def _block(update: Any, on: bool) -> Block:
    before = _state()
    for _ in range(BLOCK):
        update()
    wall, cpu, waits, pushed = (b - a for a, b in zip(before, _state(), strict=True))
    return {"on": on, "wall_ns": wall, "cpu_ns": cpu, "waits": waits, "pushed": pushed}


def _state() -> tuple[int, int, int, int]:
    """Time, CPU time, how often threads left their core to wait, and because others took it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    clocks = time.perf_counter_ns(), time.process_time_ns()
    return *clocks, used.ru_nvcsw, used.ru_nivcsw


def row(part: str, blocks: list[Block]) -> str:
    """A row of the table."""
    cells = [part, str(ratio(blocks, "wall_ns")), str(ratio(blocks, "cpu_ns"))]
    for what in ("waits", "pushed"):
        each = [_mean(blocks, what, on) for on in (True, False)]
        cells.append(f"{each[0]:.2f} | {each[1]:.2f}")
    return f"| {' | '.join(cells)} |"


def _mean(blocks: list[Block], what: str, on: bool) -> float:
    """Of an update."""
    found = [block[what] for block in blocks if block["on"] == on]
    return sum(found) / max(1, len(found)) / BLOCK


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead.whole.causes")
    parser.add_argument(
        "program", nargs="?", default="prefetch", choices=["prefetch", "pools"]
    )
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print(json.dumps(measure(args.program, args.part, args.seconds)), flush=True)
        return
    print("| on ÷ off | time | CPU time | waits on | off | pushed on | off |")
    print("|---|---|---|---|---|---|---|")
    for part in PARTS:
        command = [sys.executable, "-m", "benchmarks.overhead.whole.causes"]
        options = [args.program, "--seconds", str(args.seconds), "--part", part]
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, check=True
        )
        print(row(part, json.loads(done.stdout.splitlines()[-1])), flush=True)


if __name__ == "__main__":
    main()
