"""What `compare --scaling` says of programs that people use. Prints a row of docs/scaling.md for each number of workers.

python -m benchmarks.scaling.real [torchrun] [sb3] [rllib] [r2d2] [--seconds 15] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cutaway.errors import CutawayError
from cutaway.reports import scaling
from cutaway.reports.digests import digest_at

HERE = Path(__file__).parent
NUMBERS = {
    "torchrun": (1, 2, 4),
    "sb3": (1, 2, 4, 8),
    "rllib": (1, 2, 4),
    "r2d2": (1, 2, 4),
}
TITLES = {
    "torchrun": "PPO CartPole, torchrun with gloo",
    "sb3": "PPO HalfCheetah, SubprocVecEnv",
    "rllib": "RLlib PPO CartPole, env runners",
    "r2d2": "R2D2 CartPole, actors",
}


def words(program: str, workers: int, seconds: float) -> list[str]:
    """What `cutaway run` runs."""
    if program == "torchrun":
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        ranks = f"--nproc_per_node={workers}"
        return [*launcher, ranks, str(HERE / "ranks.py"), str(seconds)]
    if program == "r2d2":
        trainer = ["-m", "cutaway_workloads.r2d2", "--env", "CartPole-v1", "--small"]
        return [*trainer, "--actors", str(workers), "--seconds", str(seconds)]
    return [str(HERE / "collectors.py"), program, str(workers), str(seconds)]


def recorded(folder: Path, program: str, workers: int, seconds: float) -> Path:
    """One run, unless it is there already."""
    run = folder / f"{program}-{workers}.cutaway"
    if run.exists():
        return run
    command = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(run)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *words(program, workers, seconds)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{program} × {workers} failed: {done.stderr[-500:]}")
    return run


def look(folder: Path, program: str, seconds: float) -> list[str]:
    """Rows of the table, and the sentence."""
    paths = {n: recorded(folder, program, n, seconds) for n in NUMBERS[program]}
    digests = {n: digest_at(path) for n, path in paths.items()}
    unit = "step" if all(d.pace.steps for d in digests.values()) else "iteration"
    points = [scaling.point(paths[n].name, d, unit) for n, d in digests.items()]
    runs = scaling.scaled(points)
    lines = [f"{TITLES[program]}: {scaling.sentence(runs)}", ""]
    for run in runs:
        cells = [f"{run.point.workers}", f"{run.point.rate:.1f} {unit}s/s"]
        cells += [f"{run.speedup:.2f}", f"{run.efficiency:.0%}"]
        cells += [f"{run.losses[part]:.0%}" for part in scaling.HEADS]
        lines.append(f"| {TITLES[program]} | {' | '.join(cells)} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=list(NUMBERS))
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--keep", type=Path, help="where runs are, and stay")
    args = parser.parse_args()
    heads = " | ".join(scaling.HEADS.values())
    print(f"| program | workers | pace | speed-up | used | {heads} |")
    print("|---" * (5 + len(scaling.HEADS)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for program in args.programs:
            try:
                lines = look(args.keep or Path(folder), program, args.seconds)
            except CutawayError as error:
                lines = [f"{program}: {error}"]
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
