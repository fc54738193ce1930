"""Measures everything and prints the tables of docs/evidence/overhead.md: `make bench-overhead`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys

from benchmarks.overhead import disk
from benchmarks.overhead.programs import PROGRAMS, WITHOUT_TORCH
from benchmarks.overhead.statistics import ratio
from benchmarks.overhead.tools import TOOLS


def measure(program: str, tool: str, seconds: float) -> str:
    command = [
        sys.executable,
        "-m",
        "benchmarks.overhead.switched",
        program,
        tool,
        "--seconds",
        str(seconds),
    ]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        return f"failed: {done.stderr.strip().splitlines()[-1]}"
    blocks = json.loads(done.stdout.splitlines()[-1])
    # py-spy stops the program from outside: that costs the program time, but hardly any CPU time.
    clock = "wall_ns" if tool == "py-spy" else "thread_ns"
    return str(ratio(blocks, clock))


def overhead(programs: list[str], tools: list[str], seconds: float) -> list[str]:
    lines = [
        "| | " + " | ".join(PROGRAMS[p][0] for p in programs) + " |",
        "|---" * (len(programs) + 1) + "|",
    ]
    for tool in tools:
        cells = []
        for program in programs:
            # What a peer costs is seen in half the time.
            cells.append(
                measure(
                    program,
                    tool,
                    seconds if "Cutaway" in TOOLS[tool][0] else seconds / 2,
                )
            )
            print(
                f"{TOOLS[tool][0]}, {PROGRAMS[program][0]}: {cells[-1]}",
                file=sys.stderr,
            )
        name = TOOLS[tool][0] + (" (wall time)" if tool == "py-spy" else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    with_torch = [name for name in PROGRAMS if name not in WITHOUT_TORCH]
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=with_torch)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument(
        "--seconds",
        type=float,
        default=40,
        help="for each cell of the table; half as long for peers",
    )
    parser.add_argument("--only", choices=("switched", "disk"))
    args = parser.parse_args()
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n"
    )
    if args.only in (None, "disk"):
        print("\n".join(disk.report()) + "\n")
    if args.only in (None, "switched"):
        print("\n".join(overhead(args.programs, args.tools, args.seconds)))


if __name__ == "__main__":
    main()
