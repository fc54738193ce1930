"""What an export costs: seconds of CPU and memory for a run of many calls, in each format.

python benchmarks/exports.py [--calls 3000000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from cutaway.trace.exports import FORMATS
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

EXPORT = """
import resource, sys, time
from pathlib import Path
from cutaway.analysis.exports import export
begin = time.process_time()
count = export(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(f"{sys.argv[2]:<11} {time.process_time() - begin:6.1f} s   {peak:5d} MB resident")
"""
BLOCK = 100_000


def make(path: Path, calls: int) -> None:
    """One thread that makes calls of 500 ns, one each microsecond."""
    with RunWriter(path) as run:
        process = run.process(pid=1, name="main")
        thread = process.thread(tid=1, name="MainThread")
        ids = np.array(
            [process.call(layer="backend", fn=f"function {i}") for i in range(50)]
        )
        for first in range(0, calls, BLOCK):
            number = np.arange(first, min(first + BLOCK, calls))
            thread.write(number * 1000 + 1000, 500, Kind.CALL, ids[number % 50])
        process.exit(code=0, t=calls * 1000 + 2000)


def main() -> None:
    """Export in a fresh process for each format."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=3_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch) / "run.cutaway", args.calls)
        print(f"{args.calls:,} calls")
        for format in FORMATS:
            words = [
                sys.executable,
                "-c",
                EXPORT,
                f"{scratch}/run.cutaway",
                format,
                f"{scratch}/{format}",
            ]
            subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
