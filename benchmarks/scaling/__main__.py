"""Is the planted reason found as the largest loss?

    python -m benchmarks.scaling [CAUSE …]

Each program runs with one worker and with two, on a machine with two idle cores. Ends with 1 if a cause is not found.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from cutaway.reports import scaling
from cutaway.reports.digests import digest_at

PROGRAM = Path(__file__).with_name("program.py")
EXPECTED = {
    "serial": "serial",
    "slowest": "slowest",
    "lock": "slowest sync",
    "sync": "sync",
    "none": "",
}


def recorded(folder: Path, workers: int, cause: str) -> Path:
    run = folder / f"{cause}-{workers}.cutaway"
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-o",
        str(run),
        str(PROGRAM),
        str(workers),
        cause,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return run


def found(folder: Path, cause: str) -> scaling.Scaled:
    points = []
    for workers in (1, 2):
        path = recorded(folder, workers, cause)
        points.append(scaling.point(path.name, digest_at(path), "step"))
    runs = scaling.scaled(points)
    print(f"\n{cause}: {scaling.sentence(runs)}")
    print("\n".join(scaling.table(runs)))
    return runs[-1]


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for cause in sys.argv[1:] or EXPECTED:
            largest = found(Path(folder), cause).largest
            if largest not in EXPECTED[cause].split() and (largest or EXPECTED[cause]):
                wrong += 1
                print(f"wrong: {cause} was planted, {largest or 'nothing'} was found")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
