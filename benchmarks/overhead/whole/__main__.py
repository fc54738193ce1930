"""Runs each program recorded and unrecorded in turn and prints a row of docs/evidence/overhead.md for each."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = {
    "prefetch": "replay drawn in a thread, two busy cores",
    "pools": "the same with torch's thread pool, three threads on two cores",
    "workers": "PPO CartPole, SubprocVecEnv × 4",
}
Measured = dict[str, float]


def run_once(
    program: str, seconds: float, recorded: bool, options: list[str]
) -> Measured:
    module = ["-m", f"benchmarks.overhead.whole.{program}", str(seconds)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *module]
        if recorded:
            out = str(Path(folder) / "run.cutaway")
            command = [
                sys.executable,
                "-m",
                "cutaway",
                "run",
                "-q",
                "-o",
                out,
                *options,
                *module,
            ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{program} failed: {done.stderr.strip()[-500:]}")
    measured: Measured = json.loads(lines[0])
    return measured


def compare(
    program: str, seconds: float, rounds: int, options: list[str]
) -> tuple[list[float], list[float]]:
    """How much longer an update took in each round, in time and in CPU time."""
    slower, dearer = [], []
    for _ in range(rounds):
        pair: dict[bool, Measured] = {}
        for recorded in random.sample([True, False], 2):
            pair[recorded] = run_once(program, seconds, recorded, options)
        slower.append(pair[False]["pace"] / pair[True]["pace"])
        dearer.append(pair[True]["cpu"] / pair[False]["cpu"])
    return slower, dearer


def told(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f} [{min(ratios):.3f}–{max(ratios):.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.whole", description=__doc__
    )
    parser.add_argument(
        "programs", nargs="*", default=list(PROGRAMS), metavar="PROGRAM"
    )
    parser.add_argument(
        "--rounds", type=int, default=7, help="pairs of runs (default: 7)"
    )
    parser.add_argument(
        "--seconds", type=float, default=8, help="length of a run (default: 8)"
    )
    parser.add_argument(
        "--option", action="append", default=[], help="an option for `cutaway run`"
    )
    args = parser.parse_args()
    print(
        "| program | time, recorded ÷ unrecorded | CPU time, with the recorder's threads |"
    )
    print("|---|---|---|")
    for program in args.programs:
        slower, dearer = compare(program, args.seconds, args.rounds, args.option)
        print(f"| {PROGRAMS[program]} | {told(slower)} | {told(dearer)} |", flush=True)


if __name__ == "__main__":
    main()
