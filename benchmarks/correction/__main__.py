"""python -m benchmarks.correction [WORKLOAD …] [--quick] [--heavy]: raw inflation and bias after correction on real training programs.

Each program runs once, with every second unit of work left unrecorded at random (hooks really taken out): recorded and unrecorded
units alternate inside one process, thousands of pairs, so that a noisy machine does not matter. Half of the unrecorded units
calibrate; the other half, which the correction never sees, is the truth. CPU time of the thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import cutaway
from benchmarks.correction.bias import Bias, bias
from benchmarks.correction.figure import drawn
from benchmarks.correction.train import WORKLOADS
from cutaway.calibration.estimate import units
from cutaway.calibration.prior import of_run
from cutaway.drawing.files import write as write_figure

QUICK = ("PPO Walker2d", "SAC Walker2d", "DQN Pong", "PPO CartPole")
RL_SCOPE = {
    "PPO Walker2d": (1.8, -0.168),
    "A2C Walker2d": (1.7, -0.155),
    "SAC Walker2d": (1.86, 0.109),
    "DDPG Walker2d": (1.41, 0.107),
    "PPO Hopper": (1.93, -0.109),
    "PPO Ant": (2.01, -0.119),
    "PPO HalfCheetah": (1.94, 0.037),
}


def measure(workload: str, heavy: bool, steps: int | None) -> Bias:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if heavy:
        environment["CUTAWAY_DEBUG_SPIN_NS"] = "2000"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run.cutaway"
        program = [
            "-m",
            "benchmarks.correction.train",
            workload,
            *([str(steps)] if steps else []),
        ]
        command = [
            sys.executable,
            "-m",
            "cutaway",
            "run",
            "-q",
            "--calibrate-share",
            "0.5",
            "-o",
            str(run),
            *program,
        ]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return bias(units(cutaway.open(run).swept.units), of_run(run))


def line(workload: str, b: Bias) -> str:
    theirs = RL_SCOPE.get(workload)
    said = f"{theirs[0]:.2f}, {theirs[1]:+.1%}" if theirs else "–"
    raw, left = b.raw, [v - 1 for v in b.corrected]
    return (
        f"| {workload} | {raw[0]:.3f} [{raw[1]:.3f}–{raw[2]:.3f}] | {left[0]:+.2%} [{left[1]:+.2%} … {left[2]:+.2%}] | "
        f"± {b.claimed:.2%} | {'yes' if b.inside else 'no'} | {b.units} | {said} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"default: all of {', '.join(WORKLOADS)}",
    )
    parser.add_argument(
        "--heavy",
        action="store_true",
        help="every hook spins 2 µs: shows that the method works",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"only {', '.join(QUICK)}: about six minutes, two with --heavy",
    )
    parser.add_argument(
        "--steps",
        type=int,
        help="environment steps instead of the workload's own number",
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE.svg", help="draws the result"
    )
    args = parser.parse_args()
    print(
        "| workload | recorded ÷ unrecorded | bias after correction | claimed | inside | units | RL-Scope: raw, bias |"
    )
    print("|---|---|---|---|---|---|---|")
    found = {}
    for workload in args.workloads or (QUICK if args.quick else WORKLOADS):
        # A heavy recorder is seen sooner.
        steps = args.steps or WORKLOADS[workload][2] // (3 if args.heavy else 1)
        found[workload] = measure(workload, args.heavy, steps)
        print(line(workload, found[workload]), flush=True)
    if args.figure:
        said = ", every event made 2 µs heavier" if args.heavy else ""
        write_figure(args.figure, drawn(f"CPU time ÷ unrecorded{said}", found))


if __name__ == "__main__":
    main()
