"""Import + breakdown of a Kineto trace, beside HolisticTraceAnalysis's load + temporal breakdown of the same file.

    python benchmarks/imports.py [TRACE.json.gz] [--rounds 5]

Both run in fresh processes, in turn, `--rounds` times; the ratio of the medians is printed, of real and of CPU time. HTA
is put into a throw-away environment of its own (`--environment DIR` keeps it for the next time). Without a trace, the
largest of ../shared/traces is taken, or a synthetic one of 120,000 events where that is not at hand.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "traces"
HTA = "HolisticTraceAnalysis==0.5.0"

OURS = """
import sys, time
begin = time.perf_counter()
from pathlib import Path
import cutaway
from cutaway.trace.imports import import_files
import_files([Path(sys.argv[1])], Path(sys.argv[2]) / "run.cutaway")
run = cutaway.open(Path(sys.argv[2]) / "run.cutaway")
summary, cells = run.summary(), run.breakdown()
print(time.perf_counter() - begin)
"""

THEIRS = """
import sys, time
begin = time.perf_counter()
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=sys.argv[2])
breakdown = analysis.get_temporal_breakdown(visualize=False)
print(time.perf_counter() - begin)
"""


def largest() -> Path | None:
    """The Kineto trace with the most bytes behind its packing."""
    traces = sorted(SHARED.glob("kineto*/*.json.gz"), key=_unpacked_size)
    return traces[-1] if traces else None


def _unpacked_size(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[-4:], "little")


def synthetic(folder: Path) -> Path:
    """A trace in the form of Kineto: operators, launches and kernels."""
    rng = random.Random(0)
    events = []
    for i in range(40_000):
        at = 30 * i
        host = {"ph": "X", "pid": 1, "tid": 1}
        events.append(
            {
                **host,
                "cat": "cpu_op",
                "name": f"aten::op{i % 97}",
                "ts": at,
                "dur": 20,
                "args": {"External id": i},
            }
        )
        events.append(
            {
                **host,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": at + 5,
                "dur": 5,
                "args": {"correlation": i},
            }
        )
        work = {
            "device": 0,
            "stream": 7,
            "correlation": i,
            "grid": [64, 1, 1],
            "block": [128, 1, 1],
        }
        length = rng.randrange(1, 28)
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": 7,
                "cat": "kernel",
                "name": f"kernel{i % 53}",
                "ts": at + 15,
                "dur": length,
                "args": work,
            }
        )
    path = folder / "synthetic.json.gz"
    with gzip.open(path, "wt") as file:
        json.dump(
            {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events},
            file,
        )
    return path


def hta_python(folder: Path) -> str:
    """The interpreter of an environment with HTA in it."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"Installing {HTA} into {folder} …", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", HTA], check=True)
    return str(python)


def measure(python: str, program: str, trace: Path) -> tuple[float, float, float]:
    """Seconds inside the process, imports included; seconds around it; seconds of CPU it took."""
    with tempfile.TemporaryDirectory() as scratch:
        begin, used = time.perf_counter(), cpu_of_children()
        done = subprocess.run(
            [python, "-c", program, str(trace), scratch],
            capture_output=True,
            text=True,
            check=False,
        )
        around = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{python} failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1]), around, cpu_of_children() - used


def cpu_of_children() -> float:
    """Seconds of CPU of all processes that were started from here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure in turn and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--environment", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trace = args.trace or largest() or synthetic(Path(scratch))
        theirs_python = hta_python(args.environment or Path(scratch) / "hta")
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(measure(sys.executable, OURS, trace))
            theirs.append(measure(theirs_python, THEIRS, trace))
    print(f"{trace.name}, medians of {args.rounds}, in turn")
    for position, what in enumerate(
        ("in the process, from its first import on", "around the process", "CPU")
    ):
        a, b = (
            statistics.median(times[position] for times in side)
            for side in (ours, theirs)
        )
        print(f"{what}: cutaway {a:.2f} s, HTA {b:.2f} s, ratio {b / a:.1f}")


if __name__ == "__main__":
    main()
