"""What it costs a Python process to be recorded at all: CPU time of import, start and end, by kind of install.

    python -m benchmarks.startup                       this environment, and an ordinary install made for it
    python -m benchmarks.startup --python bin/python   any Python that has Cutaway installed

Processes with and without recording alternate; the figures are medians, and the least of each, of CPU time. Beside it: the same
in units of the start of a bare Python, which a busy machine does not change, and what is imported from where.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSIDE = """
import os, sys, time
os.environ["CUTAWAY"] = sys.argv[1]
before = set(sys.modules)
begin = time.process_time_ns()
import cutaway.record.activation
took = time.process_time_ns() - begin
new = {name.partition(".")[0] for name in set(sys.modules) - before}
foreign = new - {"cutaway"} - sys.stdlib_module_names
print(took, len(set(sys.modules) - before), ",".join(sorted(foreign)) or "none")
"""


def installed(folder: Path) -> str:
    """A fresh environment with a wheel of this package in it, as users have it; returns its Python."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True
    )
    pip = [sys.executable, "-m", "pip"]
    here = (
        ["--no-build-isolation"]
        if importlib.util.find_spec("scikit_build_core")
        else []
    )
    wheels = folder / "wheels"
    subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", *here, "-w", str(wheels), str(ROOT)],
        check=True,
    )
    python = str(folder / "bin" / "python")
    (wheel,) = wheels.iterdir()
    options = ["-q", "--no-deps", "--no-index", "--compile"]
    subprocess.run(
        [*pip, "--python", python, "install", *options, str(wheel)], check=True
    )
    return python


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "CUTAWAY"}


def whole_process_ms(python: str, environment: dict[str, str]) -> float:
    """CPU time of a process that does nothing."""
    pid = os.posix_spawn(python, [python, "-c", "pass"], environment)
    _, status, used = os.wait4(pid, 0)
    assert status == 0
    return (used.ru_utime + used.ru_stime) * 1000


def measure(name: str, python: str, repeats: int) -> str:
    """One row of the table."""
    bare, recorded, inside = [], [], []
    modules = foreign = ""
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run.cutaway"
        Path(run).mkdir()  # as `cutaway run` has made it
        for _ in range(repeats):
            bare.append(whole_process_ms(python, _environment()))
            recorded.append(
                whole_process_ms(python, {**_environment(), "CUTAWAY": run})
            )
            done = subprocess.run(
                [python, "-c", INSIDE, run],
                env=_environment(),
                check=True,
                capture_output=True,
                text=True,
            )
            took, modules, foreign = done.stdout.split()
            inside.append(int(took) / 1e6)
    added = statistics.median(r - b for r, b in zip(recorded, bare, strict=True))
    middle = statistics.median(inside)
    return (
        f"| {name} | {min(inside):.1f} / {middle:.1f} ms | {middle / statistics.median(bare):.1f} "
        f"| {min(bare):.1f} / {statistics.median(bare):.1f} ms | {added:.1f} ms | {modules} | {foreign} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", help="a Python that has Cutaway installed")
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    print("| install | import and start, least / median | in bare starts | bare `python -c pass` "
          "| added to a whole process | modules | outside the standard library |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    if arguments.python:
        print(measure(arguments.python, arguments.python, arguments.repeats))
        return
    with tempfile.TemporaryDirectory() as folder:
        ordinary = installed(Path(folder) / "venv")
        print(measure("ordinary", ordinary, arguments.repeats))
        print(measure("editable", sys.executable, arguments.repeats))


if __name__ == "__main__":
    main()
