"""One program with one tool, switched on and off in random order: prints the blocks it measured as JSON.

python -m benchmarks.overhead.switched ppo cutaway --seconds 60
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import asdict, dataclass

from benchmarks.overhead.programs import COARSE, PROGRAMS, learn, make
from benchmarks.overhead.tools import TOOLS, Tool

# Iterations after a switch that are not counted: caches and specialised code find their state again.
SETTLE = 1


@dataclass(frozen=True)
class Block:
    on: bool
    iterations: int
    thread_ns: int
    process_ns: int
    wall_ns: int


class Switch:
    """Called at the start of each iteration; goes through pairs of blocks, on and off in random order."""

    def __init__(self, tool: Tool, block: int, seconds: float, warm_up: float) -> None:
        self.tool, self.block = tool, block
        self.blocks: list[Block] = []
        self.iterations = -1
        self.is_on = False
        self.plan: list[bool] = []
        self.begin_at = time.monotonic() + warm_up
        self.end_at = self.begin_at + seconds
        self.before: tuple[int, int, int] | None = None

    def at_iteration(self) -> bool:
        """False when the time is up."""
        now = time.monotonic()
        if now < self.begin_at:
            return True
        self.iterations += 1
        if self.iterations == self.tool.settle > 0:
            self.before = self._clocks()
        if self.before is not None and self.iterations < self.tool.settle + self.block:
            return True
        if self.before is not None:
            spent = [b - a for a, b in zip(self.before, self._clocks(), strict=True)]
            self.blocks.append(Block(self.is_on, self.block, *spent))
            self.before = None
        if now > self.end_at and not self.plan:
            self._turn(False)
            return False
        self._next()
        return True

    def _next(self) -> None:
        if not self.plan:
            self.plan = random.sample([True, False], 2)
        self._turn(self.plan.pop())
        self.iterations = 0
        if self.tool.settle == 0:
            self.before = self._clocks()

    def _turn(self, on: bool) -> None:
        if on != self.is_on:
            (self.tool.on if on else self.tool.off)()
            self.is_on = on

    @staticmethod
    def _clocks() -> tuple[int, int, int]:
        return time.thread_time_ns(), time.process_time_ns(), time.perf_counter_ns()


def measure(program: str, tool: str, seconds: float, warm_up: float) -> list[Block]:
    model, block = make(program)
    chosen: Tool = TOOLS[tool][1]()
    many = 1 if chosen.fine else COARSE * (4 if tool == "py-spy" else 1)
    switch = Switch(chosen, block * many, seconds, warm_up)
    learn(model, switch.at_iteration)
    return switch.blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm-up", type=float, default=4)
    args = parser.parse_args()
    blocks = measure(args.program, args.tool, args.seconds, args.warm_up)
    print(json.dumps([asdict(b) for b in blocks]))


if __name__ == "__main__":
    main()
