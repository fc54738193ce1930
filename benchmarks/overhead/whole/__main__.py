"""Runs each program recorded and unrecorded in turn and prints a row of docs/evidence/overhead.md for each."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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


@dataclass(frozen=True)
class Compared:
    """Each list has a ratio for each round."""

    slower: list[float]  # time of an update, recorded ÷ unrecorded
    dearer: list[float]  # its CPU time
    apart: list[float]  # time of an update in one unrecorded run ÷ that in another


def compare(program: str, seconds: float, rounds: int, options: list[str]) -> Compared:
    """Three runs a round, in random order: one recorded, two not."""
    found = Compared([], [], [])
    for _ in range(rounds):
        runs: dict[str, Measured] = {}
        for name in random.sample(["recorded", "plain", "again"], 3):
            runs[name] = run_once(program, seconds, name == "recorded", options)
        recorded, plain, again = runs["recorded"], runs["plain"], runs["again"]
        pace = (plain["pace"] + again["pace"]) / 2
        cpu = (plain["cpu"] + again["cpu"]) / 2
        found.slower.append(pace / recorded["pace"])
        found.dearer.append(recorded["cpu"] / cpu)
        found.apart.append(plain["pace"] / again["pace"])
    return found


def told(ratios: list[float]) -> str:
    """The median, with the 95 % interval of the median."""
    drawn = np.random.default_rng(1).choice(ratios, size=(4000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return f"{np.median(ratios):.3f} [{low:.3f}–{high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.whole", description=__doc__
    )
    parser.add_argument(
        "programs", nargs="*", default=list(PROGRAMS), metavar="PROGRAM"
    )
    parser.add_argument(
        "--rounds", type=int, default=12, help="rounds of three runs (default: 12)"
    )
    parser.add_argument(
        "--seconds", type=float, default=5, help="length of a run (default: 5)"
    )
    parser.add_argument(
        "--option", action="append", default=[], help="an option for `cutaway run`"
    )
    args = parser.parse_args()
    print(
        "| program | time, recorded ÷ unrecorded | CPU time, with the recorder's threads | time, unrecorded ÷ unrecorded |"
    )
    print("|---|---|---|---|")
    for program in args.programs:
        found = compare(program, args.seconds, args.rounds, args.option)
        cells = [told(found.slower), told(found.dearer), told(found.apart)]
        print(f"| {PROGRAMS[program]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
