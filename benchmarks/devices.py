"""What the OpenCL layer adds to a launch: python benchmarks/devices.py

The same program with and without the recording, in turn; CPU time of the launching thread for each launch (a kernel with
its argument set anew), the smallest of each, because everything else on the machine only adds to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cutaway.record import devices

ROUNDS = 5
LAUNCHES = 2000
PROGRAM = f"""
import time, numpy as np, pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, "__kernel void nop(__global int *v, int n) {{}}").build(), "nop")
memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
best = float("inf")
for _ in range(5):
    started = time.thread_time_ns()
    for i in range({LAUNCHES}):
        kernel(queue, (1,), (1,), memory, np.int32(i))
    best = min(best, (time.thread_time_ns() - started) / {LAUNCHES})
    queue.finish()
print(best)
"""


def main() -> int:
    plain, recorded = [], []
    for _ in range(ROUNDS):
        plain.append(launch_ns({}))
        with tempfile.TemporaryDirectory() as folder:
            run = str(Path(folder) / "b.cutaway")
            Path(run).mkdir()
            recorded.append(
                launch_ns(
                    {"CUTAWAY": f"{run}?layers=0", **devices.environment("opencl", {})}
                )
            )
    added = min(recorded) - min(plain)
    print(
        f"a launch: {min(plain):.0f} ns plain, {min(recorded):.0f} ns recorded, {added:.0f} ns added"
    )
    print(
        "(three records: the call that sets an argument, twice, and the launch; the kernel's own is written elsewhere)"
    )
    return 0


def launch_ns(environment: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
