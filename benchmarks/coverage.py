"""Does the interval of `cutaway diff` contain the true change?

    python -m benchmarks.coverage [--pairs 5] [--iterations 40] [--beside none,both,second]

Records a program once, then once more with 30 % more work planted in each iteration, and
counts how often the interval of the change contains 30 %. Nine in ten are asked for.
Half of the iteration is simulation and half is an update; all that is planted lies in the
simulation, so its cell must be listed and the update's must not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cutaway
from benchmarks.alarms import BESIDE, load
from cutaway.analysis import Run
from cutaway.analysis.diff import Diff, diff

PLANTED = 0.3
ASKED = 0.9
PROGRAM = """
import sys
import cutaway

simulation, iterations = int(sys.argv[1]), int(sys.argv[2])

def work(units):
    for _ in range(units):
        sum(range(10_000))

for _ in range(iterations):
    cutaway.iteration()
    with cutaway.operation("simulation"):
        work(simulation)
    with cutaway.operation("backpropagation"):
        work(50)
"""


@dataclass(frozen=True)
class Pair:
    """What `diff` says about one pair of runs."""

    found: Diff

    @property
    def covered(self) -> bool:
        said = self.found.judged
        return said.low <= PLANTED <= said.high

    @property
    def listed(self) -> list[str]:
        """The operations that are said to have changed beyond chance."""
        cells = self.found.cells
        return sorted(set(cells.where(cells["certain"])["operation"].tolist()))

    def __str__(self) -> str:
        said = self.found.judged
        clock = "CPU" if said is self.found.cpu else "wall"
        verdict = "covered" if self.covered else "MISSED"
        if not said.known:
            verdict = "no interval"
        interval = f"{said.value:+7.1%}  {said.low:+7.1%} to {said.high:+7.1%}"
        return f"{clock:5} {interval}  {verdict:12} listed: {', '.join(self.listed) or '–'}"


def record(folder: Path, units: int, iterations: int, busy: bool) -> Run:
    program, run = folder / "train.py", folder / f"{units}.cutaway"
    program.write_text(PROGRAM)
    words = [str(program), str(units), str(iterations)]
    command = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(run), *words]
    with load(busy):
        subprocess.run(command, check=True, capture_output=True)
    return cutaway.open(run)


def pair(folder: Path, iterations: int, beside: str) -> Pair:
    """One run without the planted work, one with it, compared."""
    before_busy, after_busy = BESIDE[beside]
    before = record(folder, 50, iterations, before_busy)
    after = record(folder, 50 + round(100 * PLANTED), iterations, after_busy)
    return Pair(diff([before], [after]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.coverage")
    parser.add_argument("--pairs", type=int, default=5, help="for each load")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--beside", default=",".join(BESIDE))
    args = parser.parse_args()
    covered = known = wrong = 0
    for beside in args.beside.split(","):
        for _ in range(args.pairs):
            with tempfile.TemporaryDirectory() as folder:
                found = pair(Path(folder), args.iterations, beside)
            print(f"{beside:7} {found}", flush=True)
            known += found.found.judged.known
            covered += found.covered
            wrong += "backpropagation" in found.listed
    print(f"{covered} of {known} intervals contain +{PLANTED:.0%}")
    print(f"{wrong} times an unchanged operation is listed as changed")
    return int(covered < ASKED * known)


if __name__ == "__main__":
    raise SystemExit(main())
