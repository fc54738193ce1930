"""How often does `cutaway diff` find a change where there is none?

    python -m benchmarks.alarms [PROGRAM …] [--pairs 2] [--seconds 2] [--beside none,both,second]

Records the programs of `benchmarks.verdicts` twice, unchanged, and compares one run with the other. Every change beyond chance is a
false alarm; 5 % are allowed. `--beside` says when other processes compute on every core: never, during both runs, or during the second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cutaway
from cutaway.analysis.diff import Diff
from cutaway.analysis.diff import diff as compare

PROGRAMS = (
    *(
        "python-glue",
        "native-bound",
        "inference-bound",
        "backpropagation-bound",
        "sync-bound",
        "waiting",
    ),
    *("simulation-bound-workers", "inference-bound-server"),
)
BESIDE = {"none": (False, False), "both": (True, True), "second": (False, True)}
ALLOWED = 0.05


@contextmanager
def load(wanted: bool) -> Iterator[None]:
    """A process for each core that computes without end."""
    spin = [sys.executable, "-c", "while True: sum(range(100_000))"]
    others = (
        [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)] if wanted else []
    )
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def record(path: Path, program: str, seconds: float, busy: bool) -> Path:
    command = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(path)]
    command += ["--simulator", "zlib"]
    body = ["-m", "benchmarks.verdicts.programs", program, str(seconds)]
    with load(busy):
        subprocess.run([*command, *body], check=True, capture_output=True)
    return path


def pair(folder: Path, program: str, seconds: float, beside: str) -> Diff:
    """Two runs of one program, compared."""
    names = zip("ab", BESIDE[beside], strict=True)
    runs = [
        [cutaway.open(record(folder / name, program, seconds, busy))]
        for name, busy in names
    ]
    return compare(*runs)


def described(program: str, beside: str, diff: Diff) -> str:
    said = diff.judged
    what = "CPU" if diff.judged is diff.cpu else "wall"
    queued = " ".join(f"{share:.0%}" for share in diff.queued)
    alarm = "  FALSE ALARM" if said.certain else ""
    return (
        f"{program:26} {beside:7} {what:5} {said.value:+7.1%}  {said.low:+7.1%} to {said.high:+7.1%}"
        f"  floor {diff.floor:.0%}  queued {queued}{alarm}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.alarms")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", default=PROGRAMS)
    parser.add_argument(
        "--pairs", type=int, default=2, help="of each program and load (default: 2)"
    )
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument(
        "--beside",
        default=",".join(BESIDE),
        help=f"of {', '.join(BESIDE)} (default: all)",
    )
    args = parser.parse_args()
    alarms = made = 0
    for _ in range(args.pairs):
        for program in args.programs:
            for beside in args.beside.split(","):
                with tempfile.TemporaryDirectory() as folder:
                    diff = pair(Path(folder), program, args.seconds, beside)
                print(described(program, beside, diff), flush=True)
                alarms, made = alarms + diff.judged.certain, made + 1
    print(f"{alarms} false alarms in {made} pairs; {ALLOWED:.0%} are allowed")
    return 0 if alarms <= ALLOWED * made else 1


if __name__ == "__main__":
    raise SystemExit(main())
