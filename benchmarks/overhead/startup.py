"""What it costs a Python process to be recorded at all: import and start, in an ordinary (not editable) install too.

python -m benchmarks.overhead.startup
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMED = """
import time
before = time.perf_counter_ns()
import cutaway.record.activation
print(time.perf_counter_ns() - before)
"""


def installed(folder: Path) -> str:
    """A fresh environment with the package installed as users do; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder), "--without-pip"], check=True)
    python = str(folder / "bin" / "python")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *options, str(ROOT)], check=True
    )
    return python


def whole_process_ms(python: str, repeats: int) -> dict[str, float]:
    """Wall time of `python -c pass`, recorded and not, one after the other; medians."""
    times: dict[str, list[float]] = {"without": [], "recorded": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(repeats):
            for kind, values in times.items():
                environment = {k: v for k, v in os.environ.items() if k != "CUTAWAY"}
                if kind == "recorded":
                    environment["CUTAWAY"] = f"{folder}/{number}.cutaway"
                before = time.perf_counter()
                subprocess.run([python, "-c", "pass"], env=environment, check=True)
                values.append((time.perf_counter() - before) * 1000)
    return {kind: statistics.median(values) for kind, values in times.items()}


def inside_ms(python: str, repeats: int) -> float:
    """Import and start as the process itself sees them; median."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(repeats):
            # Set inside, so that the start-up file of the interpreter does not do it before we can time it.
            code = f"import os; os.environ['CUTAWAY'] = '{folder}/{number}.cutaway'" + TIMED
            environment = {k: v for k, v in os.environ.items() if k != "CUTAWAY"}
            done = subprocess.run(
                [python, "-c", code], env=environment, check=True, capture_output=True, text=True
            )
            times.append(int(done.stdout) / 1e6)
    return statistics.median(times)


def report(repeats: int = 20) -> list[str]:
    lines = ["| install | import and start | `python -c pass` | the same, recorded |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, python in (("editable", sys.executable), ("ordinary", installed(Path(folder) / "venv"))):
            whole = whole_process_ms(python, repeats)
            inside = inside_ms(python, repeats)
            lines.append(
                f"| {name} | {inside:.1f} ms | {whole['without']:.1f} ms | {whole['recorded']:.1f} ms |"
            )
    return lines


if __name__ == "__main__":
    print("\n".join(report()))
